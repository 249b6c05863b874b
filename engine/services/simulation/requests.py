"""Requests of the screen: as a simulation that plays them, and as JSON, to be asked again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from engine.errors import UsageError
from engine.services.simulation.forms import (
    FormsChoice,
    forms_simulation,
    load_forms,
    load_profiles,
)
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.records import SimulationRequest
from engine.services.simulation.recsim import RecsimChoice, recsim_simulation
from engine.services.simulation.sharded import (
    ShardedChoice,
    load_instructions,
    load_sources,
    making_simulation,
    sharded_simulation,
)
from engine.services.simulation.simulations import ProjectSimulations, Simulation
from engine.simulate.forms.form_session import ProfileScope, Rules
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.run import VARIANTS, Variant
from engine.simulate.recsim.people import TASKS, Language
from engine.simulate.sharded.scenario import CONDITIONS, Condition


def simulation_of(
    request: SimulationRequest,
    simulations: ProjectSimulations,
    priced: Callable[[SimulationOptions], bool],
) -> Simulation:
    """The simulation that a request asks for.

    Args:
        priced: Whether a reply may cost something.

    Raises:
        UsageError: A file cannot be read, or a model cannot do this.
    """
    options = SimulationOptions(
        request.model,
        request.user_model,
        request.judge_model,
        runs=request.runs,
        seed=request.seed,
        temperature=request.temperature,
        limit=request.limit,
    )
    if request.kind == "forms":
        forms = tuple(one if one in TOPICS else _path(one) for one in request.forms)
        rules = Rules(temperature=request.temperature or 0.0, profile=cast(ProfileScope, request.profile))
        variants = cast("tuple[Variant, ...]", request.variants)
        asked = load_forms(forms or tuple(TOPICS))
        choice = FormsChoice(asked, load_profiles(None), variants or VARIANTS, rules)
        return forms_simulation(simulations, choice, options)
    if request.kind == "recsim":
        people = RecsimChoice(
            request.tasks or TASKS, cast(Language, request.language), request.turns
        )
        return recsim_simulation(simulations, people, options)
    if request.kind == "shards":
        path = _path(request.instructions)
        making = ShardedChoice((), os.path.basename(path), priced=priced(options))
        return making_simulation(simulations, load_sources(path), making, options, request.checks)
    instructions, dataset = load_instructions(_path(request.instructions))
    conditions = cast("tuple[Condition, ...]", request.conditions) or CONDITIONS
    sharded = ShardedChoice(
        instructions, dataset, conditions, request.user_temperature, priced=priced(options)
    )
    return sharded_simulation(simulations, sharded, options)


def as_request(value: Mapping[str, Any]) -> SimulationRequest:
    """A request from its JSON.

    Raises:
        UsageError: It is none; another version of the program may have written it.
    """
    known = {field.name for field in fields(SimulationRequest)}
    if "kind" not in value or not set(value) <= known:
        raise UsageError("What was asked for then is not understood.", "Ask for it anew.")
    named: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in value.items()
    }
    return SimulationRequest(**named)


def request_as_json(request: SimulationRequest) -> dict[str, Any]:
    """A request as JSON values."""
    return asdict(request)


def _path(text: str) -> str:
    return os.path.expanduser(text.strip())
