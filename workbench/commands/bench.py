"""`workbench bench`: measures speed."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import UsageError
from workbench.bench.comparing import Compared, compare_results, other_machine
from workbench.bench.runner import BUDGET, run
from workbench.commands.options import positive
from workbench.narration import narrate, print_json


def bench_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `bench`."""
    parser.add_argument(
        "which", nargs="*", help="parts to measure (default: all that need nothing else)"
    )
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
        help="show the figures beside those of an earlier run, which `bench --json` wrote to FILE",
    )


def minutes(text: str) -> float:
    """Reads minutes above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def bench(arguments: argparse.Namespace) -> int:
    """Measures speed as ratios against named baselines in one run.

    Raises:
        UsageError: The file to compare with is no result of the bench.
    """
    earlier = None if arguments.compare is None else _earlier(Path(arguments.compare))
    result = run(
        arguments.which or None,
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
        rows = [{**asdict(one), "ratio": one.ratio, "overlaps": one.overlaps} for one in compared]
        print_json(result if earlier is None else result | {"compared": rows})
    elif earlier is not None:
        for difference in other_machine(earlier, result):
            narrate(f"Another machine or version: {difference}")
        print(f"{'':<52} {'before':>22} {'now':>22}   ratio")
        for one in compared:
            print(_line(one))
    else:
        for name, value in _flat(result):
            print(f"{name:<52} {value:,.3f}" if isinstance(value, float) else f"{name:<52} {value}")
    return 0


def _earlier(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as a result of the bench: {error}.",
            "Write one with `workbench bench --json > FILE`.",
        ) from error
    if not isinstance(found, dict) or "machine" not in found:
        raise UsageError(
            f"{path} is no result of the bench.", "Write one with `workbench bench --json > FILE`."
        )
    return found


def _line(one: Compared) -> str:
    """A figure with the range of its rounds in both runs, and the ratio; `~` marks one that may be chance."""
    sides = [
        f"{value:,.3f}" if ends is None else f"{value:,.3f} ({ends[0]:,.3f} to {ends[1]:,.3f})"
        for value, ends in ((one.before, one.before_range), (one.now, one.now_range))
    ]
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}x"
    return f"{one.name:<52} {sides[0]:>22} {sides[1]:>22}  {'~' if one.overlaps else ' '}{ratio}"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    else:
        yield name, value
