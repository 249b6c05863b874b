"""`workbench verdicts`: takes verdicts of other people in, and says how far people agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.number_format import counted
from engine.services.triage.agreement import PeopleAgreement, people_agreement
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
        "--annotator", default="", metavar="NAME", help="who gave the answers that have no name"
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
            annotator=arguments.annotator,
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


def agreement_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `agreement`."""
    parser.add_argument("project")


def agreement(arguments: argparse.Namespace) -> int:
    """Prints how far the people who judged agree: by pairs Cohen's kappa, of all Krippendorff's alpha."""
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        found = people_agreement(workspace.project)
    if arguments.json:
        print_json(found.as_json())
        return DONE
    for sentence in found.sentences() or [_too_few(found)]:
        print_text(sentence)
    return DONE


def _too_few(found: PeopleAgreement) -> str:
    judged = sum(found.people.values())
    who = "One person" if judged else "Nobody"
    return (
        f"{who} has judged {counted(judged, 'conversation')} here. Others judge in triage with `@` (their name) and"
        " `b`, or their verdicts come by `workbench verdicts import`."
    )
