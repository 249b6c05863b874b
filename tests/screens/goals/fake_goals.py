"""The port `Goals` in memory: a small desk that works, over the conversations of a fake project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from engine.errors import UsageError
from engine.events import DataChanged
from engine.records.calibration import Agreement, Share
from engine.records.goals import (
    LIKELY,
    DecisionKind,
    DeskOrder,
    Drawn,
    Evidence,
    GoalDecision,
    GoalGroup,
    GoalRequest,
    Pair,
    Proposal,
    ReviewProgress,
    SplitPart,
)
from engine.records.runs import Estimate
from tests.screens.goals.fake_groups import Clusters, FakeGroups
from tests.screens.merge_review.fake_desk import Desk, likeness


class FakeGoals(FakeGroups):
    """The merge desk over them."""

    # The desk

    def proposal(self, passed: Sequence[Pair] = ()) -> Proposal | None:
        left = {frozenset(pair) for pair in passed}
        return next((p for p in self._proposals() if frozenset(p.pair) not in left), None)

    def pair(self, a: str, b: str) -> Proposal:
        desk = self._desk()
        for key in (a, b):
            if key not in desk.groups:
                raise UsageError(f"There is no group {key} any more.")
        return self._proposal(a, b, desk)

    def above(self, probability: float) -> list[Proposal]:
        found = [p for p in self._proposals() if p.evidence.probability >= probability]
        return sorted(found, key=lambda p: -p.evidence.probability)

    def below(self, probability: float) -> list[Proposal]:
        found = [p for p in self._proposals() if p.evidence.probability < probability]
        return sorted(found, key=lambda p: -p.evidence.probability)

    def progress(self) -> ReviewProgress:
        given = [d for d in self.decisions if d.kind in ("merge", "apart", "never")]
        merged = sum(d.kind == "merge" for d in given)
        pairs, likely = self._proposals(), self.above(LIKELY)
        unasked = sum(p.evidence.yes is None for p in likely)
        same = sum((d.probability or 0) >= 0.5 and d.kind == "merge" for d in given)
        agreement = Agreement(len(given), Share(same, len(given), 0, 1) if given else None, None)
        return ReviewProgress(
            merged, len(given) - merged, len(pairs), len(likely), unasked, 3 * unasked,
            4.0 * unasked or None, agreement, len(given), self.floor, self.order, not pairs, self.asking,
        )  # fmt: skip

    def merge(self, shown: Proposal, label: str | None = None) -> GoalDecision:
        name = label or shown.evidence.label or shown.a.label
        return self._decide("merge", shown.pair, f"merged into {name}", name, shown)

    def apart(self, shown: Proposal, *, never: bool = False) -> GoalDecision:
        kind: DecisionKind = "never" if never else "apart"
        return self._decide(kind, shown.pair, "kept apart", "", shown)

    def merge_all(self, shown: Sequence[Proposal], probability: float) -> int:
        merged, act = 0, None
        while found := self.above(probability):
            given = self.merge(found[0])
            act = act or given.act
            self.decisions[-1] = replace(given, act=act)
            merged += 1
        return merged

    def refuse_all(self, shown: Sequence[Proposal], probability: float) -> int:
        act = None
        for proposal in shown:
            given = self.apart(proposal)
            act = act or given.act
            self.decisions[-1] = replace(given, act=act)
        return len(shown)

    def settle_preview(self) -> list[Drawn]:
        return [
            Drawn(group.label, group.size, count, count - 1) for group, count in self._drawing()
        ]

    def settle(self) -> int:
        moved, act = 0, None
        for group, count in self._drawing():
            given = self.move(range(count), group.id)
            act = act or given.act
            self.decisions[-1] = replace(given, act=act)
            moved += count
        return moved

    def _drawing(self) -> list[tuple[GoalGroup, int]]:
        settled = any(given.kind == "move" for given in self.decisions)
        return [] if settled else [(group, 3 - nth) for nth, group in enumerate(self.groups()[:2])]

    def split_preview(self, group_id: str, parts: int = 2) -> list[SplitPart]:
        members = self.members(group_id)
        found = [members[nth::parts] for nth in range(parts)]
        return [
            SplitPart(
                tuple(part[0].text.split()[:4]),
                len(part),
                tuple(part[:10]),
                tuple(member.conversation_id for member in part),
            )
            for part in found
            if part
        ]

    def split(self, group_id: str, parts: Sequence[Sequence[int]]) -> GoalDecision:
        self.pair(group_id, group_id)
        self.splits[self._next] = tuple(tuple(part) for part in parts)
        return self._decide("split", (group_id,), "split")

    def move(self, conversation_ids: Sequence[int], group_id: str | None) -> GoalDecision:
        self.moves[self._next] = tuple(conversation_ids), group_id
        return self._decide("move", (group_id,) if group_id else (), "moved")

    def rename(self, group_id: str, label: str) -> GoalDecision:
        return self._decide("rename", (group_id,), f"renamed to {label}", label)

    def pin(self, group_id: str, *, on: bool) -> GoalDecision:
        return self._decide("pin" if on else "unpin", (group_id,), "pinned" if on else "unpinned")

    def undo(self) -> GoalDecision | None:
        self._may_write()
        if not self.decisions:
            return None
        act = self.decisions[-1].act
        taken = [given for given in self.decisions if given.act == act]
        self.decisions = [given for given in self.decisions if given.act != act]
        self.undone.append(taken)
        self._emit(DataChanged(frozenset({"goal_decision"})))
        return replace(taken[0], stands=False, count=len(taken))

    def redo(self) -> GoalDecision | None:
        self._may_write()
        if not self.undone:
            return None
        self.decisions += self.undone.pop()
        self._emit(DataChanged(frozenset({"goal_decision"})))
        return self.decisions[-1]

    def history(self) -> list[GoalDecision]:
        taken = [replace(given, stands=False) for act in self.undone for given in act]
        return sorted([*self.decisions, *taken], key=lambda given: -given.id)

    def set_order(self, order: DeskOrder) -> None:
        self._may_write()
        self.order = order

    def set_floor(self, floor: float) -> None:
        self._may_write()
        self.floor = floor

    # Jobs

    def estimate(self, wish: GoalRequest) -> Estimate:
        if wish.embedder == "nowhere":
            raise UsageError("There is no embedder nowhere.", "tfidf and minilm are here.")
        return Estimate(36, None, None, 5.0, "SmolLM2-135M-Instruct")

    def start(self, wish: GoalRequest) -> int:
        self.wished.append(wish)
        return len(self.wished)

    def start_asking(self) -> int | None:
        self.started.append("ask")
        return 1

    def start_assign(self) -> int:
        self.started.append("assign")
        return 1

    def start_stability(self) -> int:
        self.started.append("stability")
        return 1

    # Within

    @property
    def _next(self) -> int:
        acts = [*self.decisions, *(given for act in self.undone for given in act)]
        return 1 + max((given.id for given in acts), default=0)

    def _decide(
        self,
        kind: DecisionKind,
        sides: tuple[str, ...],
        text: str,
        label: str = "",
        proposal: Proposal | None = None,
    ) -> GoalDecision:
        self._may_write()
        desk, number = self._desk(), self._next
        for side in sides:
            if side not in desk.groups:
                raise UsageError(f"There is no group {side} any more.")
        made = {
            "merge": (f"d{number}",),
            "split": tuple(f"d{number}.{nth}" for nth in range(len(self.splits.get(number, ())))),
        }.get(kind, ())
        given = GoalDecision(
            number, kind, sides, tuple(desk.groups[side].label for side in sides), made,
            label if kind in ("merge", "rename") else text, "human", "",
            None if proposal is None else proposal.evidence.probability,
            f"2026-10-31T10:{number % 60:02d}:00Z", False, True, number,
        )  # fmt: skip
        self.undone.clear()
        self.decisions.append(given)
        self._emit(DataChanged(frozenset({"goal_decision"})))
        return given

    def _proposals(self) -> list[Proposal]:
        desk = self._desk()
        keys = [key for key, group in desk.groups.items() if not group.pinned]
        found = [
            self._proposal(a, b, desk)
            for nth, a in enumerate(keys)
            for b in keys[nth + 1 :]
            if frozenset((a, b)) not in desk.refused
            and likeness(desk.groups[a].label, desk.groups[b].label) >= self.floor
        ]
        worth: Mapping[DeskOrder, Callable[[Proposal], float]] = {
            "similarity": lambda p: -p.evidence.description_similarity,
            "probability": lambda p: -p.evidence.probability,
            "teaching": lambda p: abs(p.evidence.probability - 0.5),
        }
        return sorted(found, key=worth[self.order])

    def _proposal(self, a: str, b: str, desk: Desk) -> Proposal:
        if len(desk.groups[a].members) < len(desk.groups[b].members):
            a, b = b, a
        one, other = self._row(a, desk, 1), self._row(b, desk, 2)
        alike = likeness(one.label, other.label)
        plain = Evidence(0.2 + 0.7 * alike, alike, alike * 0.95, alike / 4)
        near = tuple((desk.groups[key].label, 0.3) for key in desk.groups if key not in (a, b))
        return Proposal(
            one,
            other,
            self.answers.get(frozenset((a, b)), plain),
            near[:3],
            near[1:4],
            self._states([*desk.groups[a].members, *desk.groups[b].members]),
            "the most similar pair left",
        )


CLUSTERS: Clusters = (
    ("Exchange a damaged lamp", (6, 12, 18, 24, 30, 36, 3)),
    ("Move a flight to another day", (1, 7, 13, 19, 25)),
    ("Return a damaged lamp", (2, 8, 14, 20)),
    ("Book a flight", (5, 11, 17, 23)),
    ("Book a table", (4, 10, 16)),
    ("Count files", (9, 15, 21, 27)),
    ("Move a table booking", (22, 28)),
)
"""Seven clusters of the conversations of `fakes.project()`."""
OUTLIERS = (26, 29)
