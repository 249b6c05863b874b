"""The newest events of a watch, kept in memory for a screen."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from engine.results.watch.watching import Event

MOST_EVENTS = 2_000
"""Events that are kept; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event as it came.

    Attributes:
        number: 1 for the first since the project was opened.
        conversation_id: None for a file that could not be read.
        values: As docs/watch.md lists them; texts come from logs and are not display-safe.
    """

    number: int
    conversation_id: int | None
    values: Event


class LiveEvents:
    """Takes events from the thread of a watch and gives them to others."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._events: deque[LiveEvent] = deque(maxlen=MOST_EVENTS)
        self._count = 0

    def add(self, event: Event) -> None:
        """Takes an event."""
        name = event["event"]
        conversation_id = None if name is None else int(name.partition(":")[0])
        with self._guard:
            self._count += 1
            self._events.append(LiveEvent(self._count, conversation_id, event))

    def after(self, number: int) -> list[LiveEvent]:
        """Quick. Those that came after the one of this number, oldest first."""
        with self._guard:
            if self._count == number:
                return []
            return [one for one in self._events if one.number > number]
