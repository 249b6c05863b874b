"""What commands take: words and options declared beside their functions, and requests made of what was given."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from engine.base.errors import UsageError
from engine.base.request_options import (
    Option,
    check,
    choice,
    declare_option,
    share,
    switch,
    whole_number,
)
from engine.conversations.filters import FILTER, Filter, parse_filter
from workbench.arguments import (
    PROJECT,
    Argument,
    from_zero,
    number,
    one_of,
    only_with,
    read_request,
    request_arguments,
    takes,
    titled,
)
from workbench.arguments import argument as word
from workbench.cli import build_parser


@dataclass(frozen=True, slots=True)
class Order:
    """A request with a field of each kind."""

    size: int | None = whole_number(None, "how many", words="as many as fit")
    sort: str = choice("best", "which first", ("best", "worst"))
    least: float = share(0.5, "least share")
    names: tuple[str, ...] = declare_option((), Option("names", repeated=True))
    quick: bool = switch("do it quickly")
    tidy: bool = switch("leave it as it is", default=True, flag="no-tidy")
    ends: tuple[str, ...] = declare_option((), Option("at lines", flag="lines", constant=("\n",)))
    filter: Filter = declare_option(Filter(), FILTER)
    seconds: float | None = None

    def __post_init__(self) -> None:
        check(self)


def request_of(*words: str) -> Order:
    """The request of these words."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for each in request_arguments(Order):
        each.add_to(parser)
    return read_request(Order, parser.parse_args(words))


def test_each_kind_of_option_is_read() -> None:
    """Numbers are converted, flags turn a switch from its default, repeated values count once, a filter is parsed."""
    words = [
        "--size",
        "3",
        "--sort",
        "worst",
        "--least",
        ".25",
        "--quick",
        "--no-tidy",
        "--lines",
    ]
    words += ["--names", "a", "--names", "b", "--names", "a", "--filter", "turns>3"]
    assert request_of(*words) == Order(
        3, "worst", 0.25, ("a", "b"), True, False, ("\n",), parse_filter("turns>3")
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--size", "0"),
        ("--size", "x"),
        ("--size", "1" + 18 * "0"),
        ("--least", "2"),
        ("--sort", "all"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_option(words: tuple[str, str]) -> None:
    """The error names the option."""
    with pytest.raises(argparse.ArgumentError, match=words[0]):
        request_of(*words)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (number("--limit", "so many"), "1" + 18 * "0"),
        (word("--price", type=from_zero), "nan"),
        (word("--price", type=from_zero), "inf"),
        (word("--file"), ""),
    ],
)
def test_a_value_that_nothing_can_use_is_refused_in_words(option: Argument, text: str) -> None:
    """A number that SQLite cannot store or that is none, and the empty text of a variable that was never set."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    option.add_to(parser)
    with pytest.raises(argparse.ArgumentError, match=r"it must (not )?be "):
        parser.parse_args([f"{option.names[0]}={text}"])


def test_the_request_refuses_what_the_option_refuses() -> None:
    """A caller in Python gets the same check."""
    with pytest.raises(UsageError, match="a whole number from 1 on"):
        Order(size=0)


def test_words_and_groups_of_a_command() -> None:
    """`takes` declares words, alternatives and options under a title beside a function."""

    @takes(PROJECT, one_of(word("--a"), word("--b")), titled("more", word("--c")))
    def command(arguments: argparse.Namespace) -> None:
        """Nothing."""

    parser = argparse.ArgumentParser(exit_on_error=False)
    for each in vars(command)["arguments"]:
        each.add_to(parser)
    parsed = parser.parse_args(["p.wb", "--a", "1", "--c", "2"])
    assert (parsed.project, parsed.a, parsed.c) == ("p.wb", "1", "2")
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["p.wb", "--a", "1", "--b", "2"])
    assert "more:" in parser.format_help()


def test_unknown_argument_is_told_by_its_command() -> None:
    """An argument that a command does not have is refused with the usage of that command."""
    with pytest.raises(
        UsageError, match=r"^goals list: unrecognized arguments: --property x"
    ) as refused:
        build_parser().parse_args(["goals", "list", "none.wb", "--property", "x"])
    assert refused.value.hint.startswith("usage: workbench goals list")


def test_options_that_mean_nothing_alone() -> None:
    """Options that need another one are refused without it, with their flags; those that were not given never are."""
    given = argparse.Namespace(dry_run=True, name="", rest="x")
    with pytest.raises(UsageError, match=r"Only with --import: --dry-run and --rest\."):
        only_with(given, "--import", None, "dry_run", "name", "rest", "absent")
    only_with(given, "--import", "file", "dry_run", "rest")
    only_with(given, "--import", None, "name", "absent")
