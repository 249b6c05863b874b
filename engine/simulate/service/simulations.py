"""Makes the stages that play a simulation, and reads what was played, for one project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.jobs.contract import Stage
from engine.model.chat import Role, Scenario
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.simulate import tables as play_tables
from engine.simulate.records import PlayRow, PlaySetting, TranscriptLine
from engine.simulate.recsim.play import TASKS, Setting, profiles, recsim_scenarios, situations
from engine.simulate.request import SimulationOptions, SimulationRequest
from engine.simulate.sharded.aptitude import ScoredPlay
from engine.simulate.stages import PlayStage

BY_SCHEMA = Sampling(json_schema="{}")
"""Sampling by any JSON schema, to declare that a simulation asks a role for such replies; never sampled with."""


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


class ProjectSimulations:
    """The simulations of one project."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self._project = setup.project

    def model_names(self) -> list[str]:
        """Returns the names of all models; the one that the project uses for simulations is first."""
        names = [entry.name for entry in self._setup.catalog.entries()]
        names += [entry.name for entry in self._setup.endpoints.book.entries()]
        first = self._setup.models.for_work(None, "simulation")
        return list(dict.fromkeys([first, *names]))

    def texts(self, kind: str) -> dict[str, str]:
        """Returns the prompts of a kind with the edits of this project, by name."""
        return self._setup.prompts.texts(kind)

    def simulation(
        self,
        kind: str,
        scenarios: Callable[[Mapping[Role, str]], Sequence[Scenario]],
        params: Mapping[str, Any],
        asks: Mapping[Role, Sampling],
        options: SimulationOptions,
        texts: Mapping[str, str],
    ) -> Simulation:
        """Returns the simulation that plays scenarios.

        Args:
            scenarios, params: See `PlayStage`; the seed and the temperature belong to `params`.
            asks: The roles that models play, each with the most constrained sampling of its replies: `Sampling()` or
                `BY_SCHEMA`.
            texts: The prompts that the scenarios use, by name.

        Raises:
            UsageError: There is no such model, or an endpoint cannot give such replies.
        """
        options = self._with_model(options)
        names = dict.fromkeys(options.model_of(role) for role in asks)
        models = {
            name: self._setup.models.resolve(
                ModelRequest("simulation", name, context=options.context)
            )
            for name in names
        }
        for role, sampling in asks.items():
            self._setup.endpoints.check_chat(models[options.model_of(role)], sampling)
        before = [stage for model in models.values() for stage in self._setup.tuning_before(model)]
        play = PlayStage(
            self._project,
            self._setup.process,
            kind,
            scenarios=scenarios,
            params=params,
            texts=texts,
            models={role: models[options.model_of(role)] for role in asks},
            parallel=options.parallel,
        )
        return Simulation(before, play)

    def may_cost(self, options: SimulationOptions) -> bool:
        """Whether a reply may cost something: an endpoint plays one of the roles.

        Raises:
            UsageError: The project's model is gone.
        """
        options = self._with_model(options)
        roles: tuple[Role, ...] = ("assistant", "user", "judge")
        return any(self._setup.endpoints.serves(options.model_of(role)) for role in roles)

    def _with_model(self, options: SimulationOptions) -> SimulationOptions:
        """Returns the options with the name of the model where they say None."""
        return replace(options, model=self._setup.models.for_work(options.model, "simulation"))

    # What was played

    def settings(self, kind: str | None = None) -> list[PlaySetting]:
        """Returns the settings with plays, oldest first; None for all kinds."""
        with self._project.reading() as conn:
            return play_tables.settings_of(conn, kind)

    def rows(self, config_hash: str) -> list[PlayRow]:
        """Returns the plays of a setting, sorted by key; numbers in keys are compared by value."""
        with self._project.reading() as conn:
            return play_tables.rows(conn, config_hash)

    def rows_of(self, kind: str) -> list[PlayRow]:
        """Returns all plays of a kind, in the order in which they were played."""
        with self._project.reading() as conn:
            return list(play_tables.all_plays(conn, kind))

    def scores(self) -> list[ScoredPlay]:
        """Returns the score of every simulation, played or imported, whose truth has one; see `play_tables.scores`."""
        with self._project.reading() as conn:
            return play_tables.scores(conn)

    def form_runs(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the assistant's model and the result of every form that was filled, with those that were imported."""
        with self._project.reading() as conn:
            return play_tables.form_runs(conn)

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        """Returns the calls of a play with their replies, in order."""
        with self._project.reading() as conn:
            return play_tables.transcript(conn, play_id)


def recsim_simulation(simulations: ProjectSimulations, request: SimulationRequest) -> Simulation:
    """Returns the simulation that plays `request.runs` conversations of each task.

    Raises:
        UsageError: A model cannot do this.
    """
    prompts = simulations.texts("recsim")
    setting = Setting(
        prompts,
        language=request.language,
        max_turns=request.turns,
        user_tokens=request.user_tokens,
        assistant_tokens=request.assistant_tokens,
        seed=request.seed,
    )
    if request.temperature is not None:
        setting = replace(setting, temperature=request.temperature)
    scenarios = recsim_scenarios(
        setting, request.tasks or TASKS, request.runs, profiles(), situations()
    )[: request.limit]

    return simulations.simulation(
        "recsim",
        scenarios=lambda labels: scenarios,  # they do not depend on the labels of the models
        params=_recsim_params(setting),
        asks={"assistant": Sampling(), "user": Sampling()},
        options=request,
        texts=prompts,
    )


def _recsim_params(setting: Setting) -> dict[str, Any]:
    """Returns what determines the conversation of a given person and situation, apart from prompts and models."""
    return {
        "seed": setting.seed,
        "language": setting.language,
        "temperature": setting.temperature,
        "max_turns": setting.max_turns,
        "user_tokens": setting.user_tokens,
        "assistant_tokens": setting.assistant_tokens,
    }
