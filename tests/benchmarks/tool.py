"""Runs a tool of the developers as a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.base.errors import WorkbenchError

REPOSITORY = Path(__file__).resolve().parents[2]


def run_tool(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], int],
    words: Sequence[str] | None = None,
) -> int:
    """Returns the exit code of `work`, or 2 after an error, which is printed on standard error.

    Args:
        words: The arguments; None takes those of the process.
    """
    try:
        return work(parser.parse_args(words))
    except WorkbenchError as error:
        print(f"{error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return 2
