"""Simulation of form filling after Hakimov et al. (2024), and the files of its runs.

A *module* is one prompt with one kind of reply; a *dummy* is a module that is never called, whose *fallback*, an object
that is made without a model, replies for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, UsageError
from engine.base.files import create_private_folder, write_atomically
from engine.base.text import as_json
from engine.model.chat import Role
from engine.model.interface import Sampling
from engine.simulate.forms.form import (
    ALL_FORMS,
    PAPER_PEOPLE,
    TOPICS,
    Form,
    Profile,
    form_of_file,
    known_form,
    known_profiles,
    people_of_paper,
    profiles_of_file,
)
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.modules import MODULES
from engine.simulate.forms.run import VARIANTS, FormRun
from engine.simulate.records import PlayRow, TranscriptLine
from engine.simulate.request import Kind, SimulationRequest
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation

BY_FALLBACK = "used fallback mechanism"
"""Replaces the prompt in a transcript when a fallback replied."""


def run_files(
    result: Mapping[str, Any],
    prompts: Sequence[str],
    rules: Mapping[str, Any],
    models: Mapping[str, str],
) -> dict[str, str]:
    """Returns the files of a run by name, as JSON texts.

    Args:
        result: `Ending.result` of the play.
        prompts: The last message of each call of the play, in order.
        rules: The fields of `Rules`.
        models: Label of the model of each role.

    Returns:
        `config.json`, `dialogue.json`, `filled-form.json` and `transcript.json`; for a modular run also `info.json`,
        `dm-state.json` and `cfm-states.json`.
    """
    files: dict[str, Any] = {
        "config.json": _config(result, rules, models),
        "dialogue.json": result["dialogue"],
        "filled-form.json": result["filled"],
        "transcript.json": {
            "interactions": [_entry(interaction, prompts) for interaction in result["interactions"]]
        },
    }
    if "chunks" in result:
        # Only a modular run has chunks.
        files["info.json"] = result["information"]
        files["dm-state.json"] = result["manager"]
        files["cfm-states.json"] = result["chunks"]
    return {name: json.dumps(value, ensure_ascii=False) for name, value in files.items()}


def _entry(interaction: Mapping[str, Any], prompts: Sequence[str]) -> dict[str, Any]:
    """Returns an interaction of `FormSession` as the original's transcript has it.

    Its prompt is the user's question, `BY_FALLBACK`, or the prompt of its call.
    """
    prompt = interaction.get("prompt")
    if prompt is None:
        prompt = BY_FALLBACK if interaction["call"] is None else prompts[interaction["call"]]
    return {"module": interaction["module"], "prompt": prompt, "output": interaction["output"]}


def _config(
    result: Mapping[str, Any], rules: Mapping[str, Any], models: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the configuration of a run as the original writes it, with what is added here."""
    label = models.get("assistant", "")
    modules = {
        module.name: "dummy" if module.name in rules["dummies"] else label
        for module in MODULES
        if "chunks" in result  # a modular run
    }
    return {
        "model": {**modules, "user": models.get("user", "")} if modules else label,
        "form": result["form"],
        "grouping_size": rules["grouping_size"],
        "temperature": rules["temperature"],
        "base temp": rules["temperature"],
        "high temp": rules["high"],
        "autouser": bool(models.get("user")),
        "variant": result["variant"]
        if rules.get("schemas", True)
        else f"{result['variant']}, free",
        "run": result["run"],
        "ended": result["ended"],
        "required_right": result["required_right"],
        "optional_right": result["optional_right"],
    }


KIND: Kind = "forms"
"""The kind of these simulations."""

PROFILES_DIGEST_CHARS = 16
"""Characters of the digest of the profiles among the parameters of a simulation, each a hexadecimal digit."""


