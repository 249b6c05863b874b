"""What is to be decided on the clustering that is shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.completeness.calibration import agreement
from engine.records.goals import (
    LIKELY,
    DeskDecision,
    DeskOrder,
    GoalGroup,
    GroupStates,
    Pair,
    Proposal,
    ReviewProgress,
    said_yes,
)
from engine.services.goals.reader import GoalReader
from engine.store import goal_answers, settings
from engine.store.project import Project
from engine.views.decision_log import DecisionLog
from engine.views.merge_features import pair_features
from engine.views.merge_queue import DESK, chosen
from engine.views.merge_queue_cache import MergeQueueCache, QueueSnapshot

CALLS = 4
"""Model calls of a pair, before any was asked."""
NEAR = 3

WHY: dict[DeskOrder, str] = {
    "similarity": "the most similar descriptions left",
    "probability": "the most probable merge left",
    "teaching": "its answer teaches most",
}


class MergeQueue(GoalReader):
    """Undecided pairs of the clustering that is shown, with what speaks for and against merging them."""

    def __init__(
        self,
        project: Project,
        kept: DecisionLog,
        standing: MergeQueueCache,
        asking: Callable[[], bool] = lambda: False,
    ) -> None:
        """`asking` tells whether the model is being asked about pairs now."""
        super().__init__(project, kept, standing)
        self._asking = asking

    def proposal(self, passed: Sequence[Pair] = ()) -> Proposal | None:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            return None
        now = self._now()
        skipped = {frozenset(pair) for pair in passed}
        for pair in now.left():
            if frozenset(pair) not in skipped:
                return self._proposals(now, [pair], WHY[now.order])[0]
        return None

    def pair(self, a: str, b: str) -> Proposal:
        """See `engine.services.goals.port.Goals`."""
        now = self._now()
        for key in (a, b):
            now.table.view.desk.group(key)
        return self._proposals(now, [now.table.ordered(a, b)], "chosen by hand")[0]

    def above(self, probability: float) -> list[Proposal]:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            return []
        now = self._now()
        left = now.left("probability")
        found = _probabilities(now, left)
        pairs = [pair for pair, p in zip(left, found, strict=True) if p >= probability]
        return self._proposals(now, pairs, f"at least {probability:g}")

    def below(self, probability: float) -> list[Proposal]:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            return []
        now = self._now()
        left = now.left("probability")
        found = _probabilities(now, left)
        pairs = [pair for pair, p in zip(left, found, strict=True) if p < probability]
        return self._proposals(now, pairs, f"under {probability:g}")

    def progress(self) -> ReviewProgress:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            with self._project.reading() as conn:
                order, floor = chosen(conn)
            nothing = agreement([])
            return ReviewProgress(0, 0, 0, 0, 0, 0, None, nothing, 0, floor, order, False, False)
        now = self._now()
        table, left = now.table, now.left()
        likely = _likely(now, left)
        unasked = sum(1 for pair in likely if table.answer(pair) is None)
        standing = self._kept.standing(table.view.stored.id)
        with self._project.reading() as conn:
            cost = goal_answers.cost(conn, table.view.stored.pair_config)
        return ReviewProgress(
            merged=sum(1 for d in standing if d.kind == "merge"),
            refused=sum(1 for d in standing if d.kind in ("apart", "never")),
            left=len(left),
            likely=len(likely),
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

    def _now(self) -> QueueSnapshot:
        """The desk of the clustering that is shown."""
        return self._standing.now(self.view().stored.id)

    def _proposals(self, now: QueueSnapshot, pairs: Sequence[Pair], why: str) -> list[Proposal]:
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

    def _set(self, name: str, value: str | float) -> None:
        self._project.write(
            lambda conn: settings.put(conn, DESK, {**settings.get(conn, DESK, {}), name: value})
        )


def _probabilities(now: QueueSnapshot, pairs: Sequence[Pair]) -> list[float]:
    if not pairs:
        return []
    found: list[float] = now.model.probabilities(pair_features(now.table, pairs)).tolist()
    return found


def _likely(now: QueueSnapshot, pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair, p in zip(pairs, _probabilities(now, pairs), strict=True) if p >= LIKELY]


def _together(a: GoalGroup, b: GoalGroup) -> GroupStates:
    return GroupStates(
        a.states.complete + b.states.complete,
        a.states.incomplete + b.states.incomplete,
        a.states.borderline + b.states.borderline,
        a.states.unscored + b.states.unscored,
    )


def _word_and_person(decisions: Sequence[DeskDecision]) -> list[tuple[bool, bool]]:
    """What the model's word was, and what the person decided, of every pair on which there are both; a list that was
    decided at once says nothing of the pairs on it."""
    found = []
    for decision in decisions:
        evidence = decision.evidence or {}
        word = said_yes(evidence.get("yes"), evidence.get("yes_reversed"))
        one = decision.author == "human" and decision.kind in ("merge", "apart", "never")
        if word is not None and one and "at_once" not in evidence:
            found.append((word, decision.kind == "merge"))
    return found
