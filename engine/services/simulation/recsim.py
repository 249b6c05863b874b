"""Simulation of users with profiles who plan with an assistant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.model.chat import Role
from engine.model.interface import Sampling
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.simulations import ProjectSimulations, Simulation
from engine.simulate.recsim.people import TASKS, Language, profiles, situations
from engine.simulate.recsim.play import (
    ASSISTANT_TOKENS,
    MAX_TURNS,
    USER_TOKENS,
    RecSimScenario,
    Setting,
    recsim_scenarios,
)

KIND = "recsim"


@dataclass(frozen=True, slots=True)
class RecsimChoice:
    """Options of this kind.

    Attributes:
        tasks: Some of `TASKS`; of each, as many conversations as runs are asked for.
        turns: Answers of the assistant, at most.
        asks: Both sides are asked afterwards what came of it.
    """

    tasks: tuple[str, ...] = TASKS
    language: Language = "en"
    turns: int = MAX_TURNS
    asks: bool = False
    user_tokens: int = USER_TOKENS
    assistant_tokens: int = ASSISTANT_TOKENS


def recsim_simulation(
    simulations: ProjectSimulations, choice: RecsimChoice, options: SimulationOptions
) -> Simulation:
    """The simulation that plays `options.runs` conversations of each task.

    Raises:
        UsageError: A model cannot be had.
    """
    texts = simulations.texts(KIND)
    setting = Setting(
        texts,
        choice.language,
        choice.turns,
        user_tokens=choice.user_tokens,
        assistant_tokens=choice.assistant_tokens,
        asks=choice.asks,
        seed=options.seed,
    )
    if options.temperature is not None:
        setting = replace(setting, temperature=options.temperature)
    met = recsim_scenarios(setting, choice.tasks, options.runs, profiles(), situations())[: options.limit]

    def scenarios(labels: Mapping[Role, str]) -> list[RecSimScenario]:
        return met

    asks: dict[Role, Sampling] = {"assistant": Sampling(), "user": Sampling()}
    return simulations.simulation(KIND, scenarios, _params(setting), asks, options, texts)


def _params(setting: Setting) -> dict[str, Any]:
    return {
        "seed": setting.seed,
        "language": setting.language,
        "temperature": setting.temperature,
        "max_turns": setting.max_turns,
        "user_tokens": setting.user_tokens,
        "assistant_tokens": setting.assistant_tokens,
        "asks": setting.asks,
    }