def forms_simulation(simulations: ProjectSimulations, request: SimulationRequest) -> Simulation:
    """Returns the simulation that fills every form by every variant `request.runs` times.

    Raises:
        UsageError: A file cannot be read, a module is not known, or a model cannot do this.
    """
    rules, profiles, forms = rules_of(request), profiles_of(request), forms_of(request)
    texts = simulations.texts(KIND)
    runs = [
        FormRun(
            form,
            variant,
            number,
            rules=rules,
            texts=texts,
            profiles=profiles,
            seed=request.seed,
        )
        for number in range(1, request.runs + 1)
        for form in forms
        for variant in request.variants or VARIANTS
    ][: request.limit]

    profiles_json = as_json(
        [[profile.name, profile.description, profile.answers] for profile in profiles]
    )
    params = {
        "seed": request.seed,
        "rules": rules_as_json(rules),
        "profiles": sha256(profiles_json.encode("utf-8")).hexdigest()[:PROFILES_DIGEST_CHARS],
    }
    sampling = BY_SCHEMA if rules.schemas else Sampling()
    asks: dict[Role, Sampling] = {"assistant": sampling, "user": sampling}
    return simulations.simulation(
        KIND,
        # The runs do not depend on the labels of the models.
        scenarios=lambda labels: runs,
        params=params,
        asks=asks,
        options=request,
        texts=texts,
    )


def rules_of(request: SimulationRequest) -> Rules:
    """Returns the rules by which a request fills forms.

    Raises:
        UsageError: A module is not known.
    """
    return Rules(
        temperature=request.temperature or 0.0,
        high=request.high,
        grouping_size=request.grouping,
        follow_ups=request.follow_ups,
        turns_per_field=request.turns_per_field,
        dummies=dummies(request.dummies),
        profile=request.profile,
        history_tokens=request.history,
        schemas=not request.free_replies,
    )


def forms_of(request: SimulationRequest) -> list[Form]:
    """Returns the forms that a request fills; see `load_forms`."""
    return load_forms(request.forms or tuple(TOPICS))


def profiles_of(request: SimulationRequest) -> tuple[Profile, ...]:
    """Returns the profiles that users are drawn from: bundled ones, those of the paper, or those of a file.

    Raises:
        UsageError: The file cannot be read or holds no profiles.
    """
    if request.profiles is None:
        return known_profiles()
    if request.profiles == PAPER_PEOPLE:
        return people_of_paper()
    path = Path(os.path.expanduser(request.profiles))
    return profiles_of_file(str(path), _text(path))


def rules_as_json(rules: Rules) -> dict[str, Any]:
    """Returns the rules as JSON values; modules in alphabetical order. `schemas` is there where it is not the
    default, so that earlier settings keep their hash."""
    values = {**asdict(rules), "dummies": sorted(rules.dummies)}
    if rules.schemas:
        del values["schemas"]
    return values


def dummies(names: Sequence[str]) -> frozenset[str]:
    """Returns the names of the modules with these prompts; `all` alone selects every module.

    Raises:
        UsageError: There is no such module.
    """
    if list(names) == ["all"]:
        return frozenset(module.name for module in MODULES)
    known = {module.wording: module.name for module in MODULES}
    for name in names:
        if name not in known:
            raise NotFound(f"There is no module `{name}`.", f"The modules: {', '.join(known)}.")
    return frozenset(known[name] for name in names)


def write_run(
    folder: Path,
    row: PlayRow,
    lines: Sequence[TranscriptLine],
    models: Mapping[str, str],
    rules: Rules,
) -> Path:
    """Writes a run in the files of Hakimov et al. (2024) into `FORM/VARIANT/NUMBER` under a folder; returns that path.

    Raises:
        UsageError: The files cannot be written.
    """
    last_messages = [line.messages[-1] for line in lines]
    prompts = [content for _, content in last_messages]
    files = run_files(row.result, prompts, rules_as_json(rules), models)
    # The key is `forms/FORM/VARIANT/NUMBER`.
    target = folder.joinpath(*row.key.split("/")[1:])
    try:
        create_private_folder(target)
        for name, text in files.items():
            write_atomically(target / name, text)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
    return target


def load_forms(names: Sequence[str]) -> list[Form]:
    """Returns the forms with these bundled names or paths, each once.

    Raises:
        UsageError: A file cannot be read, or is not a form.
    """
    return [known_form(name) if name in ALL_FORMS else _form(name) for name in dict.fromkeys(names)]


def _form(name: str) -> Form:
    """Reads a form from a user's file.

    Raises:
        UsageError: It cannot be read, or is no form.
    """
    try:
        return form_of_file(name, _text(Path(os.path.expanduser(name.strip()))))
    except UsageError as error:
        hint = error.hint or f"Forms that come along: {', '.join(ALL_FORMS)}."
        raise UsageError(error.message, hint) from None


def _text(path: Path) -> str:
    """Returns the text of a file.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} cannot be read: it is no text.") from None
