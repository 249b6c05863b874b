"""The training runs of a project file: find, start and resume them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from engine.base.errors import UsageError
from engine.training import presets, process
from engine.training.history import RunHistory, retired_warning
from engine.training.process import Trainers
from engine.training.run_directory.config import TrainConfig
from engine.training.run_directory.events import RunDirectory
from engine.training.run_files import HiddenRun, all_runs, run_named, runs_and_hidden

CHANGEABLE = ("rows", "recompute", "processes", "threads", "patience")
"""Settings that may change when a run is resumed: they affect how it is computed and how long, not what is learned."""


class TrainingRuns:
    """The run directories beside a project file. The project need not be open."""

    def __init__(self, project: Path, trainers: Trainers | None = None) -> None:
        """Reads nothing yet.

        Args:
            trainers: Starts the processes; the real one where None.
        """
        self.project = project
        self.trainers = trainers or Trainers()
        self._histories: dict[Path, RunHistory] = {}
        self._guard = threading.Lock()

    def histories(self) -> list[RunHistory]:
        """Returns all runs, newest first."""
        return self.histories_and_hidden()[0]

    def histories_and_hidden(self) -> tuple[list[RunHistory], list[HiddenRun]]:
        """Returns all runs, newest first, and those beside the project that are not its own."""
        runs, hidden = runs_and_hidden(self.project)
        return [self._history(run) for run in runs], hidden

    def history(self, name: str) -> RunHistory:
        """Returns the history of a run; raises UsageError if there is none of this name."""
        return self._history(run_named(self.project, name))

    def check_idle(self) -> None:
        """Checks that no run of the project is running.

        Raises:
            UsageError: One is.
        """
        for run in all_runs(self.project):
            if process.has_process(run):
                raise UsageError(f"{run.path.name} is running.", "Stop it first, or wait.")

    def start(self, run: RunDirectory) -> int:
        """Starts the process of a run and returns its id.

        Raises:
            UsageError: A run of the project is running, or training is not possible here.
        """
        self.check_idle()
        return self.trainers.start(run)

    def resume(self, name: str, settings: Sequence[tuple[str, str]] = ()) -> RunDirectory:
        """Starts a process that resumes a run at its last checkpoint.

        Args:
            settings: Settings of `CHANGEABLE` with new values.

        Raises:
            UsageError: The run is finished, running or of a retired recipe, or a setting cannot change any more.
        """
        history = self.history(name)
        state = history.row().state
        if state in ("finished", "running"):
            raise UsageError(
                f"{name} is {state}.", "Only a run that did not finish can be resumed."
            )
        for warning in retired_warning(history.config):
            raise UsageError(warning, "Start a new run with another recipe.")
        fixed = [key for key, _ in settings if key not in CHANGEABLE]
        if fixed:
            raise UsageError(
                f"{', '.join(fixed)} cannot change when a run is resumed.",
                f"Only {', '.join(CHANGEABLE)} can; for others start a new run.",
            )
        if settings:
            config = TrainConfig.load(history.run.config)
            changed = presets.with_settings(config, dict(settings))
            self.trainers.processes(changed)
            changed.save(history.run.config)
        self.start(history.run)
        return history.run

    def _history(self, run: RunDirectory) -> RunHistory:
        with self._guard:
            return self._histories.setdefault(run.path, RunHistory(run))
