"""`python -m tests.benchmarks PART...`: measures speed as ratios against named baselines in one run."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from engine.base import folders
from tests.benchmarks.parts.runner import BUDGET, PARTS, run
from tests.benchmarks.tool import run_tool
from workbench.arguments import positive
from workbench.narration import narrate, print_json


def main(words: Sequence[str] | None = None) -> int:
    """Measures the parts that are named and prints their figures; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measures the speed of the program beside that of simple programs that do the same.",
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(PARTS)} (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--quick", action="store_true", help="measure little, only to show that it works"
    )
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        type=minutes,
        default=BUDGET,
        help="time for all parts; each part gets a fixed share, also if run alone, and stops repeating when it is used"
        " up (default: 10)",
    )
    parser.add_argument(
        "--rows",
        type=positive,
        help="vectors to cluster (default: as many as the time allows, at most 100,000)",
    )
    return run_tool(parser, measure, words)


def minutes(text: str) -> float:
    """Reads minutes above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def measure(arguments: argparse.Namespace) -> int:
    """Prints the figures of the parts."""
    result = run(
        arguments.parts or None,
        narrate,
        data=folders.data_dir(),
        cache=folders.cache_dir(),
        quick=arguments.quick,
        rows=arguments.rows,
        minutes=arguments.budget,
    )
    if arguments.json:
        print_json(result)
    else:
        for name, value in _flat(result):
            print(f"{name:<52} {value:,.3f}" if isinstance(value, float) else f"{name:<52} {value}")
    return 0


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    else:
        yield name, value


if __name__ == "__main__":
    sys.exit(main())
