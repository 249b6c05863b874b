"""What a training run is asked to be. Each field declares its help, its default and its check once: the flags of
`workbench train`, the fields of the dialog and the planner all read this declaration. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from engine.errors import UsageError
from engine.filters import Filter
from engine.run_directory.config import RECIPES, TrainConfig
from engine.services.training.presets import PRESETS


@dataclass(frozen=True, slots=True)
class Option:
    """How one field of a request is asked for.

    Attributes:
        help: What the field means, without a capital at the start and without a point at the end.
        default: The default in words, where the value itself does not say it.
        metavar: Stands for the value in the usage line; the name of the field where empty.
        convert: Makes the value from text; raises ValueError.
        allowed: Whether a value can be used.
        must: What a value must be; completes "it must be ...".
    """

    help: str
    default: str = ""
    metavar: str = ""
    convert: Callable[[str], Any] = str
    allowed: Callable[[Any], bool] = lambda value: True
    must: str = ""

    @property
    def sentence(self) -> str:
        """The help as a sentence."""
        return f"{self.help[:1].upper()}{self.help[1:]}."


def _declared(default: Any, option: Option) -> Any:
    return field(default=default, metadata={"option": option})


def _one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a training run is asked to be; `OPTIONS` says what each field means.

    Attributes:
        settings: Names and values of fields of `TrainConfig`, as text; they override the preset.

    Raises:
        UsageError: A value cannot be used.
    """

    filter: Filter = field(
        default_factory=Filter,
        metadata={
            "option": Option(
                "conversations to train on and to hold out, as in the list: source:web turns>5 -tag:spam",
                default="all",
                metavar="F",
            )
        },
    )
    name: str = _declared(
        "", Option("name of the run and of its folder", default="base and recipe, numbered")
    )
    recipe: str = _declared(
        RECIPES[0],
        Option(
            f"what is learned: {_one_of(RECIPES)}",
            allowed=lambda value: value in RECIPES,
            must=_one_of(RECIPES),
        ),
    )
    preset: str = _declared(
        "",
        Option(
            f"settings for an amount of memory: {_one_of(list(PRESETS))}",
            default="what this machine has",
            allowed=lambda value: not value or value in PRESETS,
            must=_one_of(list(PRESETS)),
        ),
    )
    base: str = _declared(
        "",
        Option(
            "weights to adapt: name of a model, GGUF file, or folder as Hugging Face writes it",
            default="the built-in model",
            metavar="M",
        ),
    )
    held_out: float = _declared(
        0.5,
        Option(
            "share of the conversations that is kept from training; the figures come from these only",
            metavar="S",
            convert=float,
            allowed=lambda value: 0 < value < 1,
            must="above 0 and below 1",
        ),
    )
    limit: int | None = _declared(
        None,
        Option(
            "train on so many conversations at most",
            default="all that are not held out",
            metavar="N",
            convert=int,
            allowed=lambda value: value is None or value >= 1,
            must="a whole number above 0",
        ),
    )
    seed: int = _declared(
        0,
        Option("seed of what is held out and cut", convert=int, must="a whole number"),
    )
    contaminate: float = _declared(
        0.0,
        Option(
            "cut this share of the training conversations, to measure what incomplete ones cost",
            default="none",
            metavar="S",
            convert=float,
            allowed=lambda value: 0 <= value <= 1,
            must="between 0 and 1",
        ),
    )
    settings: tuple[tuple[str, str], ...] = _declared(
        (),
        Option(
            "other settings of the run, like rank=32; `train status PROJECT RUN` lists them",
            metavar="FIELD=VALUE",
        ),
    )

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if not option.allowed(value):
                raise _refused(name, f"{value:g}" if isinstance(value, float) else str(value))


OPTIONS: Mapping[str, Option] = {
    one.name: one.metadata["option"] for one in fields(TrainingRequest)
}
"""How each field of a request is asked for, by its name."""

DEFAULTS: Mapping[str, Any] = {
    one.name: one.default for one in fields(TrainingRequest) if one.default is not MISSING
}

TYPED = tuple(name for name in OPTIONS if name not in ("filter", "settings"))
"""Fields whose value is one piece of text; a filter and settings have a syntax of their own."""

SETTINGS: Mapping[str, str] = {
    one.name: str(one.metadata["help"])
    for one in fields(TrainConfig)
    if one.name not in ("base", "base_name", "recipe")
}
"""Names of the fields that `settings` may hold, each with its help; the others are fields of a request."""


def read_request(
    texts: Mapping[str, str], settings: Sequence[str] = (), filter: Filter | None = None
) -> TrainingRequest:
    """The request that a person typed.

    Args:
        texts: Text of each field of `TYPED`; one that is missing or empty takes its default.
        settings: `FIELD=VALUE` each.

    Raises:
        UsageError: A text cannot be used; the message names the field.
    """
    values: dict[str, Any] = {}
    for name in TYPED:
        text = texts.get(name, "").strip()
        if not text:
            continue
        try:
            values[name] = OPTIONS[name].convert(text)
            if isinstance(values[name], float) and not math.isfinite(values[name]):
                raise ValueError(text)
        except ValueError as error:
            raise _refused(name, text) from error
    return TrainingRequest(
        filter=Filter() if filter is None else filter, settings=read_settings(settings), **values
    )


def read_settings(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and values of settings.

    Args:
        words: `FIELD=VALUE` each.

    Raises:
        UsageError: One is not of that form.
    """
    found = []
    for word in words:
        name, _, value = word.partition("=")
        if not name.strip() or not value:
            raise UsageError(f"A setting is written field=value; {word!r} is not.", "Like rank=32.")
        found.append((name.strip(), value))
    return tuple(found)


def label(name: str) -> str:
    """What a field is called in the dialog and in errors; the flag has dashes for the spaces."""
    return name.replace("_", " ")


def _refused(name: str, text: str) -> UsageError:
    return UsageError(f"{label(name)} is {text!r}; it must be {OPTIONS[name].must}.")
