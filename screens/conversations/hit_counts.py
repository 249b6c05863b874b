"""The number of messages of a conversation that match a search, counted only for the rows that are drawn."""

from __future__ import annotations

from collections.abc import Callable

from textual.dom import DOMNode

from engine.base.errors import WorkbenchError
from engine.conversations.filters import Filter
from screens.widgets.background import background

Count = Callable[[int, Filter], list[int]]


class HitCounts:
    """Counts on another thread, a batch at a time. Where counting failed the number stays unknown and is not tried
    again.
    """

    def __init__(self, node: DOMNode, count: Count, counted: Callable[[], None]) -> None:
        """`counted` is called when there are new numbers."""
        self._node, self._count, self._counted = node, count, counted
        self._filter = Filter()
        self._known: dict[int, int | None] = {}
        self._wanted: dict[int, None] = {}
        self._reading = False

    def look_for(self, wanted: Filter) -> None:
        """Forgets what is known and counts these words from now on."""
        self._filter = wanted
        self._known.clear()
        self._wanted.clear()

    def of(self, conversation_id: int) -> int | None:
        """The number, or None while it is not known: it is counted then."""
        if conversation_id not in self._known:
            self._known[conversation_id] = None
            self._wanted[conversation_id] = None
            if not self._reading:
                self._reading = True
                self._node.call_later(self._read)
        return self._known[conversation_id]

    def _read(self) -> None:
        ids, wanted = list(self._wanted), self._filter
        self._wanted.clear()
        self._reading = bool(ids)
        if not ids:
            return

        def arrived(found: dict[int, int]) -> None:
            if wanted is self._filter:
                self._known.update(found)
                self._counted()
            self._read()

        def failed(error: WorkbenchError) -> None:
            self._read()

        background(
            self._node,
            lambda: {row_id: len(self._count(row_id, wanted)) for row_id in ids},
            arrived,
            failed,
            group="hits",
        )
