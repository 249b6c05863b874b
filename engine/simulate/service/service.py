"""Simulations of one project, for commands and screens: makes the stages that play them, starts them, and reads what
was played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.jobs.contract import Stage
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.simulate import tables as play_tables
from engine.simulate.forms.table import FilledForm
from engine.simulate.play import PlannedPlays
from engine.simulate.records import PlayRow
from engine.simulate.recsim.play import TASKS, Setting, profiles, recsim_scenarios, situations
from engine.simulate.service.forms import plan_forms
from engine.simulate.service.sharded import plan_sharded
from engine.simulate.sharded.aptitude import ScoredPlay
from engine.simulate.simulation_request import Kind, SimulationRequest
from engine.simulate.stages import PlayStage


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
    """Simulations of one project: makes the stages that play them, and reads what was played."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self._project = setup.project

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

    def rows(self, config_hash: str) -> list[PlayRow]:
        """Returns the plays of a setting, sorted by key; numbers in keys are compared by value."""
        with self._project.reading() as conn:
            return play_tables.rows(conn, config_hash)

    def scores(self) -> list[ScoredPlay]:
        """Returns the score of every simulation, played or imported, whose truth has one; see `tables.scores`."""
        with self._project.reading() as conn:
            return play_tables.scores(conn)

    def filled_forms(self) -> list[FilledForm]:
        """Returns every form that was filled in the project, with those that were imported."""
        with self._project.reading() as conn:
            return play_tables.form_runs(conn)
