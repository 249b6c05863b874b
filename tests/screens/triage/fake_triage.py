"""The port `Triage` in memory: acts as a list, undone ones as another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import ProjectReadOnly, WorkbenchError
from engine.events import DataChanged, Event
from engine.filters import ListQuery
from engine.records.conversations import (
    ConversationRow,
    DecisionRule,
    QueueOrder,
    State,
    TriageItem,
    TriagePage,
    TriagePlace,
    Verdict,
    VerdictRow,
)

if TYPE_CHECKING:
    from tests.screens.fakes import FakeConversation

RULE = DecisionRule()


class FakeTriage:
    """Verdicts on `items`; the rest of the project is what inherits it."""

    items: dict[int, FakeConversation]
    read_only: str | None
    fail_next: WorkbenchError | None

    def __init__(self) -> None:
        self.given: list[VerdictRow] = []
        self.undone: list[VerdictRow] = []
        self.kept_place = TriagePlace()

    def emit(self, event: Event) -> None:
        raise NotImplementedError

    def _matches(self, item: FakeConversation, query: ListQuery) -> bool:
        raise NotImplementedError

    def _maybe_fail(self) -> None:
        raise NotImplementedError

    def _row(self, item: FakeConversation) -> ConversationRow:
        current = self.current(item.row.id)
        if current is None:
            return item.row
        return replace(item.row, verdict=current.verdict, tags=current.tags)

    def queue(self, order: QueueOrder = "threshold", query: ListQuery | None = None) -> TriagePage:
        """Nearest the threshold, lowest first, or in the order of ids."""

        def worth(row: ConversationRow) -> tuple[int, float]:
            p = row.p_end_normalised
            if order == "lowest":
                return (0, p) if p is not None else (1, 0.0)
            if order != "threshold" or p is None:
                return (2, 0.0)
            if row.state is State.BORDERLINE:
                return (0, abs(p - RULE.threshold))
            return (1, -p)

        rows = [
            item.row
            for item in self.items.values()
            if self._row(item).verdict is None and (query is None or self._matches(item, query))
        ]
        if order == "threshold":
            rows = [row for row in rows if row.state is not State.COMPLETE]
        items = [TriageItem(row.id, f"{row.state}, near .50") for row in sorted(rows, key=worth)]
        return TriagePage(tuple(items), len(items))

    def _write(self, row: VerdictRow) -> VerdictRow:
        if self.read_only is not None:
            raise ProjectReadOnly(self.read_only)
        self._maybe_fail()
        self.given.append(row)
        self.undone.clear()
        self.emit(DataChanged(frozenset({"verdict"})))
        return row

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> VerdictRow:
        return self._write(VerdictRow(len(self.given), conversation_id, verdict, note, "now"))

    def repeat(self, conversation_id: int, verdict: Verdict) -> VerdictRow:
        row = VerdictRow(len(self.given), conversation_id, verdict, "", "now", kind="repeat")
        return self._write(row)

    def note(self, conversation_id: int, note: str) -> VerdictRow:
        row = VerdictRow(len(self.given), conversation_id, None, note, "now", kind="note")
        return self._write(row)

    def tag(self, conversation_ids: Sequence[int], tag: str) -> None:
        first, count = conversation_ids[0], len(conversation_ids)
        row = VerdictRow(len(self.given), first, None, "", "now", (tag,), "tag", count)
        self._write(row)

    def untag(self, conversation_ids: Sequence[int], tag: str) -> None:
        first, count = conversation_ids[0], len(conversation_ids)
        row = VerdictRow(len(self.given), first, None, "", "now", (tag,), "untag", count)
        self._write(row)

    def undo(self) -> VerdictRow | None:
        if not self.given:
            return None
        self.undone.append(self.given.pop())
        self.emit(DataChanged(frozenset({"verdict"})))
        return self.undone[-1]

    def redo(self) -> VerdictRow | None:
        if not self.undone:
            return None
        self.given.append(self.undone.pop())
        self.emit(DataChanged(frozenset({"verdict"})))
        return self.given[-1]

    def current(self, conversation_id: int) -> VerdictRow | None:
        rows = [row for row in self.given if row.conversation_id == conversation_id]
        rows = [row for row in rows if row.kind != "repeat"]
        if not rows:
            return None
        tags: set[str] = set()
        for row in rows:
            tags = tags | set(row.tags) if row.kind == "tag" else tags - set(row.tags)
        return VerdictRow(
            rows[-1].id,
            conversation_id,
            next((row.verdict for row in reversed(rows) if row.verdict is not None), None),
            next((row.note for row in reversed(rows) if row.note or row.kind == "note"), ""),
            "now",
            tuple(sorted(tags)),
        )

    def tally(self) -> dict[Verdict, int]:
        current = [self.current(row_id) for row_id in self.items]
        return dict(Counter(row.verdict for row in current if row is not None and row.verdict))

    def to_repeat(self, count: int) -> list[int]:
        repeated = {row.conversation_id for row in self.given if row.kind == "repeat"}
        given = [row.conversation_id for row in self.given if row.kind == "give"]
        return [key for key in dict.fromkeys(given[:-10]) if key not in repeated][:count]

    def place(self) -> TriagePlace:
        return self.kept_place

    def keep_place(self, place: TriagePlace) -> None:
        if self.read_only is not None:
            raise ProjectReadOnly(self.read_only)
        self.kept_place = place
