"""The order in which a person works through the queue. Knows nothing of Textual.

The service's queue changes under way: scores arrive, verdicts are given. What has been passed and what is in
front of the person stays where it is; only what is still to come is exchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from engine.rows import TriageItem

PAUSE_SECONDS = 600.0
"""A gap longer than this is a break, not work."""


class TriageQueue:
    """Items passed, the current one, and items to come."""

    def __init__(self) -> None:
        self._items: list[TriageItem] = []
        self._at = 0
        self._judged: set[int] = set()

    @property
    def current(self) -> TriageItem | None:
        """What is in front of the person; None when nothing is left."""
        return self._items[self._at] if self._at < len(self._items) else None

    @property
    def position(self) -> int:
        """Place of the current item, from 1."""
        return min(self._at + 1, len(self._items))

    @property
    def total(self) -> int:
        """Items passed, current and to come."""
        return len(self._items)

    @property
    def ids(self) -> list[int]:
        """Conversations in order."""
        return [item.conversation_id for item in self._items]

    @property
    def index(self) -> int:
        """Index of the current item in `ids`."""
        return self._at

    def refresh(self, items: Sequence[TriageItem]) -> None:
        """Exchanges what is to come."""
        why = {item.conversation_id: item for item in items}
        kept = [why.get(item.conversation_id, item) for item in self._items[: self._at + 1]]
        known = {item.conversation_id for item in kept} | self._judged
        self._items = kept + [item for item in items if item.conversation_id not in known]

    def judge(self) -> None:
        """The current item has a verdict: goes on to the next one without."""
        if self.current is not None:
            self._judged.add(self.current.conversation_id)
            self._advance()

    def skip(self) -> None:
        """Goes on; the item comes again when all others have been seen."""
        if self.current is not None:
            self._advance()

    def _advance(self) -> None:
        later = range(self._at + 1, len(self._items))
        skipped = range(self._at + 1)
        for index in (*later, *skipped):
            if self._items[index].conversation_id not in self._judged:
                self._at = index
                return
        self._at = len(self._items)

    def bring_back(self, conversation_id: int, why: str) -> None:
        """Makes a conversation whose verdict was taken back the current item."""
        self._judged.discard(conversation_id)
        ids = self.ids
        if conversation_id in ids:
            self._at = ids.index(conversation_id)
        else:
            self._items.insert(self._at, TriageItem(conversation_id, why))

    def settle(self, conversation_id: int) -> None:
        """A conversation has its verdict again; if it is the current one, goes on."""
        if self.current is not None and self.current.conversation_id == conversation_id:
            self.judge()
        else:
            self._judged.add(conversation_id)


class Pace:
    """Verdicts an hour over the last twenty, breaks left out."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=20)

    def tick(self, now: float) -> None:
        """A verdict was given at this time, in seconds of any clock that does not go back."""
        if self._times and now - self._times[-1] > PAUSE_SECONDS:
            self._times.clear()
        self._times.append(now)

    @property
    def per_hour(self) -> float | None:
        """None before three verdicts."""
        if len(self._times) < 3 or self._times[-1] <= self._times[0]:
            return None
        return (len(self._times) - 1) / (self._times[-1] - self._times[0]) * 3600
