"""Starts and cancels the long work of one project, and reads its runs; `OpenProject.subscribe` gives the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from engine.base.events import JobProgress
from engine.completeness.records import Mode
from engine.completeness.service.sets import name_of
from engine.completeness.tables import score_sets
from engine.conversations.records import DEFAULT_IMPORT, ImportRequest
from engine.jobs.runner import JobRunner
from engine.project import runs
from engine.project.project import Project
from engine.project.records import Estimate, RunRow

if TYPE_CHECKING:
    from engine.completeness.scoring_request import ScoringRequest
    from engine.completeness.service.runs import ScoringRuns
    from engine.conversations.stages import CheckStage, ImportStage
    from engine.signs.stages import SignStage


class JobService:
    """Starts and cancels the jobs of one project."""

    def __init__(
        self, project: Project, runner: JobRunner, scoring: Callable[[], ScoringRuns]
    ) -> None:
        """`scoring` returns what makes scoring runs; it is called late, because its imports take long."""
        self._project, self._runner, self._scoring = project, runner, scoring

    def scoring_mode(self) -> Mode:
        """Returns the mode of the scores in force; before the first ones, the mode that suits the project best."""
        config = self._project.read(score_sets.config_in_force)
        # Scores by words come first, and a model may read after them; so they do not decide the mode.
        if config is not None and config.mode != "words":
            return config.mode
        from engine.completeness.scoring_request import ScoringRequest

        return self._scoring().mode_for(ScoringRequest())

    def scores_in_force(self) -> str | None:
        """Quick. Returns mode, model and adapter of the scores in force, in words; None before the first ones."""
        config = self._project.read(score_sets.config_in_force)
        return None if config is None else name_of(config)

    def estimate_scoring(self, request: ScoringRequest) -> Estimate:
        """Returns the cost of scoring what has no score in this mode; counting the tokens may take long."""
        scoring = self._scoring()
        return scoring.estimate(scoring.make_run(request))

    def start_scoring(self, request: ScoringRequest) -> int:
        """Starts a job in the background that scores and then writes remaining tasks; returns the job id."""
        return self._runner.start(self._scoring().make_run(request).stages)

    def start_import(self, paths: Sequence[str], request: ImportRequest = DEFAULT_IMPORT) -> int:
        """Starts a job in the background that imports and then checks what is new; returns the job id."""
        return self._runner.start(import_stages(self._project, paths, request))

    def cancel(self, job_id: int) -> None:
        """Quick. Asks a job to stop; what it committed stays, and a later run continues there.

        A job that reads logs for a probe ends with a fit to those that it read; a second call prevents that.
        """
        self._runner.cancel(job_id)

    def active(self) -> list[JobProgress]:
        """Quick. Returns the jobs that run or wait, oldest first."""
        return self._runner.active()

    def interrupted(self) -> list[RunRow]:
        """Quick. Returns the runs that an earlier process left unfinished, which can be resumed."""
        return self._runner.interrupted()

    def history(self) -> list[RunRow]:
        """Returns every run, newest first."""
        return self._project.read(runs.all_runs)


def import_stages(
    project: Project,
    paths: Sequence[str],
    request: ImportRequest = DEFAULT_IMPORT,
    *,
    stdin: BinaryIO | None = None,
) -> tuple[ImportStage, SignStage, CheckStage]:
    """Returns the stages of an import: one reads the files, one looks for signs of trouble, and one checks what is new.

    Args:
        paths: Files and folders; `-` stands for `stdin`.
        request: How they are imported.
    """
    # Imported here, because they import all readers and numpy, and screens that only show jobs should not wait for
    # these.
    from engine.conversations.stages import CheckStage, ImportStage
    from engine.signs.stages import SignStage

    reading = ImportStage(project, paths, request, stdin=stdin)
    return reading, SignStage(project), CheckStage(project)
