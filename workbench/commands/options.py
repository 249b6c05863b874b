"""Options that several commands have, and the types of numbers on the command line."""

from __future__ import annotations

import argparse
import math


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, and which adapter on it."""
    parser.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: what `models use` chose, else the"
        " built-in one)",
    )
    parser.add_argument(
        "--adapter", help="name of an adapter, a GGUF file, or the directory of a training run"
    )


def add_labelling(parser: argparse.ArgumentParser) -> None:
    """Who labels, and how."""
    parser.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: the built-in one)",
    )
    parser.add_argument("--context", type=positive, metavar="N", help="longest request in tokens")
    parser.add_argument(
        "--parallel", type=positive, default=32, metavar="N", help="requests at once (default: 32)"
    )


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Which conversations."""
    parser.add_argument(
        "--filter",
        metavar="F",
        default="",
        help="only conversations that match, like 'state:incomplete turns>5 \"refund\"'",
    )


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return number


def above_zero(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def not_negative(text: str) -> float:
    """A number that is 0 or more."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number
