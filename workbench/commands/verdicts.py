"""`workbench verdicts import`: takes back verdicts that people gave in Label Studio or Argilla."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.services.triage.answers import import_answers
from engine.services.workspace import Workspace
from workbench.commands.narration import print_json, print_text
from workbench.exits import DONE, WITH_GAPS


def import_verdicts_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `import_verdicts`."""
    parser.add_argument("project")
    parser.add_argument(
        "file",
        help="tasks with annotations exported from Label Studio (JSON or JSON-MIN), records of Argilla (to_json), or"
        " what `export PROJECT verdicts` wrote",
    )
    parser.add_argument(
        "--replace", action="store_true", help="give verdicts also where there are other ones"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would happen and store nothing"
    )


def import_verdicts(arguments: argparse.Namespace) -> int:
    """Gives the verdicts of a file in one act, and says what became of each answer."""
    with Workspace(Path(arguments.project), read_only=arguments.dry_run) as workspace:
        report = import_answers(
            workspace.project,
            Path(arguments.file),
            replace=arguments.replace,
            dry_run=arguments.dry_run,
        )
    if arguments.json:
        print_json({**report.as_json(), "dry_run": arguments.dry_run})
    else:
        if arguments.dry_run:
            print_text("Nothing is stored; it would be:")
        for sentence in report.sentences():
            print_text(sentence)
    return WITH_GAPS if report.has_gaps else DONE
