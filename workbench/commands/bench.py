"""`workbench bench`: measures speed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import folders
from workbench.bench.runner import run
from workbench.commands.narration import narrate, print_json
from workbench.commands.options import positive


def bench_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `bench`."""
    parser.add_argument(
        "which", nargs="*", help="parts to measure (default: all that need nothing else)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure little, only to show that it works"
    )
    parser.add_argument("--file", metavar="FILE", help="uniform JSON Lines file that import reads")
    parser.add_argument(
        "--rows",
        type=positive,
        help="conversations in the list, vectors to cluster (default: 100,000)",
    )


def bench(arguments: argparse.Namespace) -> int:
    """Measures speed as ratios against named baselines in one run."""
    result = run(
        arguments.which or None,
        narrate,
        data=folders.data_dir(),
        cache=folders.cache_dir(),
        quick=arguments.quick,
        file=Path(arguments.file) if arguments.file else None,
        rows=arguments.rows,
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
