"""Options that several commands share, and the types of the numbers on the command line."""

from __future__ import annotations

import argparse
import math

from rich.cells import cell_len

from engine.base.errors import FilterError
from engine.base.text import display_safe
from engine.conversations.filters import Filter, parse_filter


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declares --model and --adapter."""
    parser.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: what `models use` chose, else the"
        " built-in one)",
    )
    parser.add_argument(
        "--adapter", help="name of an adapter, a GGUF file, or the directory of a training run"
    )


def add_labelling(parser: argparse.ArgumentParser) -> None:
    """Declares the options of commands that ask a model about each conversation."""
    parser.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: the built-in one)",
    )
    parser.add_argument("--context", type=positive, metavar="N", help="longest request in tokens")
    parser.add_argument(
        "--parallel", type=positive, default=32, metavar="N", help="requests at once (default: 32)"
    )


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Declares --filter; `read_filter` reads its value."""
    parser.add_argument(
        "--filter",
        metavar="F",
        default="",
        help="only conversations that match, like 'state:incomplete turns>5 \"refund\"'",
    )


def add_formulas(parser: argparse.ArgumentParser) -> None:
    """Declares the option that leaves texts of CSV as they are."""
    parser.add_argument(
        "--formulas",
        action="store_true",
        help="CSV: leave texts that begin with = + - @ as they are, though a spreadsheet may run them as formulas"
        " (default: put an apostrophe before them)",
    )


def add_redact(parser: argparse.ArgumentParser) -> None:
    """Declares --redact."""
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace e-mail addresses, phone numbers, payment cards, IBANs and IP addresses by names like [email 1]",
    )


def read_filter(text: str) -> Filter:
    """Reads the value of --filter, in the filter language of the screens.

    Raises:
        FilterError: It cannot be understood; the message shows the text with a caret under the place.
    """
    from engine.opener.filter_fields import declare_fields

    declare_fields()
    try:
        return parse_filter(text)
    except FilterError as error:
        line = "".join(" " if char.isspace() else char for char in text)
        before = cell_len(display_safe(line[: error.at]))
        place = f"  {display_safe(line)}\n  {' ' * before}^"
        raise FilterError(
            f"{display_safe(error.message)}\n{place}", display_safe(error.hint), error.at
        ) from error


def share(text: str) -> float:
    """Reads a number above 0 and at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return number


def probability(text: str) -> float:
    """Reads a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError("must be from 0 to 1")
    return number


def most_unpacked_option(parser: argparse.ArgumentParser) -> None:
    """Declares the option that raises the limits on what a file may unpack to."""
    parser.add_argument(
        "--most-unpacked",
        type=gibibytes,
        metavar="GIB",
        help="GiB to which a file may unpack, whatever its size; memory and processor time for it grow too"
        " (default: .25, and 1,000 times its size)",
    )


def gibibytes(text: str) -> int:
    """Reads a number of GiB as bytes."""
    return max(1, round(above_zero(text) * (1 << 30)))


def above_zero(text: str) -> float:
    """Reads a number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def positive(text: str) -> int:
    """Reads a whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def part_of(text: str) -> tuple[int, int]:
    """Reads N/OF, such as 2/4: the second of four parts."""
    number, slash, of = text.partition("/")
    if not slash or not 1 <= int(number) <= int(of):
        raise argparse.ArgumentTypeError("must be like 2/4, the second of four parts")
    return int(number), int(of)
