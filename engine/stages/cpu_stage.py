"""The shape of stages that compute in this process: on a thread of their own, so that a cancel need not wait for it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from engine.errors import Cancelled
from engine.jobs.contract import Lane, config_hash
from engine.stages.model_work import Live
from engine.store.project import Project
from engine.worker.client import OnProgress

Result = TypeVar("Result")


class CpuStage(ABC):
    """A stage that needs no model; a `engine.jobs.runner.Stage` once it has a `title`, a `run` and a `summary`."""

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
        """What was asked."""

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """Nothing but the parameters determines what comes out."""
        return {}

    @property
    def config_hash(self) -> str:
        """The key of what this stage writes."""
        return config_hash(self.name, self.params, self.fingerprints)

    def interrupt(self) -> None:
        """Lets go of what is computed; what is not committed is dropped."""
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
        """Does work on a thread of its own and yields what it reports.

        Native code cannot be stopped, so after `interrupt` the thread is left alone, and what it finds is nobody's.

        Args:
            work: Gets the callback that it reports (count, note) to, which raises Cancelled after `interrupt`.
            result: Gets what `work` returned, before the iterator ends.
        """

        def begun(report: OnProgress) -> Result:
            self._wake = report
            self._check()

            def told(count: int, note: str) -> None:
                self._check()
                report(count, note)

            return work(told)

        running = Live(begun)
        for report in running.reports():
            self._check()
            yield report
        result(running.result())
