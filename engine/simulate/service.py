"""Simulations of one project, for commands: makes the stages that play them, and reads what was played."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from engine.base import folders
from engine.base.errors import UsageError
from engine.jobs.contract import Stage
from engine.model.chat import Role
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.simulate import recsim, tables
from engine.simulate.forms.form import (
    TOPICS,
    Form,
    form_of_file,
    known_form,
    known_profiles,
    people_of_paper,
)
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.run import VARIANTS, FormRun
from engine.simulate.play import BY_SCHEMA, PlannedPlays, StoredPlay
from engine.simulate.result_tables import FilledForm, ScoredPlay
from engine.simulate.sharded.actions import ActionsTask
from engine.simulate.sharded.instruction import (
    BUNDLED,
    Instruction,
    MathTask,
    Task,
    bundled_instructions,
    read_instructions,
)
from engine.simulate.sharded.play import CONDITIONS, Setting, ShardedScenario
from engine.simulate.simulation_request import Kind, SimulationRequest
from engine.simulate.stages import PlayStage

TASK_CLASSES: Mapping[str, Callable[[Instruction, Mapping[str, str]], Task]] = {
    "math": MathTask,
    "actions": ActionsTask,
}
"""Makes the task of an instruction, given the prompts by name too; by the name of the task in the instruction."""


def plan_sharded(request: SimulationRequest, prompts: Mapping[str, str]) -> PlannedPlays:
    """Returns the plays of the first `request.limit` instructions under each condition of a request, `request.runs` of
    each.

    Raises:
        UsageError: The instructions cannot be read, or one cannot be simulated.
    """
    instructions, dataset = load_instructions(request.instructions)
    with_tasks = [
        (instruction, TASK_CLASSES[instruction.task](instruction, prompts))
        for instruction in instructions[: request.limit]
    ]
    temperature = 1.0 if request.temperature is None else request.temperature
    params = {
        "seed": request.seed,
        "temperature": temperature,
        "user_temperature": request.user_temperature,
        "max_tokens": request.max_tokens,
    }
    moment = datetime.now().strftime("%Y-%m-%d %H:%M:%S")

    def scenarios(model_names: Mapping[Role, str]) -> list[ShardedScenario]:
        """Returns the scenarios once the names of the models are known."""
        setting = Setting(
            texts=prompts,
            assistant=model_names["assistant"],
            user=model_names["user"],
            system=model_names["judge"],  # the paper calls it the system
            dataset=dataset,
            version=folders.version(),
            moment=moment,
            assistant_temperature=temperature,
            user_temperature=request.user_temperature,
            max_tokens=request.max_tokens,
            seed=request.seed,
        )
        return [
            ShardedScenario(setting, instruction, task, condition, run)
            for condition in request.conditions or CONDITIONS
            for instruction, task in with_tasks
            for run in range(request.runs)
        ]

    return PlannedPlays(
        scenarios, params, {"assistant": Sampling(), "user": BY_SCHEMA, "judge": BY_SCHEMA}
    )


def load_instructions(name: str) -> tuple[list[Instruction], str]:
    """Returns the instructions of a file or with a bundled name, and their file name for the logs.

    Raises:
        UsageError: The file cannot be read.
    """
    if name in BUNDLED:
        return bundled_instructions(name), f"instructions_{name}.json"
    text = _text_of(name, f"Instructions that come along: {', '.join(BUNDLED)}.")
    return read_instructions(text), Path(name).name


def plan_forms(request: SimulationRequest, prompts: Mapping[str, str]) -> PlannedPlays:
    """Returns the plays that fill each form of a request by each variant, `request.runs` of each; of all these the
    first `request.limit`.

    Raises:
        UsageError: A file cannot be read, or is not a form.
    """
    temperature = 0.0 if request.temperature is None else request.temperature
    rules = Rules(temperature=temperature, profile=request.profile)
    profiles = known_profiles() if request.profile == "run" else people_of_paper()
    forms = load_forms(request)
    runs = [
        FormRun(form, variant, number, rules, prompts, profiles, request.seed)
        for number in range(1, request.runs + 1)
        for form in forms
        for variant in request.variants or VARIANTS
    ]
    return PlannedPlays(
        lambda model_names: runs[: request.limit],  # they do not depend on the models
        {"seed": request.seed, "rules": asdict(rules)},
        {"assistant": BY_SCHEMA, "user": BY_SCHEMA},
    )


def load_forms(request: SimulationRequest) -> list[Form]:
    """Returns the forms with the bundled names or paths of a request, each once; without any, all that are bundled.

    Raises:
        UsageError: A file cannot be read, or is not a form.
    """
    return [_form(name) for name in dict.fromkeys(request.forms or TOPICS)]


def _form(name: str) -> Form:
    """Returns the form with a bundled name, or reads it from a user's file.

    Raises:
        UsageError: It cannot be read, or is no form.
    """
    if name in TOPICS:
        return known_form(name)
    hint = f"Forms that come along: {', '.join(TOPICS)}."
    text = _text_of(name, hint)
    try:
        return form_of_file(name, text)
    except UsageError as error:
        raise UsageError(error.message, error.hint or hint) from None


def plan_recsim(request: SimulationRequest, prompts: Mapping[str, str]) -> PlannedPlays:
    """Returns `request.runs` conversations of each task between people with profiles and an assistant; of all these
    the first `request.limit`."""
    setting = recsim.Setting(
        prompts,
        max_turns=request.turns,
        temperature=recsim.TEMPERATURE if request.temperature is None else request.temperature,
        seed=request.seed,
    )
    scenarios = recsim.recsim_scenarios(
        setting,
        request.tasks or recsim.TASKS,
        request.runs,
        recsim.profiles(),
        recsim.situations(),
    )
    return PlannedPlays(
        lambda model_names: scenarios[: request.limit],  # they do not depend on the models
        {"seed": setting.seed, "temperature": setting.temperature, "max_turns": setting.max_turns},
        {"assistant": Sampling(), "user": Sampling()},
    )


_PLANS: Mapping[Kind, Callable[[SimulationRequest, Mapping[str, str]], PlannedPlays]] = {
    "sharded": plan_sharded,
    "forms": plan_forms,
    "recsim": plan_recsim,
}
"""Plans the plays that a request of a kind asks for, given the prompts by name."""


def _text_of(name: str, hint: str) -> str:
    """Returns the text of a user's file.

    Raises:
        UsageError: It cannot be read; `hint` says what could be taken instead.
    """
    try:
        return Path(os.path.expanduser(name.strip())).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{name} cannot be read: {reason}.", hint) from None


class SimulationService:
    """Simulations of one project: makes the stages that play them, and reads what was played."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self._project = setup.project

    def stages(self, request: SimulationRequest) -> tuple[list[Stage], PlayStage]:
        """Returns the stages of the simulation that a request asks for, and the last of them, which plays; those before
        tune models that were never tuned on this machine.

        Raises:
            UsageError: A file cannot be read, there is no such model, or an endpoint cannot give such replies.
        """
        prompts = self._setup.prompts.texts(request.kind)
        plan = _PLANS[request.kind](request, prompts)
        named = replace(request, model=self._setup.models.for_work(request.model, "simulation"))
        models = {
            name: self._setup.models.resolve(
                ModelRequest("simulation", name, context=request.context)
            )
            for name in dict.fromkeys(named.model_of(role) for role in plan.sampling_by_role)
        }
        for role, sampling in plan.sampling_by_role.items():
            self._setup.endpoints.check_chat(models[named.model_of(role)], sampling)
        before = [stage for model in models.values() for stage in self._setup.tuning_before(model)]
        play = PlayStage(
            self._project,
            self._setup.process,
            request.kind,
            make_scenarios=plan.scenarios,
            params=plan.params,
            texts=prompts,
            models={role: models[named.model_of(role)] for role in plan.sampling_by_role},
            parallel=request.parallel,
        )
        return [*before, play], play

    def plays(self, config_hash: str) -> dict[str, StoredPlay]:
        """Returns the plays of the simulation whose stage has this hash, by their keys."""
        return self._project.read(tables.plays, config_hash)

    def results(self, config_hash: str | None = None) -> tuple[list[ScoredPlay], list[FilledForm]]:
        """Returns every score and every filled form, played or imported; or those of the plays of the
        simulation whose stage has this hash."""
        with self._project.reading() as conn:
            return tables.scores(conn, config_hash), tables.filled_forms(conn, config_hash)
