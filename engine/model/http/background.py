"""Runs asynchronous requests on a thread of their own, so that any thread can wait for them and cancel them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from engine.base import network_guard
from engine.base.errors import Cancelled
from engine.model.http.address import Address

T = TypeVar("T")
POLL_SECONDS = 0.1
GRACE_SECONDS = 0.3
"""Longest wait for cancelled requests to close their connections."""


class _InContext(ThreadPoolExecutor):
    """Resolves host names in the caller's context, which holds the permission of the network guard."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **options)


class BackgroundRun:
    """A run of asynchronous work that may reach some endpoints; `cancel` may be called from any thread."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = tuple(addresses)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = threading.Event()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs the work and returns its result; raises its exception.

        Raises:
            Cancelled: `cancel` was called; requests in flight were abandoned.
            NetworkRefused: The program is set to stay offline.
        """
        outcome: Future[T] = Future()
        thread = threading.Thread(
            target=self._thread, args=(work, outcome), name="endpoints", daemon=True
        )
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if self._cancelled.is_set():
                thread.join(GRACE_SECONDS)
                raise Cancelled("The request was cancelled.")
        return outcome.result()

    def cancel(self) -> None:
        """Abandons the work."""
        self._cancelled.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # the loop has just ended by itself
                loop.call_soon_threadsafe(task.cancel)

    def _thread(self, work: Callable[[], Coroutine[Any, Any, T]], outcome: Future[T]) -> None:
        async def main() -> T:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            self._loop.set_default_executor(_InContext(4))
            if self._cancelled.is_set():
                raise Cancelled("The request was cancelled.")
            return await work()

        try:
            with ExitStack() as stack:
                for address in self._addresses:
                    stack.enter_context(network_guard.reaching(address.host, address.port))
                outcome.set_result(asyncio.run(main()))
        except asyncio.CancelledError:
            outcome.set_exception(Cancelled("The request was cancelled."))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            outcome.set_exception(error)
