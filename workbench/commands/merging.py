"""`workbench merge`: joins project files that shared one job on several machines."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.opener.merging import Taken, merge
from workbench.narration import narrate, print_json, print_text
from workbench.result import DONE, WITH_GAPS


def merge_projects_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `merge_projects`."""
    parser.add_argument(
        "projects",
        nargs="+",
        metavar="PROJECT",
        help="two or more files, which are only read; where they differ, the first one's results are kept",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file for all of them")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be taken over; keep no file"
    )


def merge_projects(arguments: argparse.Namespace) -> int:
    """Merges, and prints what was taken from each file, what differs and what is left out."""
    if len(arguments.projects) < 2:
        raise UsageError("There is one project only.", "Name two or more.")
    if arguments.output is None and not arguments.dry_run:
        raise UsageError("There is no name for the new file.", "Add -o FILE, or --dry-run.")
    if arguments.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            found = merge(arguments.projects, str(Path(folder) / "merged.wb"))
    else:
        found = merge(arguments.projects, arguments.output)
    if arguments.json:
        print_json(
            {
                "output": None if arguments.dry_run else arguments.output,
                "projects": [asdict(taken) for taken in found],
            }
        )
    else:
        for taken in found:
            print_text("\n".join(_lines(taken)))
        if not arguments.dry_run:
            narrate(
                f"`workbench run complete {arguments.output}` and `workbench run check {arguments.output}`"
                " complete what the parts did not have."
            )
    return WITH_GAPS if any(taken.conflicts for taken in found) else DONE


def _lines(taken: Taken) -> list[str]:
    lines = [f"{taken.path}: {counted(taken.known, 'conversation')} in common"]
    for title, number in taken.added.items():
        lines.append(f"  added     {number:,} {title}")
    for title, conflict in taken.conflicts.items():
        more = ", ..." if conflict.count > len(conflict.examples) else ""
        such = ", ".join(conflict.examples) + more
        lines.append(f"  differs   {conflict.count:,} {title}: {such}")
    lines.extend(f"  left out  {sentence}" for sentence in taken.left_out)
    return lines
