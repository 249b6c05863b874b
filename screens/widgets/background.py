"""Work that a widget does not do at once: on a thread, or only after a person paused.

Threads are a few daemon threads, and the result of their work is handed back to a widget on the UI thread. Textual's
own thread workers run on asyncio's executor, which an app joins when it quits, so one slow call would hold up quitting.
Daemon threads are simply left behind. They are reused, because the project file keeps one connection for each thread
that reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from textual.dom import DOMNode
from textual.timer import Timer
from textual.worker import Worker

from engine.base.errors import ProgramFault, WorkbenchError

T = TypeVar("T")
"""What the work returns."""

THREADS = 6
"""Most threads that work for the screens at once."""


class _DaemonPool:
    """Up to `size` daemon threads that do the work of one queue, in the order in which it is put in."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._started = 0
        self._lock = Lock()
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Puts work into the queue, starts a thread if there are few, and returns what the work will return."""
        future: Future[T] = Future()

        def run() -> None:
            """Does the work and gives what it returns or raises to the future."""
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._started < self._size:
                self._started += 1
                Thread(target=self._serve, daemon=True, name="workbench-reader").start()
        self._queue.put(run)
        return future

    def _serve(self) -> None:
        """Does the work of the queue, one after another, without end."""
        while True:
            self._queue.get()()


_POOL = _DaemonPool(THREADS)
"""Runs the work that reads, several pieces at once."""


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work()` on a daemon thread and awaits it; raises what it raises."""
    return await asyncio.wrap_future(_POOL.submit(work))


def background(
    node: DOMNode,
    work: Callable[[], T],
    then: Callable[[T], None],
    on_error: Callable[[WorkbenchError], object],
    *,
    group: str,
) -> Worker[Any]:
    """Runs `work` off the UI thread, then calls `then` with its result, or `on_error` with its error, on that thread.

    A later call with the same node and group replaces an earlier one, whose result is dropped. So is the result for a
    node that is gone. An error that nobody foresaw is logged, and is handed to `on_error` too.
    """

    def show_error(error: WorkbenchError) -> None:
        """Passes on the error, unless the node is gone."""
        if is_there(node):
            on_error(error)

    body = partial(_pass_on, node, lambda: in_thread(work), then, show_error)
    return node.run_worker(body, group=group, exclusive=True)


async def _pass_on(
    node: DOMNode,
    wait: Callable[[], Awaitable[T]],
    then: Callable[[T], None],
    on_error: Callable[[WorkbenchError], object],
) -> None:
    """Waits for work, and calls `then` with its result unless the node is gone, or `on_error` with its error."""
    try:
        result = await wait()
    except WorkbenchError as error:
        on_error(error)
    except Exception as error:
        logging.getLogger(__name__).exception("background work failed")
        on_error(unforeseen(error))
    else:
        if is_there(node):
            then(result)


def is_there(node: DOMNode) -> bool:
    """Returns whether the widget is still mounted.

    The widgets of a closing screen are removed before its workers are cancelled.
    """
    return node.is_attached and not node._pruning


def unforeseen(error: Exception) -> WorkbenchError:
    """Wraps an unexpected exception, so that it can be shown in a dialog."""
    return ProgramFault(
        f"Something went wrong that was not foreseen: {type(error).__name__}: {error}",
        "The log has the details; the project file keeps what was committed.",
    )


_WRITER = _DaemonPool(1)
"""Runs the work that writes, on one thread, so that its order stays."""
_unwritten: set[Future[Any]] = set()
"""The writes that wait or run."""


def write_in_order(
    node: DOMNode,
    work: Callable[[], T],
    then: Callable[[T], None],
    on_error: Callable[[WorkbenchError], object],
) -> Worker[Any]:
    """Runs `work` as `background` does, but after all earlier writes; a later one replaces none of them.

    The work is handed to the writing thread before this function returns, and it runs even if the node goes away.
    """
    future = _WRITER.submit(work)
    _unwritten.add(future)
    future.add_done_callback(_unwritten.discard)

    # A cancelled wait must not cancel the write.
    body = partial(
        _pass_on, node, lambda: asyncio.shield(asyncio.wrap_future(future)), then, on_error
    )
    return node.run_worker(body, group="write")


async def all_written(seconds: float) -> bool:
    """Waits until all writes of `write_in_order` are done, for at most `seconds`; returns whether they are done."""
    pending = [asyncio.wrap_future(future) for future in tuple(_unwritten)]
    if pending:
        _, late = await asyncio.wait(pending, timeout=seconds)
        return not late
    return True


class DelayedCall:
    """Calls a function once a person has paused: `seconds` after the last `restart`."""

    def __init__(self, node: DOMNode, seconds: float, call: Callable[[], object]) -> None:
        self._node, self._seconds, self._call = node, seconds, call
        self._timer: Timer | None = None

    def restart(self) -> None:
        """Waits from now on; an earlier wait ends without a call."""
        self.cancel()
        self._timer = self._node.set_timer(self._seconds, self._call)

    def cancel(self) -> None:
        """Ends the wait, if there is one, without a call."""
        if self._timer is not None:
            self._timer.stop()
