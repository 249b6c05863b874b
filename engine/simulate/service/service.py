"""Simulations of one project, for commands and screens: makes the stages that play them, starts them, and reads what
was played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from engine.base.errors import UsageError
from engine.base.line_files import new_file, write_file
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.project import settings
from engine.project.records import Estimate
from engine.simulate import tables as play_tables
from engine.simulate.forms.table import FilledForm
from engine.simulate.play import PlannedPlays
from engine.simulate.records import PlayRow, PlaySetting, SetResults, TranscriptLine
from engine.simulate.recsim.play import TASKS, Setting, profiles, recsim_scenarios, situations
from engine.simulate.service.forms import plan_forms
from engine.simulate.service.result_tables import form_table, item_of, module_table, tables_of
from engine.simulate.service.sharded import plan_sharded
from engine.simulate.sharded.aptitude import ScoredPlay
from engine.simulate.simulation_request import (
    Kind,
    SimulationOffers,
    SimulationRequest,
    as_request,
    request_as_json,
)
from engine.simulate.stages import PlayStage

SETTING = "simulations"
"""Setting: the request of the simulation that a screen started last."""


def plan_recsim(request: SimulationRequest, texts: Mapping[str, str]) -> PlannedPlays:
    """Returns `request.runs` conversations of each task between people with profiles and an assistant."""
    setting = Setting(texts, language=request.language, max_turns=request.turns, seed=request.seed)
    if request.temperature is not None:
        setting = replace(setting, temperature=request.temperature)
    scenarios = recsim_scenarios(
        setting, request.tasks or TASKS, request.runs, profiles(), situations()
    )[: request.limit]
    return PlannedPlays(
        lambda labels: scenarios,  # they do not depend on the labels of the models
        {
            "seed": setting.seed,
            "language": setting.language,
            "temperature": setting.temperature,
            "max_turns": setting.max_turns,
        },
        {"assistant": Sampling(), "user": Sampling()},
    )


_PLANS: Mapping[Kind, Callable[[SimulationRequest, Mapping[str, str]], PlannedPlays]] = {
    "sharded": plan_sharded,
    "forms": plan_forms,
    "recsim": plan_recsim,
}
"""Plans the plays that a request of a kind asks for, given the prompts by name."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulation that can be run.

    Attributes:
        before: Stages to run first; they tune models that were never tuned on this machine.
        play: Plays the scenarios that were not played yet.
    """

    before: Sequence[Stage]
    play: PlayStage

    @property
    def stages(self) -> list[Stage]:
        """All stages in order."""
        return [*self.before, self.play]


class SimulationService:
    """Simulations of one project: runs them in the background and reads what was played."""

    def __init__(self, setup: RunSetup, runner: JobRunner) -> None:
        self._setup, self._runner = setup, runner
        self._project = setup.project

    # Requests and runs

    def offers(self) -> SimulationOffers:
        """Returns the choices for a new request."""
        with self._project.reading() as conn:
            stored = settings.get(conn, SETTING, None)
        try:
            last = None if stored is None else as_request(stored)
        except UsageError:
            last = None
        return SimulationOffers(tuple(self.model_names()), last)

    def model_names(self) -> list[str]:
        """Returns the names of all models; the one that the project uses for simulations is first."""
        names = [entry.name for entry in self._setup.catalog.entries()]
        names += [entry.name for entry in self._setup.endpoints.book.entries()]
        first = self._setup.models.for_work(None, "simulation")
        return list(dict.fromkeys([first, *names]))

    def simulation(self, request: SimulationRequest) -> Simulation:
        """Returns the simulation that a request asks for.

        Raises:
            UsageError: A file cannot be read, there is no such model, or an endpoint cannot give such replies.
        """
        texts = self._setup.prompts.texts(request.kind)
        plan = _PLANS[request.kind](request, texts)
        named = replace(request, model=self._setup.models.for_work(request.model, "simulation"))
        models = {
            name: self._setup.models.resolve(
                ModelRequest("simulation", name, context=request.context)
            )
            for name in dict.fromkeys(named.model_of(role) for role in plan.asks)
        }
        for role, sampling in plan.asks.items():
            self._setup.endpoints.check_chat(models[named.model_of(role)], sampling)
        before = [stage for model in models.values() for stage in self._setup.tuning_before(model)]
        play = PlayStage(
            self._project,
            self._setup.process,
            request.kind,
            scenarios=plan.scenarios,
            params=plan.params,
            texts=texts,
            models={role: models[named.model_of(role)] for role in plan.asks},
            parallel=request.parallel,
        )
        return Simulation(before, play)

    def estimate(self, request: SimulationRequest) -> Estimate:
        """Returns how many plays are left, and the time that they take by the latest run of the kind with these models.

        Raises:
            UsageError: The request cannot be played.
        """
        return self.simulation(request).play.estimate()

    def start(self, request: SimulationRequest) -> int:
        """Starts the plays that are left in the background and stores the request; returns the id of the job.

        Raises:
            UsageError: The request cannot be played.
        """
        job = self._runner.start(self.simulation(request).stages)
        self._project.write(lambda conn: settings.put(conn, SETTING, request_as_json(request)))
        return job

    # What was played

    def sets(self) -> list[PlaySetting]:
        """Returns the settings of all sets of plays, the newest first."""
        with self._project.reading() as conn:
            return play_tables.settings_of(conn)[::-1]

    def rows(self, config_hash: str) -> list[PlayRow]:
        """Returns the plays of a setting, sorted by key; numbers in keys are compared by value."""
        with self._project.reading() as conn:
            return play_tables.rows(conn, config_hash)

    def results(self, config_hash: str) -> SetResults:
        """Returns the tables and the plays of a set. Of forms, all that were filled in the project are compared."""
        rows = self.rows(config_hash)
        kind = rows[0].kind if rows else ""
        tables = tables_of(kind, rows)
        if kind == "forms" and any(row.reason is None for row in rows):
            tables = (form_table(self.filled_forms()), module_table(rows))
        return SetResults(tables, tuple(item_of(row) for row in rows))

    def scores(self) -> list[ScoredPlay]:
        """Returns the score of every simulation, played or imported, whose truth has one; see `tables.scores`."""
        with self._project.reading() as conn:
            return play_tables.scores(conn)

    def filled_forms(self) -> list[FilledForm]:
        """Returns every form that was filled in the project, with those that were imported."""
        with self._project.reading() as conn:
            return play_tables.form_runs(conn)

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        """Returns the model calls of a play with their replies, in order."""
        with self._project.reading() as conn:
            return play_tables.transcript(conn, play_id)

    def export(self, config_hash: str, path: str) -> None:
        """Writes the tables and plays of a set as JSON to a new file.

        Raises:
            ProjectError: `path` exists or cannot be written.
        """
        target = new_file(path)
        tables = [
            {
                "table": table.title,
                "rows": [
                    dict(zip((column.title for column in table.columns), row.cells, strict=True))
                    for row in table.rows
                ],
            }
            for table in self.results(config_hash).tables
        ]
        plays = [asdict(row) for row in self.rows(config_hash)]
        write_file([{"config": config_hash, "tables": tables, "plays": plays}], target, "jsonl")
