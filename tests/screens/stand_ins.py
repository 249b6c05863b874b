"""What stands in for a service in tests of screens where no model is, or where an error or a delay is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from engine.base.errors import WorkbenchError
from engine.base.events import JobProgress
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ScoringRuns
from engine.conversations.records import DEFAULT_IMPORT, ImportRequest
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.opener.conversations import ConversationRow, ConversationService
from engine.opener.jobs import JobService
from engine.project.project import Project
from engine.project.records import Estimate, RunRow


class RecordedJobs(JobService):
    """Starts nothing, since no model is here; remembers what was to be started.

    Attributes:
        running: What runs or waits.
        left: Runs that were interrupted.
        requests: The runs of scoring.
        started: A mode for scoring, paths for an import, names of stages for goals.
        cancelled: Ids of jobs.
    """

    def __init__(self, file: Project) -> None:
        self.runner = JobRunner(file, lambda event: None, tables_by_stage={})
        super().__init__(file, self.runner, lambda: cast(ScoringRuns, None))
        self.running: list[JobProgress] = []
        self.left: list[RunRow] = []
        self.started: list[object] = []
        self.requests: list[ScoringRequest] = []
        self.cancelled: list[int] = []

    def estimate_scoring(self, request: ScoringRequest) -> Estimate:
        if request.filter:
            return Estimate(13, 20_000, 3_450.0, 5.8, "SmolLM2-135M-Instruct (BF16)")
        if request.mode == "probe":
            raise WorkbenchError("There is no adapter.", "Train one, or name one with --adapter.")
        return Estimate(812, 1_240_000, 3_450.0, 359.4, "SmolLM2-135M-Instruct (BF16)")

    def start_scoring(self, request: ScoringRequest) -> int:
        self.requests.append(request)
        self.started.append((request.mode, str(request.filter)) if request.filter else request.mode)
        return len(self.started)

    def start_import(self, paths: Sequence[str], request: ImportRequest = DEFAULT_IMPORT) -> int:
        format = [request.format] if request.format else []
        self.started.append([*paths, *format])
        return len(self.started)

    def begin(self, stages: Sequence[Stage]) -> int:
        self.started.append([stage.name for stage in stages])
        return len(self.started)

    def cancel(self, job_id: int) -> None:
        self.cancelled.append(job_id)

    def active(self) -> list[JobProgress]:
        return self.running

    def interrupted(self) -> list[RunRow]:
        return self.left


class RecordedRunner(JobRunner):
    """Passes what is started on to the recorded jobs."""

    def __init__(self, file: Project, jobs: RecordedJobs) -> None:
        super().__init__(file, lambda event: None)
        self._recorded = jobs

    def start(self, stages: Sequence[Stage]) -> int:
        return self._recorded.begin(stages)

    def active(self) -> list[JobProgress]:
        return self._recorded.active()


class HeldConversations(ConversationService):
    """Gives no rows while `hold` is cleared."""

    def __init__(self, file: Project) -> None:
        super().__init__(file)
        self.hold = threading.Event()
        self.hold.set()

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        self.hold.wait()
        return super().rows(ids)


def raising(error: Exception) -> Callable[..., NoReturn]:
    """A function that fails, in place of a method of a service."""

    def fail(*args: object, **named: object) -> NoReturn:
        raise error

    return fail
