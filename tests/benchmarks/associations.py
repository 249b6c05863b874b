"""`python -m tests.benchmarks.associations FILE...`: what goes with failure in uniform files with rewards, how often
random halves show anything, and how long a large project takes.

The figures of docs/lab/why.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import workbench
from engine.conversations.filters import NO_FILTER, parse_filter
from engine.opener.open_project import OpenProject
from engine.project.idset import IdSet
from engine.project.sql import snapshot
from engine.results.associations.formatting import association_tables, conclusion
from engine.results.associations.odds import adjusted_p, odds_ratios
from engine.results.associations.records import FALSE_DISCOVERY_RATE, Split
from engine.results.associations.service import Sides, read_features
from workbench.text_tables import table_lines

DRAWS = 100
"""Number of random halves."""


def main() -> int:
    """Measures the files that are named; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.associations", description=__doc__
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="uniform lines, perhaps gzip"
    )
    parser.add_argument(
        "--rows", type=int, default=10_000, help="conversations of the large project; 0: none"
    )
    parser.add_argument(
        "--top", type=int, default=5, help="associations of each side that are listed"
    )
    given = parser.parse_args()
    for file in given.files:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "project.wb"
            with workbench.open(path, create=True) as project:
                project.import_files(file)
                project.cluster(labels=False, decide="auto")
            _print_failure(file.name, path, given.top)
            _print_halves(path)
            if given.rows:
                _print_time(file, Path(folder), given.rows)
    return 0


def _print_failure(name: str, path: Path, top: int) -> None:
    """Prints what goes with the outcome that is known best."""
    with OpenProject(path, read_only=True) as project:
        service = project.associations
        split = service.split()
        for within_goals in (True, False):
            result = service.associations(split, within_goals=within_goals)
            print(
                f"\n{name}, {split.first} {result.sizes}, within {result.goals} goals: {conclusion(result)}"
            )
            for table in association_tables(result, top):
                print("\n".join([table.title, *table_lines(table)]))


def _print_halves(path: Path) -> None:
    """Prints in how many of random halves, and of random tenths against the rest, anything goes with a side."""
    rng = np.random.default_rng(0)
    for share in (0.5, 0.1):
        with (
            OpenProject(path, read_only=True) as project,
            project.project.reading() as conn,
            snapshot(conn),
        ):
            among = IdSet.every(conn)
            ids = np.asarray(among.ascending())
            is_first = np.arange(len(ids)) < share * len(ids)
            split = Split(parse_filter("draw<.5"), NO_FILTER)
            sides = Sides.of(among, is_first)
            features, incidence = read_features(conn, split, sides, by_goal=True)
        shown = 0
        for _ in range(DRAWS):
            stratum = np.zeros(len(ids), np.int64)
            odds = odds_ratios(incidence, len(features), rng.permutation(is_first), stratum)
            shown += bool((adjusted_p(odds.p) < FALSE_DISCOVERY_RATE).any())
        print(
            f"random {share:.0%}: {shown} of {DRAWS} draws show anything, of {len(features):,} features"
        )


def _print_time(file: Path, folder: Path, rows: int) -> None:
    """Prints the processor time for many conversations: those of the file, each repeated with a number of its own."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    large = folder / "large.jsonl"
    with large.open("w", encoding="utf-8") as target:
        for number in range(rows):
            record = records[number % len(records)]
            first, *others = record["messages"]
            numbered = {**first, "content": f"{first['content']} ({number})"}
            print(
                json.dumps({**record, "id": number, "messages": [numbered, *others]}), file=target
            )
    path = folder / "large.wb"
    with workbench.open(path, create=True) as project:
        project.import_files(large)
    with OpenProject(path, read_only=True) as project:
        service = project.associations
        begun = time.process_time()
        result = service.associations(service.split())
        seconds = time.process_time() - begun
        characters = sum(row.chars for row in project.conversations.rows(range(1, rows + 1)))
    print(
        f"{rows:,} conversations of {characters / 1e6:.0f} million characters: {seconds:.1f} s, {conclusion(result)}"
    )


if __name__ == "__main__":
    sys.exit(main())
