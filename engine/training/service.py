"""Plans, starts, watches, stops, resumes and deletes the training runs of a project, and puts their adapters in use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.base.errors import NotYet, ProjectReadOnly, UsageError
from engine.base.number_format import size
from engine.model.catalog import AdapterEntry, Catalog
from engine.model.service.run_setup import adapter_in_use, use_adapter
from engine.project.project import Project
from engine.training import run_files
from engine.training.base import Machine, this_machine
from engine.training.config import RECIPE_HELP, TrainConfig
from engine.training.history import RunHistory
from engine.training.plan import TrainingPlan, TrainingPlanner
from engine.training.process import INSTALL, Trainers, missing_libraries
from engine.training.records import (
    Choice,
    RunDetail,
    TrainingChoices,
    TrainingEstimate,
    TrainingRun,
)
from engine.training.run_directory import RunDirectory, is_running
from engine.training.run_files import all_runs, run_named
from engine.training.training_request import TrainingRequest, with_settings

CHANGEABLE = ("rows", "recompute", "threads")
"""Settings that may change when a run is resumed: they affect the computation, not what is learned."""


class RunDirectories:
    """The run directories beside a project file; no project need be open.

    `TrainingService`, for an open project, adds plans, the adapter in use, and a check for a read-only project.
    """

    def __init__(self, project_path: Path, trainers: Trainers | None = None) -> None:
        """Reads nothing yet.

        Args:
            trainers: Starts the processes; the real one where None.
        """
        self.project_path = project_path
        self.trainers = trainers or Trainers()
        self._histories: dict[Path, RunHistory] = {}
        self._guard = threading.Lock()

    def histories(self) -> list[RunHistory]:
        """Returns the histories of all runs, newest first."""
        return [self._history(run) for run in all_runs(self.project_path)]

    def history(self, name: str) -> RunHistory:
        """Returns the history of a run; raises UsageError if there is no run with this name."""
        return self._history(run_named(self.project_path, name))

    def check_idle(self) -> None:
        """Checks that no run of the project is running.

        Raises:
            UsageError: One is.
        """
        for run in all_runs(self.project_path):
            if is_running(run):
                raise UsageError(f"{run.path.name} is running.", "Stop it first, or wait.")

    def start(self, run: RunDirectory) -> int:
        """Starts the process of a run and returns its id.

        Raises:
            UsageError: A run of the project is running, or training is not possible here.
        """
        self.check_idle()
        return self.trainers.start(run)

    def resume(self, name: str, settings: Sequence[tuple[str, str]] = ()) -> RunDirectory:
        """Starts a process that resumes a run at its last checkpoint, and returns the run.

        Args:
            settings: New values of settings in `CHANGEABLE`.

        Raises:
            UsageError: There is no such run, it is finished or running, a setting cannot change any more, another run
                is running, or training is not possible here.
        """
        history = self.history(name)
        state = history.row().state
        if state in ("finished", "running"):
            raise UsageError(
                f"{name} is {state}.", "Only a run that did not finish can be resumed."
            )
        fixed = [key for key, _ in settings if key not in CHANGEABLE]
        if fixed:
            raise UsageError(
                f"{', '.join(fixed)} cannot change when a run is resumed.",
                f"Only {', '.join(CHANGEABLE)} can; for others start a new run.",
            )
        if settings:
            config = TrainConfig.load(history.run.config)
            changed = with_settings(config, settings)
            self.trainers.check_libraries(changed)
            self.check_idle()  # before the config of a running one would change
            changed.save(history.run.config)
        self.start(history.run)
        return history.run

    def _history(self, run: RunDirectory) -> RunHistory:
        """Returns the history of a run, the same object each time, so that it reads new events only."""
        with self._guard:
            return self._histories.setdefault(run.path, RunHistory(run))


class TrainingService:
    """The training runs of an open project. Every method reads files and belongs in a thread worker.

    A run is a process of its own that continues when this program ends. To watch a run, call `detail` at most twice a
    second; each call reads only new events.
    """

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        trainers: Trainers | None = None,
        machine: Callable[[], Machine] = this_machine,
    ) -> None:
        """Reads nothing yet.

        Args:
            trainers: Starts the processes; the real one where None.
            machine: Returns the machine that runs train on, as it is now.
        """
        self._project, self._catalog, self._machine = project, catalog, machine
        self.directories = RunDirectories(Path(project.path), trainers)
        self.planner = TrainingPlanner(
            project, catalog, self.directories.histories, machine=machine
        )

    def choices(self) -> TrainingChoices:
        """Returns the choices for a new run, and whether training is possible here."""
        missing = missing_libraries()
        return TrainingChoices(
            recipes=tuple(Choice(name, text) for name, text in RECIPE_HELP.items()),
            bases=tuple(
                Choice(entry.name, f"{entry.origin}, {entry.path.name}")
                for entry in self._catalog.entries()
            ),
            memory=self._machine().memory,
            missing=missing,
            hint=INSTALL if missing else "",
        )

    def runs(self) -> list[TrainingRun]:
        """Returns all runs with their state, newest first."""
        used = adapter_in_use(self._project)
        return [
            history.row(history.run.path.name == used) for history in self.directories.histories()
        ]

    def detail(self, name: str) -> RunDetail:
        """Returns the state, curves, samples and config of a run.

        Raises:
            UsageError: There is no such run. All methods below that take the name of a run raise it too.
        """
        return self.directories.history(name).detail(name == adapter_in_use(self._project))

    def estimate(self, request: TrainingRequest) -> TrainingEstimate:
        """Returns the estimated cost of a run; raises as `TrainingPlanner.plan`."""
        return self.planner.plan(request).estimate

    def start(self, request: TrainingRequest) -> str:
        """Writes the run directory, starts the process and returns the name of the run.

        Raises:
            UsageError: The request cannot be met, a run is running, or training is not possible here.
            ProjectReadOnly: The project is read-only.
        """
        # a run needs all conversations, an estimate only a part
        plan = self.planner.plan(request, whole=True)
        run = self.prepare(plan)
        self.directories.start(run)
        return run.path.name

    def prepare(self, plan: TrainingPlan, *, force: bool = False) -> RunDirectory:
        """Writes the run directory of a plan.

        Args:
            force: Whether to write it even if the run is estimated to need more memory than is free.

        Raises:
            UsageError: A run is running, the libraries are missing, or too little memory is free.
            ProjectReadOnly: The project is read-only.
        """
        self._check_writable()
        self.directories.trainers.check_libraries(plan.config)
        self.directories.check_idle()
        if not force:
            _check_memory(plan.estimate, self._machine())
        return run_files.create_run(self._project, plan.name, plan.config, plan.data)

    def stop(self, name: str) -> None:
        """Asks a run to end after its step; its adapter is made of the checkpoint that its recipe selects.

        Raises:
            ProjectReadOnly: The project is read-only.
        """
        self._check_writable()
        self.directories.trainers.stop(self.directories.history(name).run)

    def resume(self, name: str) -> None:
        """Resumes a run at its last checkpoint; raises as `RunDirectories.resume`, and ProjectReadOnly."""
        self._check_writable()
        self.directories.resume(name)

    def delete(self, name: str) -> None:
        """Deletes a run with all its files.

        Raises:
            UsageError: The run is running, or its adapter is in use.
            ProjectReadOnly: The project is read-only.
        """
        self._check_writable()
        run = self.directories.history(name).run
        if name == adapter_in_use(self._project):
            raise UsageError(
                f"The adapter of {name} is in use.", "Use another one before you delete it."
            )
        run_files.delete(run)

    def use(self, name: str | None) -> None:
        """Makes scoring in the mode `tuned` use the adapter of a run; None stands for no adapter.

        Raises:
            UsageError: The run has no adapter.
            ProjectReadOnly: The project is read-only.
        """
        if name is not None:
            self.directories.history(name)
            find_adapter(self._project, self._catalog, name)
        use_adapter(self._project, name)

    def _check_writable(self) -> None:
        """Raises ProjectReadOnly if the project cannot be written."""
        if self._project.read_only is not None:
            raise ProjectReadOnly(
                f"The project is read-only: {self._project.read_only}.",
                "Close the other one, or work on a copy that you can write.",
            )


def find_adapter(project: Project, catalog: Catalog, name: str) -> AdapterEntry:
    """Returns the adapter of a run of the project, or an adapter that the catalog finds by name, file or run directory.

    Raises:
        UsageError: There is no such adapter, or the run failed.
    """
    runs = {run.path.name: run for run in all_runs(Path(project.path))}
    if name in runs:
        if not runs[name].adapter_gguf.is_file():
            raise NotYet(f"The run {name} has no adapter.", "A run makes it at its end.")
        row = RunHistory(runs[name]).row()
        if row.state == "failed":
            raise UsageError(f"The run {name} failed: {row.problem}", row.hint)
        return catalog.entry_of_adapter_file(runs[name].adapter_gguf)
    try:
        return catalog.find_adapter(name)
    except UsageError as error:
        hint = f"{error.hint} Training runs: {', '.join(runs)}." if runs else error.hint
        raise UsageError(error.message, hint) from error


def _check_memory(estimate: TrainingEstimate, machine: Machine) -> None:
    """Raises UsageError if a run is estimated to need more memory than is free."""
    need, free = estimate.memory, machine.free
    if need is None or free is None or need <= free:
        return
    raise UsageError(
        f"{estimate.name} needs about {size(need)} of memory; {size(free)} are free ({machine.device}).",
        f"{estimate.advice or 'End other programs, or set recompute=true or a lower max_tokens.'} `workbench train"
        " start --force` starts it all the same.",
    )
