"""Training runs as the screens and commands see them: planned, begun, watched, stopped, and their adapters used."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from engine.errors import ProjectReadOnly, UsageError
from engine.model.catalog import Catalog
from engine.records.validation import CompletenessTable
from engine.run_directory.config import RECIPES, TrainConfig
from engine.run_directory.events import RunDirectory
from engine.services.training import adapter_in_use, presets, process, run_files
from engine.services.training.base import this_machine
from engine.services.training.history import RunHistory, retired_warning
from engine.services.training.plan import TrainingPlan, TrainingPlanner
from engine.services.training.process import INSTALL, Trainers, missing_libraries
from engine.services.training.records import (
    Offer,
    RunDetail,
    TrainingEstimate,
    TrainingOffers,
    TrainingRequest,
    TrainingRun,
)
from engine.services.training.run_files import all_runs, run_named
from engine.store.project import Project

ASKED_APART = ("base", "base_name", "recipe")
"""Fields of the config that a wish has fields of its own for."""

WHILE_GOING_ON = ("rows", "recompute", "threads", "patience")
"""Fields that may be changed when a run goes on: they say how it is computed and how long, not what is learned."""


class Runs:
    """The runs beside one project file, without the project being open."""

    def __init__(self, project: Path, trainers: Trainers | None = None) -> None:
        self.project = project
        self.trainers = trainers or Trainers()
        self._histories: dict[Path, RunHistory] = {}
        self._guard = threading.Lock()

    def histories(self) -> list[RunHistory]:
        """All runs, newest first."""
        return [self._history(run) for run in all_runs(self.project)]

    def history(self, name: str) -> RunHistory:
        """One run; raises UsageError when there is none of this name."""
        return self._history(run_named(self.project, name))

    def begin(self, run: RunDirectory) -> int:
        """Starts the process of a run unless another one of the project works; its id.

        Raises:
            UsageError: Another one works, or training is not possible here.
        """
        for other in all_runs(self.project):
            if process.works(other):
                raise UsageError(f"{other.path.name} is running.", "Stop it first, or wait.")
        return self.trainers.start(run)

    def go_on(self, name: str, settings: Sequence[tuple[str, str]] = ()) -> RunDirectory:
        """Starts a process that goes on with a run at its last checkpoint.

        Args:
            settings: Fields of `WHILE_GOING_ON` with other values than before.

        Raises:
            UsageError: It is done or works, or a setting cannot be changed any more.
        """
        history = self.history(name)
        state = history.row().state
        if state in ("finished", "running"):
            raise UsageError(f"{name} is {state}.", "Only a run that did not finish can go on.")
        for warning in retired_warning(history.config):
            raise UsageError(warning, "Start a new run with another recipe.")
        fixed = [key for key, _ in settings if key not in WHILE_GOING_ON]
        if fixed:
            raise UsageError(
                f"{', '.join(fixed)} cannot change while a run goes on.",
                f"Only {', '.join(WHILE_GOING_ON)} can; for others begin a new run.",
            )
        if settings:
            config = TrainConfig.load(history.run.config)
            presets.with_settings(config, dict(settings)).save(history.run.config)
        self.begin(history.run)
        return history.run

    def _history(self, run: RunDirectory) -> RunHistory:
        with self._guard:
            return self._histories.setdefault(run.path, RunHistory(run))


class TrainingService:
    """Training of one project; implements `engine.services.training.records.Training`."""

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        table: Callable[[str | None], CompletenessTable],
        trainers: Trainers | None = None,
    ) -> None:
        """`table` makes the truncation test over what a run held out, or over all conversations."""
        self._project, self._catalog, self._table = project, catalog, table
        self.runs_beside = Runs(Path(project.path), trainers)
        self.planner = TrainingPlanner(project, catalog, self.runs_beside.histories)

    def offers(self) -> TrainingOffers:
        """What a new run may be made of, and whether training is possible here."""
        where = this_machine()
        missing = missing_libraries()
        return TrainingOffers(
            recipes=tuple(Offer(name, name, text) for name, text in recipe_help().items()),
            presets=tuple(
                Offer(preset.name, preset.name, preset.help) for preset in presets.PRESETS.values()
            ),
            preset=presets.preset_for(where.gpu_memory).name,
            bases=tuple(
                Offer(entry.name, entry.name, f"{entry.origin}, {entry.path.name}")
                for entry in self._catalog.entries()
            ),
            settings=tuple(
                Offer(one.name, one.name, str(one.metadata.get("help", "")))
                for one in fields(TrainConfig)
                if one.name not in ASKED_APART
            ),
            memory=where.memory,
            device=where.device,
            missing=missing,
            hint=INSTALL if missing else "",
        )

    def runs(self) -> list[TrainingRun]:
        """All runs, newest first."""
        used = self._in_use()
        return [h.row(h.run.path.name == used) for h in self.runs_beside.histories()]

    def detail(self, name: str) -> RunDetail:
        """Curves, samples and settings of a run."""
        return self.runs_beside.history(name).detail(name == self._in_use())

    def log(self, name: str) -> str:
        """What the processes of a run wrote, of a long log the last megabyte."""
        return self.runs_beside.history(name).log()

    def estimate(self, wish: TrainingRequest) -> TrainingEstimate:
        """What a run would cost."""
        return self.planner.plan(wish).estimate

    def start(self, wish: TrainingRequest) -> str:
        """Writes the data and starts the process; returns the run's name."""
        run = self.prepare(self.planner.plan(wish, whole=True))
        self.runs_beside.begin(run)
        return run.path.name

    def prepare(self, plan: TrainingPlan) -> RunDirectory:
        """Writes the directory of a run unless another one works, which would have to be waited for.

        Raises:
            UsageError: Another one works, or training is not possible here.
            ProjectReadOnly: The project is.
        """
        self._refuse_reading_only()
        missing = missing_libraries()
        if missing:
            raise UsageError(missing, INSTALL)
        for other in all_runs(Path(self._project.path)):
            if process.works(other):
                raise UsageError(f"{other.path.name} is running.", "Stop it first, or wait.")
        return run_files.prepare(self._project, plan.name, plan.config, plan.data)

    def stop(self, name: str) -> None:
        """Asks a run to end after its step."""
        self._refuse_reading_only()
        self.runs_beside.trainers.stop(self.runs_beside.history(name).run)

    def resume(self, name: str) -> None:
        """Starts a process that goes on at the last checkpoint."""
        self._refuse_reading_only()
        self.runs_beside.go_on(name)

    def delete(self, name: str) -> None:
        """Removes a run with all its files."""
        self._refuse_reading_only()
        run = self.runs_beside.history(name).run
        if name == self._in_use():
            raise UsageError(
                f"The adapter of {name} is in use.", "Use another one before you delete it."
            )
        if process.works(run):
            raise UsageError(f"{name} is running.", "Stop it first.")
        run_files.delete(run)

    def use(self, name: str | None) -> None:
        """Scoring in the mode `tuned` uses this run's adapter from now on; None takes the one the program brings."""
        if name is not None:
            adapter_in_use.find(
                self._project, self._catalog, self.runs_beside.history(name).run.path.name
            )
        adapter_in_use.put(self._project, name)

    def table(self, name: str | None) -> CompletenessTable:
        """The truncation test over what a run held out, or over all conversations."""
        return self._table(name)

    def _in_use(self) -> str | None:
        return adapter_in_use.get(self._project)

    def _refuse_reading_only(self) -> None:
        if self._project.read_only is not None:
            raise ProjectReadOnly(
                f"The project is read-only: {self._project.read_only}.",
                "Close the other one, or work on a copy that you can write.",
            )


def recipe_help() -> dict[str, str]:
    """What each recipe is, in plain words, the default first."""
    (text,) = (str(one.metadata["help"]) for one in fields(TrainConfig) if one.name == "recipe")
    names = "|".join(map(re.escape, RECIPES))
    found = re.findall(rf"\b({names}): (.*?)(?=\s(?:{names}): |$)", text)
    return {name: f"{words[:1].upper()}{words[1:]}" for name, words in found}
