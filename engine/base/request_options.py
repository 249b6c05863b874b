"""Declares how the fields of a request are asked for, once for command line, dialog and reference.

A request is a dataclass whose fields declare help, default and check once. The command line makes its flags of them
(`workbench.arguments`). A dialog reads them with `options_of`, shows `Option.sentence` below a field, and turns what
was typed into a request with `read_values`. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from engine.base.errors import UsageError

LARGEST_WHOLE_NUMBER = 10**18 - 1
"""The largest whole number that can be given; SQLite stores no number from 2^63 on."""


@dataclass(frozen=True, slots=True)
class Option:
    """How one field of a request is asked for.

    Attributes:
        help: What the field means, without a capital at the start and without a point at the end.
        default: The default in words, where the value itself does not say it.
        flag: The flag of the command line, without dashes; the name of the field where empty.
        metavar: Stands for the value in the usage line; the name of the field where empty.
        label: What a dialog and an error call the field; its name with spaces where empty.
        choices: The texts that a value is one of; empty where it is free.
        repeated: Whether the flag may be given several times.
        constant: The value that the bare flag stands for, where the field is no switch: `("\\n",)` for `--line`.
        convert: Makes the value from text; raises ValueError.
        allowed: Whether a value can be used.
        must: What a value must be; completes "it must be ...".
    """

    help: str
    default: str = ""
    flag: str = ""
    metavar: str = ""
    label: str = ""
    choices: Sequence[str] = ()
    repeated: bool = False
    constant: Any = None
    convert: Callable[[str], Any] = str
    allowed: Callable[[Any], bool] = lambda value: True
    must: str = ""

    @property
    def sentence(self) -> str:
        """Returns the help as a sentence."""
        return f"{self.help[:1].upper()}{self.help[1:]}."


MODEL = Option(
    "name or path of a model, or name of an endpoint",
    default="what `models use` chose, else the built-in one",
)

ADAPTER = Option(
    "name of an adapter, a GGUF file, or the directory of a training run",
    convert=lambda text: text or None,
)

MAX_COST = Option(
    "most that the run may cost over endpoints; it stops before that, and goes on when it is run again",
    default="no limit",
    flag="max-cost",
    metavar="COST",
    convert=float,
    allowed=lambda value: value is None or value > 0,
    must="above 0",
)

FRESH = Option(
    "ask again where a failure is stored, and take no reply of an endpoint from the cache"
)
"""Whether a run asks again about what failed."""


def declare_option(default: Any, option: Option) -> Any:
    """Returns a field of a dataclass with its default and its option."""
    return field(default=default, metadata={"option": option})


def whole_number(
    default: int | None,
    help: str,
    *,
    words: str = "",
    least: int = 1,
    flag: str = "",
    metavar: str = "N",
    label: str = "",
) -> Any:
    """Returns a field of a dataclass for a whole number; None is allowed where it is the default.

    Args:
        words: The default in words, as in `Option.default`.
        least: The least number that may be given.
    """
    option = Option(
        help,
        default=words,
        flag=flag,
        metavar=metavar,
        label=label,
        convert=int,
        allowed=lambda value: (
            value == default or (value is not None and least <= value <= LARGEST_WHOLE_NUMBER)
        ),
        must=must_be_whole(least),
    )
    return declare_option(default, option)


def must_be_whole(least: int) -> str:
    """Returns what a whole number must be, to complete "it must be ..."."""
    return f"a whole number from {least} on, with at most 18 digits"


def share(default: float | None, help: str, *, metavar: str = "") -> Any:
    """Returns a field of a dataclass for a number above 0 and at most 1; None is allowed where it is the default."""
    option = Option(
        help,
        metavar=metavar,
        convert=float,
        allowed=lambda value: value == default or (value is not None and 0 < value <= 1),
        must="above 0 and at most 1",
    )
    return declare_option(default, option)


def choice(default: str | None, help: str, choices: Sequence[str], *, words: str = "") -> Any:
    """Returns a field of a dataclass for one of some texts; None is allowed where it is the default."""
    option = Option(
        help,
        default=words,
        choices=choices,
        allowed=lambda value: value == default or value in choices,
        must=join_choices(choices),
    )
    return declare_option(default, option)


def switch(help: str, *, default: bool = False, flag: str = "") -> Any:
    """Returns a field of a dataclass that is on or off; its flag takes it to the value that is not the default."""
    return declare_option(default, Option(help, flag=flag))


def options_of(request: Any) -> dict[str, Option]:
    """Returns the options of a request or of its type by the names of their fields; other fields are left out."""
    return {
        declared_field.name: declared_field.metadata["option"]
        for declared_field in fields(request)
        if "option" in declared_field.metadata
    }


def check(request: Any) -> None:
    """Checks the value of every field that has an option; for `__post_init__`.

    Raises:
        UsageError: A value cannot be used.
    """
    for name, option in options_of(request).items():
        value = getattr(request, name)
        if not option.allowed(value):
            if isinstance(value, tuple):
                text = ", ".join(map(str, value))
            else:
                text = f"{value:g}" if isinstance(value, float) else str(value)
            raise refusal_error(name, text, option)


def read_values(
    options: Mapping[str, Option], texts: Mapping[str, str], names: Sequence[str]
) -> dict[str, Any]:
    """Returns the values that a person typed, by the names of the fields.

    Args:
        texts: Text of each field of `names`; one that is missing or empty takes its default, so it is left out.

    Raises:
        UsageError: A text is no such value; the message names the field.
    """
    filled = {name: text for name in names if (text := texts.get(name, "").strip())}
    return {name: read_value(name, options[name], text) for name, text in filled.items()}


def read_value(name: str, option: Option, text: str) -> Any:
    """Returns the value of one text, converted but not checked.

    Raises:
        UsageError: The text is no such value.
    """
    try:
        value = option.convert(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(text)
    except ValueError as error:
        raise refusal_error(name, text, option) from error
    return value


def join_choices(names: Sequence[str]) -> str:
    """Returns names as a choice: "a, b or c"."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def label_of(name: str, option: Option) -> str:
    """Returns what a field is called in a dialog and in errors."""
    return option.label or name.replace("_", " ")


def refusal_error(name: str, text: str, option: Option) -> UsageError:
    """Returns the error for a text or value that cannot be used."""
    return UsageError(f"{label_of(name, option)} is {text!r}; it must be {option.must}.")
