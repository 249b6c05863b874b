"""The part of the port `Goals` that looks at groups, in memory: clusters that are given, and decisions as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import ProjectReadOnly, WorkbenchError
from engine.events import Event
from engine.records.conversations import ConversationRow
from engine.records.goals import (
    ClusteringRow,
    DeskOrder,
    Evidence,
    GoalDecision,
    GoalGroup,
    GoalRequest,
    GroupPeriod,
    GroupStates,
    MapPoint,
    MemberOrder,
    MemberRow,
)
from engine.records.scores import State
from tests.screens.merge_review.fake_desk import Desk, Group, hash_of

Clusters = Sequence[tuple[str, Sequence[int]]]
"""Label and members of each, largest first."""


class FakeGroups:
    """A clustering that is given, two-dimensional vectors, and decisions as a list."""

    def __init__(
        self,
        rows: Callable[[Sequence[int]], list[ConversationRow]],
        emit: Callable[[Event], None],
        clusters: Clusters = (),
        outliers: Sequence[int] = (),
    ) -> None:
        self._rows, self._emit = rows, emit
        self.clusters, self.outliers = clusters, tuple(outliers)
        self.decisions: list[GoalDecision] = []
        self.undone: list[list[GoalDecision]] = []
        self.splits: dict[int, tuple[tuple[int, ...], ...]] = {}
        self.moves: dict[int, tuple[tuple[int, ...], str | None]] = {}
        self.answers: dict[frozenset[str], Evidence] = {}
        self.order: DeskOrder = "similarity"
        self.floor = 0.2
        self.asking = False
        self.read_only: str | None = None
        self.fail_next: WorkbenchError | None = None
        self.wished: list[GoalRequest] = []
        self.started: list[str] = []

    # Looking

    def clusterings(self) -> list[ClusteringRow]:
        if not self.clusters:
            return []
        total = sum(len(members) for _, members in self.clusters) + len(self.outliers)
        return [
            ClusteringRow(
                1, "c0ffee", 4, "2026-10-31T09:00:00Z", "first-user", "tfidf", len(self.clusters),
                0, total, len(self._desk().groups), len(self.outliers), 2, 0,
            )
        ]  # fmt: skip

    def shown(self) -> ClusteringRow | None:
        return next(iter(self.clusterings()), None)

    def show(self, clustering_id: int) -> None:
        self._may_write()

    def groups(self) -> list[GoalGroup]:
        desk = self._desk()
        ordered = sorted(desk.groups, key=lambda key: (-len(desk.groups[key].members), key))
        return [self._row(key, desk, number) for number, key in enumerate(ordered, 1)]

    def group(self, group_id: str) -> GoalGroup | None:
        desk = self._desk()
        if group_id in desk.groups:
            return next(group for group in self.groups() if group.id == group_id)
        return self._row(group_id, desk, 0) if group_id in desk.gone else None

    def members(
        self, group_id: str | None, order: MemberOrder = "central", limit: int | None = None
    ) -> list[MemberRow]:
        desk = self._desk()
        known = {**desk.gone, **desk.groups}
        listed = self.outliers if group_id is None else known[group_id].members
        found = [self._member(row, group_id, desk) for row in self._rows(listed)]
        if order == "name":
            found.sort(key=lambda member: member.external_id)
        else:
            found.sort(key=lambda member: (member.doubt, member.conversation_id))
            if order == "doubtful":
                found.reverse()
        return found[:limit]

    def more_like(self, conversation_id: int, limit: int = 50) -> list[MemberRow]:
        desk = self._desk()
        home = next((g.members for g in desk.groups.values() if conversation_id in g.members), [])
        near = [other for other in home if other != conversation_id]
        rows = self._rows(near)
        return [
            replace(self._member(row, None, desk), distance=0.05 * at)
            for at, row in enumerate(rows, 1)
        ][:limit]

    def map(self, most: int = 5000) -> list[MapPoint]:
        desk = self._desk()
        points = []
        for nth, (key, group) in enumerate(desk.groups.items()):
            for member in group.members:
                x, y = (nth % 4) / 2 - 0.8, (nth // 4) / 2 - 0.8
                spread = (member * 7 % 11) / 60, (member * 5 % 13) / 70
                points.append(MapPoint(member, x + spread[0], y + spread[1], key))
        return points

    def periods(self, by: str = "month") -> list[GroupPeriod]:
        names = ["2026-09", "2026-10"] if by == "month" else ["first.jsonl", "second.jsonl"]
        found = []
        for nth, name in enumerate(names):
            desk = self._desk()
            parts = {
                key: [member for member in group.members if member % 2 == nth]
                for key, group in desk.groups.items()
            }
            whole = sum(len(part) for part in parts.values()) or 1
            for key, part in parts.items():
                share = len(part) / whole
                found.append(GroupPeriod(name, key, len(part), share, self._states(part)))
        return found

    # Within

    def _may_write(self) -> None:
        if self.read_only is not None:
            raise ProjectReadOnly(self.read_only)
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error

    def _desk(self) -> Desk:
        desk = Desk(
            {f"c{n}": Group(label, list(ids)) for n, (label, ids) in enumerate(self.clusters, 1)}
        )
        for given in self.decisions:
            desk.apply(given, self.splits.get(given.id, ()), self.moves.get(given.id, ((), None)))
        return desk

    def _row(self, key: str, desk: Desk, number: int) -> GoalGroup:
        group = desk.groups.get(key) or desk.gone[key]
        total = sum(len(members) for _, members in self.clusters) + len(self.outliers)
        return GoalGroup(
            key, number, group.label, f"Users want: {group.label}.", len(group.members),
            len(group.members) / total, self._states(group.members), 0.1 + len(group.members) / 100,
            float(2 + len(group.members)), 0.5 + (hash_of(group.label) % 50) / 100, group.pinned,
            group.made_of, group.made_by,
        )  # fmt: skip

    def _states(self, members: Sequence[int]) -> GroupStates:
        states = [row.state for row in self._rows(members)]
        return GroupStates(
            states.count(State.COMPLETE),
            states.count(State.INCOMPLETE),
            states.count(State.BORDERLINE),
            states.count(State.UNSCORED),
        )

    def _member(self, row: ConversationRow, group_id: str | None, desk: Desk) -> MemberRow:
        others = [group.label for key, group in desk.groups.items() if key != group_id]
        doubt = 0.3 + (row.id * 13 % 17) / 20
        return MemberRow(
            row.id, row.external_id, f"{row.opening} ({row.id})", doubt / 2, doubt, others[0] if others else "",
            row.state,
        )  # fmt: skip
