"""Simulation of form filling after Hakimov et al. (2024).

A *module* is one prompt with one kind of reply; a *dummy* is a module that is never called, whose *fallback*, an object
that is made without a model, replies for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.base.text import as_json
from engine.model.interface import Sampling
from engine.simulate.forms.form import (
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
from engine.simulate.play import BY_SCHEMA, PlannedPlays
from engine.simulate.simulation_request import SimulationRequest

PROFILES_DIGEST_CHARS = 16
"""Characters of the digest of the profiles among the parameters of a simulation, each a hexadecimal digit."""


def plan_forms(request: SimulationRequest, texts: Mapping[str, str]) -> PlannedPlays:
    """Returns the plays that fill every form by every variant, each `request.runs` times.

    Raises:
        UsageError: A file cannot be read, or a module is not known.
    """
    rules, profiles, forms = rules_of(request), profiles_of(request), forms_of(request)
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
        "rules": {**asdict(rules), "dummies": sorted(rules.dummies)},
        "profiles": sha256(profiles_json.encode("utf-8")).hexdigest()[:PROFILES_DIGEST_CHARS],
    }
    sampling = BY_SCHEMA if rules.schemas else Sampling()
    return PlannedPlays(
        lambda labels: runs,  # they do not depend on the labels of the models
        params,
        {"assistant": sampling, "user": sampling},
    )


def rules_of(request: SimulationRequest) -> Rules:
    """Returns the rules by which a request fills forms.

    Raises:
        UsageError: A module is not known.
    """
    return Rules(
        temperature=request.temperature or 0.0,
        dummies=dummies(request.dummies),
        profile=request.profile,
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


def load_forms(names: Sequence[str]) -> list[Form]:
    """Returns the forms with these bundled names or paths, each once.

    Raises:
        UsageError: A file cannot be read, or is not a form.
    """
    return [known_form(name) if name in TOPICS else _form(name) for name in dict.fromkeys(names)]


def _form(name: str) -> Form:
    """Reads a form from a user's file.

    Raises:
        UsageError: It cannot be read, or is no form.
    """
    try:
        return form_of_file(name, _text(Path(os.path.expanduser(name.strip()))))
    except UsageError as error:
        hint = error.hint or f"Forms that come along: {', '.join(TOPICS)}."
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
