"""Runs asynchronous requests for synchronous callers.

An event loop lives on a thread of its own, so that any thread can wait for requests and cancel them.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from engine.base import network_guard
from engine.base.errors import Cancelled

T = TypeVar("T")
"""Result of asynchronous work."""

MAX_RESOLVERS = 4
"""Most threads that resolve host names for one loop."""


class BackgroundLoop:
    """An event loop on a thread of its own, in which several threads may run asynchronous work side by side. The thread
    lives while there is work."""

    def __init__(self, host: str, port: int) -> None:
        """Starts nothing yet; the work may reach this host and TCP port, and no other."""
        self._host, self._port = host, port
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._running: set[Future[Any]] = set()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs the work and returns its result; raises its exception.

        Raises:
            Cancelled: `cancel` was called; requests in flight were abandoned.
            NetworkRefused: The program is set to stay offline.
        """

        async def main() -> T:
            """Runs the work, which may reach the host."""
            with network_guard.reaching(self._host, self._port):
                return await work()

        with self._guard:
            future = asyncio.run_coroutine_threadsafe(main(), self._started_loop())
            self._running.add(future)
        try:
            return future.result()
        except CancelledError:
            raise Cancelled("The request was cancelled.") from None
        finally:
            with self._guard:
                self._running.remove(future)
                if not self._running and self._loop is not None and self._stop is not None:
                    self._loop.call_soon_threadsafe(self._stop.set)
                    self._loop = None

    def cancel(self) -> None:
        """Abandons all work, whose `run` raises `Cancelled`; may be called from any thread."""
        with self._guard:
            for future in self._running:
                future.cancel()

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the event loop, in a new thread where none runs."""
        if self._loop is not None:
            return self._loop
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def serve() -> None:
            """Keeps the loop running until there is no work."""
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            loop.set_default_executor(_ContextThreadPool(MAX_RESOLVERS))
            started.set_result((loop, stop))
            await stop.wait()

        threading.Thread(target=lambda: asyncio.run(serve()), name="endpoints", daemon=True).start()
        self._loop, self._stop = started.result()
        return self._loop


class _ContextThreadPool(ThreadPoolExecutor):
    """Resolves host names in the caller's context, which holds the permission of the network guard."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Runs a function in a thread, in a copy of the caller's context."""
        return super().submit(contextvars.copy_context().run, fn, *args, **options)


async def all_of(works: Iterable[Awaitable[T]], report: Callable[[int], None]) -> list[T]:
    """Returns the results of requests that run side by side, in order.

    A request that fails cancels no other, because what is in flight is paid for; the first failure in that order is
    raised when all have ended.

    Args:
        report: Called after each request that succeeds, with the number of those so far.
    """
    done = 0

    async def result_of(work: Awaitable[T]) -> T:
        """Returns the result of one request, and reports it."""
        nonlocal done
        result = await work
        done += 1
        report(done)
        return result

    results = await asyncio.gather(*map(result_of, works), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
