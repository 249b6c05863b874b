"""All names of the goals of a set, with their support: `python -m tests.benchmarks.goal_support FILE[:N] ...`.

Each file is imported into a project of its own, or so many conversations drawn from it with a fixed seed, and clustered
as by `run cluster --no-labels --decide auto`. With `--members M` so many members of each group stand below its name,
for a reader who says whether the name is right.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from workbench import Project

MEMBER_SEED = 1
"""Seed of the members that are shown, who are drawn from all."""
MAX_MEMBER_CHARS = 200
"""Most characters of a member."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the groups of each file, and a table in Markdown of the support of their names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.goal_support")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument(
        "--members", type=int, default=0, metavar="M", help="show M members of each"
    )
    options = parser.parse_args(arguments)
    rows = []
    for file in options.files:
        path, _, count = file.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            support = print_names(Path(path), int(count or 0), Path(folder), options.members)
        name = Path(path).name.partition(".")[0]
        rows.append(f"| {name} | {len(support)} | {median(support):.2f} | {min(support):.2f} |")
    print("\n".join(["| data | groups | median support | least |", "|---|--:|--:|--:|", *rows]))
    return 0


def print_names(path: Path, count: int, folder: Path, members: int) -> list[float]:
    """Prints the names of the groups of a file with their support, which is returned."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    if count and len(lines) > count:
        lines = random.Random(MEMBER_SEED).sample(lines, count)
    sample, project = folder / f"{path.name.partition('.')[0]}.jsonl", folder / "p.wb"
    sample.write_text("\n".join(lines), "utf-8")
    with Project(project, create=True) as made:
        made.import_files(sample)
        groups = made.cluster(decide="auto", labels=False)
    print(f"\n{path.name}, {len(lines):,} conversations")
    with OpenProject(project, read_only=True) as workspace:
        for group in groups:
            supporting = round((group.support or 0.0) * group.members_read)
            print(f"{group.size:>6,}  in {supporting:>3} of {group.members_read:>3}  {group.label}")
            rows = workspace.goals.members(group.id, "name")
            for row in random.Random(MEMBER_SEED).sample(rows, min(members, len(rows))):
                print(f"{'':>10}{one_line(row.text, MAX_MEMBER_CHARS)}")
    return [group.support or 0.0 for group in groups]


if __name__ == "__main__":
    sys.exit(main())
