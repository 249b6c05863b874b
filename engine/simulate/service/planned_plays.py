"""The plays that a request asks for, before a model is chosen; those of users with profiles are planned here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.model.chat import Role, Scenario
from engine.model.interface import Sampling
from engine.simulate.recsim.play import TASKS, Setting, profiles, recsim_scenarios, situations
from engine.simulate.request import SimulationRequest

BY_SCHEMA = Sampling(json_schema="{}")
"""Sampling by any JSON schema, to declare that a simulation asks a role for such replies; never sampled with."""


@dataclass(frozen=True, slots=True)
class PlannedPlays:
    """The plays that a request asks for.

    Attributes:
        scenarios, params: See `PlayStage`; the seed and the temperature belong to `params`.
        asks: The roles that models play, each with the most constrained sampling of its replies: `Sampling()` or
            `BY_SCHEMA`.
    """

    scenarios: Callable[[Mapping[Role, str]], Sequence[Scenario]]
    params: Mapping[str, Any]
    asks: Mapping[Role, Sampling]


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
