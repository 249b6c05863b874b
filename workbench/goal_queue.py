"""What is to be decided on the clustering that is shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.completeness.calibration import agreement
from engine.goal_rows import (
    LIKELY,
    DeskDecision,
    DeskOrder,
    DeskProgress,
    GoalGroup,
    GroupStates,
    Pair,
    Proposal,
)
from engine.goals.merging import Floats
from engine.stages.kept_desk import KeptDesk
from engine.stages.pair_odds import features
from engine.stages.pair_queue import DESK, chosen, kept_evidence
from engine.stages.standing import Moment, Standing
from engine.store import goal_answers, settings
from engine.store.project import Project
from workbench.goal_looking import GoalLooking

CALLS = 4
"""Model calls of a pair, before any was asked."""
NEAR = 3

WHY: dict[DeskOrder, str] = {
    "similarity": "the most similar descriptions left",
    "probability": "the most probable merge left",
    "teaching": "its answer teaches most",
}


class GoalQueue(GoalLooking):
    """Undecided pairs of the clustering that is shown, with what speaks for and against merging them."""

    def __init__(
        self,
        project: Project,
        kept: KeptDesk,
        standing: Standing,
        asking: Callable[[], bool] = lambda: False,
    ) -> None:
        """`asking` tells whether the model is being asked about pairs now."""
        super().__init__(project, kept, standing)
        self._asking = asking

    def proposal(self, passed: Sequence[Pair] = ()) -> Proposal | None:
        """See `screens.goal_port.Goals`."""
        if self.shown() is None:
            return None
        now = self._now()
        skipped = {frozenset(pair) for pair in passed}
        for pair in now.left():
            if frozenset(pair) not in skipped:
                return self._proposals(now, [pair], WHY[now.order])[0]
        return None

    def pair(self, a: str, b: str) -> Proposal:
        """See `screens.goal_port.Goals`."""
        now = self._now()
        for key in (a, b):
            now.table.view.desk.group(key)
        return self._proposals(now, [now.table.ordered(a, b)], "chosen by hand")[0]

    def above(self, probability: float) -> list[Proposal]:
        """See `screens.goal_port.Goals`."""
        if self.shown() is None:
            return []
        now = self._now()
        left = now.left("probability")
        if not left:
            return []
        found = _probabilities(now, left)
        pairs = [pair for pair, p in zip(left, found, strict=True) if p >= probability]
        return self._proposals(now, pairs, f"at least {probability:g}")

    def progress(self) -> DeskProgress:
        """See `screens.goal_port.Goals`."""
        if self.shown() is None:
            with self._project.reading() as conn:
                order, floor = chosen(conn)
            nothing = agreement([])
            return DeskProgress(0, 0, 0, 0, 0, 0, None, nothing, 0, floor, order, False, False)
        now = self._now()
        table, left = now.table, now.left()
        unasked = sum(1 for pair in left if table.answer(pair) is None)
        standing = self._kept.standing(table.view.stored.id)
        with self._project.reading() as conn:
            cost = goal_answers.cost(conn, table.view.stored.pair_config)
        return DeskProgress(
            merged=sum(1 for d in standing if d.kind == "merge"),
            refused=sum(1 for d in standing if d.kind in ("apart", "never")),
            left=len(left),
            likely=_likely(now, left),
            unasked=unasked,
            calls=round(unasked * (cost[0] if cost else CALLS)),
            seconds=unasked * cost[1] if cost else None,
            agreement=agreement(_word_and_person(standing)),
            learned_from=now.model.decisions,
            floor=now.floor,
            order=now.order,
            finished=not left,
            asking=self._asking(),
        )

    # Within

    def _now(self) -> Moment:
        """The desk of the clustering that is shown."""
        return self._standing.now(self.view().stored.id)

    def _proposals(self, now: Moment, pairs: Sequence[Pair], why: str) -> list[Proposal]:
        if not pairs:
            return []
        table = now.table
        rows = {row.id: row for row in self.groups()}
        found = []
        for pair, evidence in zip(pairs, now.evidence(pairs), strict=True):
            a, b = (rows[key] for key in pair)
            found.append(
                Proposal(
                    a, b, evidence, table.nearest(a.id, b.id, NEAR), table.nearest(b.id, a.id, NEAR),
                    _together(a, b), why,
                )
            )  # fmt: skip
        return found

    def _shown_for(self, proposal: Proposal) -> dict[str, Any]:
        """What is kept of a proposal beside the decision on it."""
        return kept_evidence(self._now().table, proposal.pair, proposal.evidence)

    def _set(self, name: str, value: str | float) -> None:
        self._project.write(
            lambda conn: settings.put(conn, DESK, {**settings.get(conn, DESK, {}), name: value})
        )


def _probabilities(now: Moment, pairs: Sequence[Pair]) -> Floats:
    return now.model.probabilities(features(now.table, pairs))


def _likely(now: Moment, pairs: Sequence[Pair]) -> int:
    return int((_probabilities(now, pairs) >= LIKELY).sum()) if pairs else 0


def _together(a: GoalGroup, b: GoalGroup) -> GroupStates:
    return GroupStates(
        a.states.complete + b.states.complete,
        a.states.incomplete + b.states.incomplete,
        a.states.borderline + b.states.borderline,
        a.states.unscored + b.states.unscored,
    )


def _word_and_person(decisions: Sequence[DeskDecision]) -> list[tuple[bool, bool]]:
    """What the model's word was, and what the person decided, of every pair on which there are both."""
    found = []
    for decision in decisions:
        evidence = decision.evidence or {}
        said = [evidence.get(name) for name in ("yes", "yes_reversed")]
        words = [value for value in said if isinstance(value, float)]
        if words and decision.author == "human" and decision.kind in ("merge", "apart", "never"):
            found.append((sum(words) / len(words) >= 0.5, decision.kind == "merge"))
    return found
