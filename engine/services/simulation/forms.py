"""Simulation of form filling, and the files of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.model.chat import Role
from engine.model.interface import Sampling
from engine.records.simulation import PlayRow, TranscriptLine
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.form import TOPICS, Form, form_of_file, known_form
from engine.simulate.forms.modules import MODULES
from engine.simulate.forms.profiles import Profile, known_profiles, profiles_of_file
from engine.simulate.forms.run import VARIANTS, FormRun, Variant
from engine.simulate.forms.run_files import run_files
from engine.text import as_json

KIND = "forms"


@dataclass(frozen=True, slots=True)
class FormsChoice:
    """Options of this kind; see `load_forms` and `load_profiles`."""

    forms: Sequence[Form]
    profiles: tuple[Profile, ...]
    variants: Sequence[Variant] = VARIANTS
    rules: Rules = field(default_factory=Rules)


def forms_simulation(
    simulations: ProjectSimulations, choice: FormsChoice, options: SimulationOptions
) -> Simulation:
    """The simulation that fills every form by every variant `options.runs` times; the temperature is that of the rules.

    Raises:
        UsageError: A model cannot do this.
    """
    rules, profiles = choice.rules, choice.profiles
    texts = simulations.texts(KIND)
    runs = [
        FormRun(form, variant, number, rules, texts, profiles, options.seed)
        for number in range(1, options.runs + 1)
        for form in choice.forms
        for variant in choice.variants
    ][: options.limit]

    def scenarios(labels: Mapping[Role, str]) -> list[FormRun]:
        return runs

    described = as_json([[one.name, one.description, one.answers] for one in profiles])
    params = {
        "seed": options.seed,
        "rules": rules_as_json(rules),
        "profiles": sha256(described.encode("utf-8")).hexdigest()[:16],
    }
    asks: dict[Role, Sampling] = {"assistant": BY_SCHEMA, "user": BY_SCHEMA}
    return simulations.simulation(KIND, scenarios, params, asks, options, texts)


def rules_as_json(rules: Rules) -> dict[str, Any]:
    """Rules as JSON values."""
    return {**asdict(rules), "dummies": sorted(rules.dummies)}


def dummies(names: Sequence[str]) -> frozenset[str]:
    """Modules by the names of their prompts, as transcripts call them; `all` is all of them.

    Raises:
        UsageError: There is no such module.
    """
    if list(names) == ["all"]:
        return frozenset(one.name for one in MODULES)
    known = {one.wording: one.name for one in MODULES}
    for name in names:
        if name not in known:
            raise UsageError(f"There is no module `{name}`.", f"The modules: {', '.join(known)}.")
    return frozenset(known[name] for name in names)


def write_run(
    folder: Path,
    row: PlayRow,
    lines: Sequence[TranscriptLine],
    models: Mapping[str, str],
    rules: Rules,
) -> Path:
    """Writes a run as its source stores one, into `FORM/VARIANT/NUMBER` under a folder; returns that.

    Raises:
        UsageError: The files cannot be written.
    """
    prompts = [line.messages[-1][1] for line in lines]
    files = run_files(row.result, prompts, rules_as_json(rules), models)
    target = folder.joinpath(*row.key.split("/")[1:])
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (target / name).write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
    return target


def load_forms(names: Sequence[str]) -> list[Form]:
    """Bundled forms by name, or files.

    Raises:
        UsageError: A file cannot be read or is no form.
    """
    return [known_form(name) if name in TOPICS else _form(name) for name in dict.fromkeys(names)]


def load_profiles(path: Path | None) -> tuple[Profile, ...]:
    """The profiles of a file; the bundled ones for None.

    Raises:
        UsageError: The file cannot be read or holds no profiles.
    """
    return known_profiles() if path is None else profiles_of_file(str(path), _text(path))


def _form(name: str) -> Form:
    try:
        return form_of_file(name, _text(Path(name)))
    except UsageError as error:
        hint = error.hint or f"Forms that come along: {', '.join(TOPICS)}."
        raise UsageError(error.message, hint) from None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} cannot be read: it is no text.") from None
