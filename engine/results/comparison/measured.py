"""What is compared: the measures of each conversation, as columns."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from engine.completeness.records import DecisionRule, StateCounts
from engine.goals.records import NAMELESS
from engine.goals.views.clustering_view import ClusteringView
from engine.questions.calibration import Calibration, completion_rate, state_counts
from engine.questions.records.calibration import CompletionRate
from engine.questions.service.calibration import CHOSEN_BY_SCORE, ScoredConversations
from engine.questions.tables import example_probes
from engine.trees import tables as trees

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NO_GOAL = -1


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """The measures of conversations; every array has one entry a conversation, in the order of ids.

    Attributes:
        score: Normalised score; NaN where there is none.
        success: Probability of success, fitted to verdicts; NaN where there is none.
        entropy, leaves: Mean over the response trees of the conversation; NaN where there is none.
        goal: Number of its goal in `goals`; `NO_GOAL` where it has none.
        goals: Labels.
        rule: The decision rule of their project.
        calibration: What the verdicts of the project say of the errors of its scores.
    """

    ids: Ints
    score: Floats
    turns: Floats
    characters: Floats
    success: Floats
    entropy: Floats
    leaves: Floats
    goal: Ints
    goals: tuple[str, ...]
    rule: DecisionRule
    calibration: Calibration

    @classmethod
    def read(cls, conn: sqlite3.Connection, view: ClusteringView | None) -> Measured:
        """Reads all conversations of a project, with the goals of a clustering or none. Slow: see
        `ScoredConversations.read`."""
        sizes = _columns(conn, "SELECT id, turns, chars FROM conversation ORDER BY id")
        ids = sizes[:, 0].astype(np.int64)
        scored = ScoredConversations.read(conn)
        grown = _columns(
            conn,
            "SELECT conversation_id, avg((entropy_low + entropy_high) / 2), avg(leaves) FROM tree"
            " WHERE config_hash = ? AND reason IS NULL GROUP BY 1 ORDER BY 1",
            trees.chosen(conn),
        )
        likely = example_probes.success_of(conn, ids.tolist())
        last = int(ids[-1]) if len(ids) else 0

        def by_id(keys: Ints, values: Floats) -> Floats:
            table = np.full(last + 1, np.nan)
            table[keys] = values
            return table[ids]

        tree_ids = grown[:, 0].astype(np.int64)
        goal, goals = _goals(view, ids)
        return cls(
            ids=ids,
            score=by_id(scored.ids, scored.scores),
            turns=sizes[:, 1],
            characters=sizes[:, 2],
            success=by_id(np.array(list(likely), np.int64), np.array(list(likely.values()))),
            entropy=by_id(tree_ids, grown[:, 1]),
            leaves=by_id(tree_ids, grown[:, 2]),
            goal=goal,
            goals=goals,
            rule=scored.rule,
            calibration=scored.calibration,
        )

    def part(self, chosen: npt.NDArray[np.bool_]) -> Measured:
        """Those for which `chosen`, of shape (conversations,), is true."""
        return replace(
            self,
            ids=self.ids[chosen],
            score=self.score[chosen],
            turns=self.turns[chosen],
            characters=self.characters[chosen],
            success=self.success[chosen],
            entropy=self.entropy[chosen],
            leaves=self.leaves[chosen],
            goal=self.goal[chosen],
        )

    def of(self, ids: Ints) -> Measured:
        """Those with these ids."""
        return self.part(np.isin(self.ids, ids))

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Whether each has a score."""
        return ~np.isnan(self.score)

    def states(self) -> StateCounts:
        """How many of them are in each state, and their rate of complete ones."""
        return state_counts(self.score, self.rule)

    def counts(self) -> tuple[int, int]:
        """Number of scored conversations at or above the threshold, and of all scored ones."""
        states = self.states()
        return states.above, states.scored

    def rate(self, *, by_score: bool = False) -> CompletionRate:
        """The rate of complete conversations; `by_score` says that they were selected by score or verdict, where the
        errors of the scores are not those of the project."""
        why = CHOSEN_BY_SCORE if by_score else ""
        return completion_rate(self.calibration, self.states(), why)


def _goals(view: ClusteringView | None, ids: Ints) -> tuple[Ints, tuple[str, ...]]:
    """For each id the number of its group in the second result, the labels; `NO_GOAL` for none."""
    if view is None:
        return np.full(len(ids), NO_GOAL), ()
    ranks = np.frombuffer(view.map_of_groups, dtype=">u2")
    rank = np.where(ids < len(ranks), ranks[np.minimum(ids, len(ranks) - 1)], 0).astype(np.int64)
    labels = tuple(view.state.groups[key].label or NAMELESS for key in view.sizes)
    # ranks count from 1; one beyond the last is a conversation in no group
    return np.where(rank <= len(labels), rank - 1, NO_GOAL), labels


def _columns(conn: sqlite3.Connection, sql: str, *values: object) -> Floats:
    """The numbers that a query gives, of shape (rows, columns)."""
    cursor = conn.execute(sql, values)
    width = len(cursor.description)
    flat = np.fromiter(chain.from_iterable(cursor), dtype=np.float64)
    return flat.reshape(-1, width)
