"""Simulation of users with profiles who plan something with an assistant, after RecLLMSim (*recsim*)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.model.interface import Sampling
from engine.simulate.recsim.people import TASKS, profiles, situations
from engine.simulate.recsim.play import Setting, recsim_scenarios
from engine.simulate.request import Kind, SimulationRequest
from engine.simulate.service.simulations import ProjectSimulations, Simulation

KIND: Kind = "recsim"
"""The kind of these simulations."""


def recsim_simulation(simulations: ProjectSimulations, request: SimulationRequest) -> Simulation:
    """Returns the simulation that plays `request.runs` conversations of each task.

    Raises:
        UsageError: A model cannot do this.
    """
    prompts = simulations.texts(KIND)
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
        KIND,
        scenarios=lambda labels: scenarios,  # they do not depend on the labels of the models
        params=_params(setting),
        asks={"assistant": Sampling(), "user": Sampling()},
        options=request,
        texts=prompts,
    )


def _params(setting: Setting) -> dict[str, Any]:
    """Returns what determines the conversation of a given person and situation, apart from prompts and models."""
    return {
        "seed": setting.seed,
        "language": setting.language,
        "temperature": setting.temperature,
        "max_turns": setting.max_turns,
        "user_tokens": setting.user_tokens,
        "assistant_tokens": setting.assistant_tokens,
    }
