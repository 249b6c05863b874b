"""Declares the words and options of commands, beside the functions that run them, with `takes`.

The options of a run come from its *request*, a dataclass whose fields declare them (`engine.base.request_options`):
`request_arguments` makes options of the fields, and `read_request` makes the request of the parsed options.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rich.cells import cell_len

from engine.base.errors import FilterError, UsageError
from engine.base.request_options import (
    LARGEST_WHOLE_NUMBER,
    Option,
    must_be_whole,
    options_of,
    read_value,
)
from engine.base.text import display_safe
from engine.conversations.filters import FILTER as FILTER_OPTION
from engine.conversations.filters import Filter, parse_filter

Run = TypeVar("Run", bound=Callable[..., Any])
"""A function that runs a command."""
Request = TypeVar("Request")
"""A dataclass that says what to run."""
_OWN_READING = {"action", "choices", "nargs", "type"}
"""Settings of `add_argument` that say how the text of an option is read, or that it has no text."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A word or an option of a command.

    Attributes:
        names: The name of a word, or the flags of an option.
        settings: The other arguments of `ArgumentParser.add_argument`.
    """

    names: tuple[str, ...]
    settings: dict[str, Any]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Adds the argument to a parser."""
        parser.add_argument(*self.names, **self.settings)


@dataclass(frozen=True, slots=True)
class ArgumentGroup:
    """Options that belong together: with a title in the help, or without one as alternatives that exclude each
    other."""

    title: str
    arguments: tuple[Argument, ...]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Adds the options to a parser."""
        if self.title:
            group: argparse._ActionsContainer = parser.add_argument_group(self.title)
        else:
            group = parser.add_mutually_exclusive_group()
        for member in self.arguments:
            member.add_to(group)


def argument(*names: str, **settings: Any) -> Argument:
    """Returns a word or an option of `ArgumentParser.add_argument`, with the default in its help.

    An option whose value is any text refuses an empty one, unless that is its default.
    """
    default = settings.get("default")
    if isinstance(default, int | float | str) and default not in ("", argparse.SUPPRESS):
        settings["help"] += f" (default: {default})"
    if names[0].startswith("-") and default != "" and not _OWN_READING & settings.keys():
        settings["type"] = not_empty
    return Argument(names, settings)


def number(name: str, help: str, default: int | None = None) -> Argument:
    """Returns an option for a whole number above 0."""
    return argument(name, type=positive, default=default, metavar="N", help=help)


def several(name: str, help: str) -> Argument:
    """Returns an option that may be repeated; its value is the list of the given texts."""
    help += "; may be repeated"
    return Argument((name,), {"action": "append", "default": [], "metavar": "N", "help": help})


def switch(name: str, help: str, **settings: Any) -> Argument:
    """Returns an option without a value."""
    return Argument((name,), {"action": "store_true", "help": help, **settings})


def one_of(*arguments: Argument) -> ArgumentGroup:
    """Returns a group of options of which at most one may be given."""
    return ArgumentGroup("", arguments)


def titled(title: str, *arguments: Argument) -> ArgumentGroup:
    """Returns a group of options with a title in the help."""
    return ArgumentGroup(title, arguments)


def takes(*arguments: Argument | ArgumentGroup) -> Callable[[Run], Run]:
    """Declares the words and options of the command that a function runs."""

    def declare(run: Run) -> Run:
        """Stores the declarations as an attribute of the function, which `workbench.cli.Parser` reads."""
        vars(run)["arguments"] = arguments
        return run

    return declare


def only_with(arguments: argparse.Namespace, needed: str, is_there: object, *names: str) -> None:
    """Refuses options that were given and mean nothing without something else.

    Args:
        needed: What they need, in words, such as `--import`.
        is_there: True, or any value that counts as true, if that was given.
        names: Names of the options as attributes of the arguments.

    Raises:
        UsageError: One was given, and what it needs was not.
    """
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name, None)]
    if given and not is_there:
        flags = " and ".join(given)
        raise UsageError(f"Only with {needed}: {flags}.", f"Leave out {flags}.")


# Requests


def request_arguments(
    request: type, only: Sequence[str] = (), *, without: Sequence[str] = ()
) -> list[Argument]:
    """Returns the options of the fields of a request, in their order.

    Args:
        only: Names of some of the fields, in the order of the options; empty for all.
        without: Names of fields for which the command has no option.
    """
    options = options_of(request)
    defaults = {field.name: field.default for field in fields(request)}
    return [
        _request_argument(name, options[name], defaults[name])
        for name in only or options
        if name not in without
    ]


def read_request(
    request: Callable[..., Request], arguments: argparse.Namespace, **values: Any
) -> Request:
    """Returns the request of the given options; other fields have their defaults.

    Args:
        values: Values of fields without an option.

    Raises:
        UsageError: A value cannot be used.
    """
    given = {name: getattr(arguments, name) for name in options_of(request) if name in arguments}
    without_repetitions = {
        name: tuple(dict.fromkeys(value))
        for name, value in given.items()
        if isinstance(value, list)
    }
    return request(**(given | without_repetitions | values))


def _request_argument(name: str, option: Option, default: Any) -> Argument:
    """Returns the option of a field of a request.

    An option that is not given sets nothing, so that the field has its default.
    """
    flag = f"--{option.flag or name.replace('_', '-')}"
    settings: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": option.help}
    if option.constant is not None or isinstance(default, bool):
        constant = option.constant if option.constant is not None else not default
        return Argument((flag,), {**settings, "action": "store_const", "const": constant})
    if option.repeated:
        settings["action"] = "append"
        settings["help"] += "; may be repeated"
    elif option.choices:
        settings |= {"type": option.convert, "choices": tuple(option.choices)}
    else:
        settings["type"] = _reader(option)
    words = option.default or (f"{default:g}" if isinstance(default, float) else str(default or ""))
    if words == "" and default == 0:
        words = "0"
    settings["help"] += f" (default: {words})" if words else ""
    return Argument((flag,), {**settings, "metavar": option.metavar or None})


def _reader(option: Option) -> Callable[[str], Any]:
    """Returns a function that reads the text of an option for argparse."""

    def read(text: str) -> Any:
        """Returns the value of a text; its errors are those that argparse prints."""
        try:
            value = read_value("", option, text)
        except FilterError as error:
            raise _with_place(error, text) from error
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"it must be {option.must}") from error
        if not option.allowed(value):
            raise argparse.ArgumentTypeError(f"it must be {option.must}")
        return value

    return read


# Values


def read_filter(text: str) -> Filter:
    """Returns the filter of a text in the filter language.

    Raises:
        FilterError: The text cannot be understood; the message has the text with a caret under the place.
    """
    try:
        return parse_filter(text)
    except FilterError as error:
        raise _with_place(error, text) from error


def _with_place(error: FilterError, text: str) -> FilterError:
    """Returns the error with the text, and a caret under the place of the error, in its message."""
    line = "".join(" " if char.isspace() else char for char in text)
    before = cell_len(display_safe(line[: error.at]))
    place = f"  {display_safe(line)}\n  {' ' * before}^"
    return FilterError(
        f"{display_safe(error.message)}\n{place}", display_safe(error.hint), error.at
    )


def not_empty(text: str) -> str:
    """Returns a text if it is not empty; an empty one is mostly an unset variable of a script."""
    if not text:
        raise argparse.ArgumentTypeError("it must not be empty")
    return text


share = _reader(
    Option("", convert=float, allowed=lambda value: 0 < value <= 1, must="above 0 and at most 1")
)
above_zero = _reader(
    Option("", convert=float, allowed=lambda value: value > 0, must="a number above 0")
)
from_zero = _reader(
    Option("", convert=float, allowed=lambda value: value >= 0, must="a number from 0 on")
)


def _whole_number_reader(least: int) -> Callable[[str], Any]:
    """Returns a function that reads a whole number from `least` on for argparse."""
    return _reader(
        Option(
            "",
            convert=int,
            allowed=lambda value: least <= value <= LARGEST_WHOLE_NUMBER,
            must=must_be_whole(least),
        )
    )


positive = _whole_number_reader(1)
whole_from_zero = _whole_number_reader(0)


# Words and options that several commands have

PROJECT = argument("project", help="the project file")

FILTER = argument(
    "--filter",
    metavar=FILTER_OPTION.metavar,
    type=read_filter,
    default=Filter(),
    help=FILTER_OPTION.help,
)

FORMULAS = switch(
    "--formulas",
    "CSV: leave texts that begin with = + - @ as they are, though a spreadsheet may run them as formulas"
    " (default: put an apostrophe before them)",
)

REDACT = switch(
    "--redact",
    "replace e-mail addresses, phone numbers, payment cards, IBANs and IP addresses by names like [email 1]",
)

FORCE = switch("--force", "write over a file that is there already")

DRY_RUN = switch("--dry-run", "say what would happen and store nothing")


ANNOTATOR = argument(
    "--annotator", default="", metavar="NAME", help="name of the person who judges"
)
