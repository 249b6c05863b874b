"""Work on a thread that can be watched and cancelled."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

OnProgress = Callable[[int, str], None]
"""Gets a count of what is done, and a note on what is being done; either may be empty."""


Result = TypeVar("Result")


class ThreadedWork(Generic[Result]):
    """Runs blocking work on a thread and passes on its progress reports."""

    def __init__(self, work: Callable[[OnProgress], Result]) -> None:
        """Starts `work`, which is called with a callback for (count, note)."""
        self._reports: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._outcome: list[Result] = []
        self._failure: list[BaseException] = []

        def target() -> None:
            try:
                self._outcome.append(work(lambda count, note: self._reports.put((count, note))))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                self._failure.append(error)
            finally:
                self._reports.put(None)

        self._thread = threading.Thread(target=target, name="model-work", daemon=True)
        self._thread.start()

    def reports(self) -> Iterator[tuple[int, str]]:
        """Yields progress reports until the work ends."""
        while (report := self._reports.get()) is not None:
            yield report

    def result(self) -> Result:
        """Waits for the return value of the work; raises its exception."""
        self._thread.join()
        if self._failure:
            raise self._failure[0]
        return self._outcome[0]
