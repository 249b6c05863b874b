"""Long work as the screens see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.events import JobProgress
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.records.conversations import Estimate, Mode, RunRow
from engine.stages.importing import ImportStage
from engine.store import runs
from engine.store.project import Project


class JobService:
    """The jobs of one project; implements `engine.services.ports.Jobs`."""

    def __init__(
        self,
        project: Project,
        runner: JobRunner,
        scoring: Callable[[Mode], list[Stage]],
        estimate: Callable[[Mode], Estimate],
    ) -> None:
        """Prepares.

        Args:
            scoring: Gives the stages of a scoring run.
            estimate: Says what scoring would cost.
        """
        self._project, self._runner = project, runner
        self._scoring, self._estimate = scoring, estimate

    def estimate_scoring(self, mode: Mode) -> Estimate:
        """Cost of scoring what the mode has not scored yet."""
        return self._estimate(mode)

    def start_scoring(self, mode: Mode) -> int:
        """Starts scoring and then remaining tasks in the background; returns the job id."""
        return self._runner.start(self._scoring(mode))

    def start_import(self, paths: Sequence[str]) -> int:
        """Starts an import in the background; returns the job id."""
        return self._runner.start([ImportStage(self._project, paths)])

    def cancel(self, job_id: int) -> None:
        """Asks a job to stop; what it committed stays."""
        self._runner.cancel(job_id)

    def active(self) -> list[JobProgress]:
        """Jobs that run or wait, oldest first."""
        return self._runner.active()

    def interrupted(self) -> list[RunRow]:
        """Runs that an earlier process left unfinished."""
        return self._runner.interrupted()

    def run(self, run_id: int) -> RunRow | None:
        """One run with everything that determined its result."""
        with self._project.reading() as conn:
            return runs.get(conn, run_id)
