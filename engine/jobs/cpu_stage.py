"""Base class of stages that compute in this process, on a thread of their own so that a cancel need not wait."""

from __future__ import annotations

import resource
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from threadpoolctl import threadpool_info

from engine.base.errors import Cancelled, OutOfMemory
from engine.base.number_format import counted
from engine.jobs.contract import Lane, config_hash
from engine.jobs.threaded_work import (
    OnProgress,
    ThreadedWork,
)
from engine.project.project import Project

Result = TypeVar("Result")

ADDRESS_SPACE, ADDRESS_SPACE_OF_THREAD = 560 << 20, 80 << 20
"""Bytes of address space that a computation needs, and more for each thread of OpenBLAS. 460 and 80 MiB were measured;
with a little less OpenBLAS waits forever for a buffer, or ends the process."""


class CpuStage(ABC):
    """A stage that needs no model; a `engine.jobs.contract.Stage` once it has a `title`, a `run` and a `summary`."""

    name: ClassVar[str]
    unit: ClassVar[str] = "conversations"
    lane: Lane = "cpu"

    def __init__(self, project: Project) -> None:
        self._project = project
        self._interrupted = threading.Event()
        self._wake: OnProgress | None = None

    @property
    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Empty: the result depends on the parameters only."""
        return {}

    @property
    def config_hash(self) -> str:
        """The key under which the stage stores its results."""
        return config_hash(self.name, self.params, self.fingerprints)

    def interrupt(self) -> None:
        """Abandons the computation; results that are not committed are dropped."""
        self._interrupted.set()
        if self._wake is not None:
            self._wake(0, "")

    def _check(self) -> None:
        """Raises Cancelled after `interrupt`."""
        if self._interrupted.is_set():
            raise Cancelled("The work was cancelled.")

    def _live(
        self, work: Callable[[OnProgress], Result], result: Callable[[Result], None]
    ) -> Iterator[tuple[int, str]]:
        """Runs `work` on a thread of its own and yields the (count, note) that it reports.

        Native code cannot be stopped, so after `interrupt` the thread runs on and its result is dropped.

        Args:
            work: Called with a callback for reports, which raises Cancelled after `interrupt`.
            result: Called with the return value of `work` before the iterator ends.

        Raises:
            OutOfMemory: The limit on the address space of the process is too low for a computation.
        """
        _check_address_space()

        def begun(report: OnProgress) -> Result:
            self._wake = report
            self._check()

            def checked(count: int, note: str) -> None:
                self._check()
                report(count, note)

            return work(checked)

        running = ThreadedWork(begun)
        for report in running.reports():
            self._check()
            yield report
        result(running.result())


def _check_address_space() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    threads = max((pool["num_threads"] for pool in pools), default=1)
    needed = ADDRESS_SPACE + threads * ADDRESS_SPACE_OF_THREAD
    if limit < needed:
        raise OutOfMemory(
            f"This process may use {limit >> 20:,} MiB of address space; a computation with"
            f" {counted(threads, 'thread')} needs {needed >> 20:,} MiB.",
            "Raise the limit (`ulimit -v`), or set OPENBLAS_NUM_THREADS=1.",
        )
