"""`python -m tests.benchmarks PART...`: measures speed as ratios against named baselines in one run."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import UsageError
from tests.benchmarks.parts.comparing import Compared, compare_results, other_machine
from tests.benchmarks.parts.runner import BUDGET, ON_REQUEST, PARTS, run
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
        help=f"{', '.join((*PARTS, *ON_REQUEST))} (default: all but {', '.join(ON_REQUEST)})",
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
    parser.add_argument("--file", metavar="FILE", help="uniform JSON Lines file that import reads")
    parser.add_argument(
        "--rows",
        type=positive,
        help="conversations in the list, vectors to cluster (default: as many as the time allows, at most 100,000)",
    )
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="show the figures beside those of an earlier run, which `--json` wrote to FILE",
    )
    return run_tool(parser, measure, words)


def minutes(text: str) -> float:
    """Reads minutes above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def measure(arguments: argparse.Namespace) -> int:
    """Prints the figures of the parts, or each beside that of an earlier run.

    Raises:
        UsageError: The file to compare with is no result of the bench.
    """
    earlier = None if arguments.compare is None else _earlier(Path(arguments.compare))
    result = run(
        arguments.parts or None,
        narrate,
        data=folders.data_dir(),
        cache=folders.cache_dir(),
        quick=arguments.quick,
        file=Path(arguments.file) if arguments.file else None,
        rows=arguments.rows,
        minutes=arguments.budget,
    )
    compared = [] if earlier is None else compare_results(earlier, result)
    if arguments.json:
        rows = [
            {**asdict(figure), "ratio": figure.ratio, "overlaps": figure.overlaps}
            for figure in compared
        ]
        print_json(result if earlier is None else result | {"compared": rows})
    elif earlier is not None:
        for difference in other_machine(earlier, result):
            narrate(f"Another machine or version: {difference}")
        print(f"{'':<52} {'before':>22} {'now':>22}   ratio")
        for figure in compared:
            print(_line(figure))
    else:
        for name, value in _flat(result):
            print(f"{name:<52} {value:,.3f}" if isinstance(value, float) else f"{name:<52} {value}")
    return 0


def _earlier(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as a result of the bench: {error}.",
            "Write one with `python -m tests.benchmarks --json > FILE`.",
        ) from error
    if not isinstance(result, dict) or "machine" not in result:
        raise UsageError(
            f"{path} is no result of the bench.",
            "Write one with `python -m tests.benchmarks --json > FILE`.",
        )
    return result


def _line(figure: Compared) -> str:
    """A figure with the range of its rounds in both runs, and the ratio; `~` marks one that may be chance."""
    sides = [
        f"{value:,.3f}" if ends is None else f"{value:,.3f} ({ends[0]:,.3f} to {ends[1]:,.3f})"
        for value, ends in ((figure.before, figure.before_range), (figure.now, figure.now_range))
    ]
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
    return (
        f"{figure.name:<52} {sides[0]:>22} {sides[1]:>22}  {'~' if figure.overlaps else ' '}{ratio}"
    )


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
