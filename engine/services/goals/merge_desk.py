"""Deciding on the clustering that is shown: every method is one act, stored before it returns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np

from engine.errors import UsageError
from engine.goals.clusters.clustering import split
from engine.goals.embedders.vectors import Numbers
from engine.goals.merges.merge_state import Ids, MergeState
from engine.goals.questions.distinctive_words import distinctive_words
from engine.records.goals import (
    DeskDecision,
    DeskOrder,
    Drawn,
    GoalDecision,
    Proposal,
    SplitPart,
)
from engine.services.goals.merge_queue import MergeQueue
from engine.store.clusterings import word_label
from engine.store.project import Project
from engine.views.clustering_view import GoalView
from engine.views.decision_log import DecisionLog, Plan
from engine.views.goal_inputs import LazyTexts, source_of
from engine.views.merge_queue_cache import MergeQueueCache
from engine.views.settle_moves import settling

SHOWN_OF_PART = 10
"""Members of a part in the preview of a split."""
SPLIT_SEED = 0


class MergeDesk(MergeQueue):
    """The merge desk of one project."""

    def __init__(
        self,
        project: Project,
        kept: DecisionLog,
        standing: MergeQueueCache,
        changed: Callable[[], None],
        asking: Callable[[], bool] = lambda: False,
    ) -> None:
        """Puts the parts together.

        Args:
            changed: Called after every act.
            asking: Tells whether the model is being asked about pairs now.
        """
        super().__init__(project, kept, standing, asking)
        self._changed = changed

    def merge(self, shown: Proposal, label: str | None = None) -> GoalDecision:
        """See `engine.services.goals.port.Goals`."""
        decision = _with_evidence(_merge(shown, label), shown)
        return self._decide(lambda desk: [decision])

    def apart(self, shown: Proposal, *, never: bool = False) -> GoalDecision:
        """See `engine.services.goals.port.Goals`."""
        decision = _with_evidence(DeskDecision("never" if never else "apart", shown.pair), shown)
        return self._decide(lambda desk: [decision])

    def merge_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """See `engine.services.goals.port.Goals`."""
        decisions = [_listed(_merge(p, None), p, probability) for p in shown]

        def plan(desk: MergeState) -> Iterator[DeskDecision]:
            for decision in decisions:
                first, second = (desk.now(key) for key in decision.sides)
                if first and second and first != second and not desk.decided(first, second):
                    yield replace(decision, sides=(first, second))

        return len(self._act(plan))

    def refuse_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """See `engine.services.goals.port.Goals`."""
        decisions = [_listed(DeskDecision("apart", p.pair), p, probability) for p in shown]

        def plan(desk: MergeState) -> Iterator[DeskDecision]:
            for decision in decisions:
                stands = all(key in desk.current for key in decision.sides)
                if stands and not desk.decided(*decision.sides):
                    yield decision

        return len(self._act(plan))

    def settle_preview(self) -> list[Drawn]:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None:
            return []
        desk = self.view().desk
        found = []
        for move in self._settling():
            group, ids = desk.groups[move.sides[0]], np.asarray(move.parts[0])
            outliers = int(np.isin(ids, desk.outliers).sum())
            found.append(Drawn(group.label, group.size, len(ids), outliers))
        return sorted(found, key=lambda one: -one.count)

    def settle(self) -> int:
        """See `engine.services.goals.port.Goals`."""
        moves = self._settling()
        self._act(lambda desk: moves)
        return sum(len(move.parts[0]) for move in moves)

    def _settling(self) -> list[DeskDecision]:
        """By a rule, also where a person lets it: nobody looked at each conversation, so none of them is held fast."""
        view = self.view()
        decided = self._kept.standing(view.stored.id)
        return settling(view, self._standing, decided, "auto")

    def split_preview(self, group_id: str, parts: int = 2) -> list[SplitPart]:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        view.desk.group(group_id)
        members = view.members(group_id)
        rows = split(
            self._standing.space(view.stored).of(members),
            np.arange(len(members)),
            parts,
            SPLIT_SEED,
        )
        labels = np.zeros(len(members), dtype=np.int32)
        for number, own in enumerate(rows):
            labels[own] = number
        words = self._words(view, members, labels)
        by_id = {row.conversation_id: row for row in self.members(group_id)}
        found = []
        for number, own in enumerate(rows):
            ids = members[own]
            space = self._standing.space(view.stored)
            mean = space.of(ids).mean(axis=0)
            order = np.argsort(-(space.of(ids) @ mean), kind="stable")[:SHOWN_OF_PART]
            found.append(
                SplitPart(
                    words[number],
                    len(ids),
                    tuple(by_id[int(key)] for key in ids[order]),
                    tuple(ids.tolist()),
                )
            )
        return found

    def split(self, group_id: str, parts: Sequence[Sequence[int]]) -> GoalDecision:
        """See `engine.services.goals.port.Goals`. Parts are named after their words."""
        view = self.view()
        view.desk.group(group_id)
        members = view.members(group_id)
        wanted = [array("q", sorted(set(part))) for part in parts]
        strange = {key for part in wanted for key in part}.difference(members.tolist())
        if strange:
            raise UsageError("A part names what is not in the group.", "Look at its members again.")
        labels = np.full(len(members), len(wanted), dtype=np.int32)
        for number, part in enumerate(wanted):
            labels[np.isin(members, part)] = number
        words = self._words(view, members, labels)
        description = view.desk.groups[group_id].description
        names = tuple((word_label(words[n]), description) for n in sorted(words))
        decision = DeskDecision("split", (group_id,), names, tuple(wanted))
        return self._decide(lambda desk: [decision])

    def move(self, conversation_ids: Sequence[int], group_id: str | None) -> GoalDecision:
        """See `engine.services.goals.port.Goals`."""
        view = self.view()
        known = {one.conversation_id for one in view.assigned}.union(view.desk.everyone.tolist())
        if not known.issuperset(conversation_ids):
            raise UsageError(
                "This clustering does not know all of these conversations.",
                "Assign what came after it first.",
            )
        part = array("q", sorted(set(conversation_ids)))
        sides = () if group_id is None else (group_id,)
        return self._decide(lambda desk: [DeskDecision("move", sides, parts=(part,))])

    def rename(self, group_id: str, label: str) -> GoalDecision:
        """See `engine.services.goals.port.Goals`."""
        name = " ".join(label.split())
        return self._decide(
            lambda desk: [
                DeskDecision("rename", (group_id,), ((name, desk.group(group_id).description),))
            ]
        )

    def pin(self, group_id: str, *, on: bool) -> GoalDecision:
        """See `engine.services.goals.port.Goals`."""
        return self._decide(lambda desk: [DeskDecision("pin" if on else "unpin", (group_id,))])

    def undo(self) -> GoalDecision | None:
        """See `engine.services.goals.port.Goals`."""
        return self._turned(self._kept.undo)

    def redo(self) -> GoalDecision | None:
        """See `engine.services.goals.port.Goals`."""
        return self._turned(self._kept.redo)

    def history(self) -> list[GoalDecision]:
        """See `engine.services.goals.port.Goals`."""
        return [] if self.shown() is None else self._kept.history(self.view().stored.id)

    def set_order(self, order: DeskOrder) -> None:
        """See `engine.services.goals.port.Goals`."""
        self._set("order", order)
        self._changed()

    def set_floor(self, floor: float) -> None:
        """See `engine.services.goals.port.Goals`."""
        if not -1 <= floor <= 1:
            raise UsageError("A similarity lies between -1 and 1.", "Choose such a floor.")
        self._set("floor", floor)
        self._changed()

    # Within

    def _decide(self, plan: Plan) -> GoalDecision:
        (decision,) = self._act(plan)
        return decision

    def _act(self, plan: Plan) -> list[GoalDecision]:
        done = self._kept.decide(self.view().stored.id, plan)
        self._changed()
        return done

    def _turned(self, turn: Callable[[int], GoalDecision | None]) -> GoalDecision | None:
        found = turn(self.view().stored.id)
        if found is not None:
            self._changed()
        return found

    def _words(self, view: GoalView, members: Ids, labels: Numbers) -> dict[int, tuple[str, ...]]:
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(view.stored).shown, members.tolist())
            return distinctive_words(texts, labels)


def _with_evidence(decision: DeskDecision, shown: Proposal) -> DeskDecision:
    """The decision with the evidence that the person saw, and the features that the merge probability learns from."""
    evidence = shown.evidence
    return replace(
        decision,
        model=evidence.model,
        probability=evidence.probability,
        evidence=asdict(evidence),
    )


def _listed(decision: DeskDecision, shown: Proposal, probability: float) -> DeskDecision:
    """A decision on one pair of a list that a person decided at once. It has no features: nobody looked at the pair
    itself, so the merge probability would learn from itself."""
    found = _with_evidence(decision, shown)
    evidence = {key: value for key, value in (found.evidence or {}).items() if key != "features"}
    return replace(found, evidence={**evidence, "at_once": probability})


def _merge(shown: Proposal, label: str | None) -> DeskDecision:
    """The decision to merge a pair under `label`; None takes the label of the proposal, or of a pinned side."""
    pinned = shown.a.pinned or shown.b.pinned
    name = " ".join((label or ("" if pinned else shown.evidence.label)).split())
    description = shown.evidence.description or shown.a.description
    return DeskDecision("merge", shown.pair, ((name, description),) if name else ())
