"""`workbench verdicts`: gives and takes back verdicts, takes in those of other people, says how far people agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted
from engine.base.outcomes import (
    Verdict,
)
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.records.triage import (
    VerdictKind,
)
from engine.questions.service.agreement import PeopleAgreement, people_agreement
from engine.questions.service.answers import import_answers
from engine.questions.tables import verdicts
from engine.questions.tables.verdicts import Act
from workbench.commands.goals import conversation
from workbench.commands.narration import print_json, print_text
from workbench.commands.options import add_filter, read_filter
from workbench.exits import DONE, WITH_GAPS


def give_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `give`."""
    parser.add_argument("project")
    parser.add_argument("conversations", nargs="*", metavar="ID", help="ids of conversations")
    add_filter(parser)
    parser.add_argument(
        "--verdict", choices=[str(one) for one in Verdict], help="the verdict of each"
    )
    parser.add_argument("--note", help="a note on each; an empty one takes the note away")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="NAME", help="a tag for each; may be repeated"
    )
    parser.add_argument(
        "--untag",
        action="append",
        default=[],
        metavar="NAME",
        help="take this tag away from each; may be repeated",
    )
    parser.add_argument(
        "--annotator", default="", metavar="NAME", help="name of the person who judges"
    )
    parser.add_argument(
        "--blind",
        action="store_true",
        help="the verdict was given without seeing others: it is kept beside the one in force, for agreement",
    )
    parser.add_argument(
        "--yes", action="store_true", help="needed to judge all that a filter matches"
    )


def give(arguments: argparse.Namespace) -> int:
    """Gives one or more conversations the same verdict, note and tags, as one act that one undo takes back.

    Raises:
        UsageError: There is nothing to give, no conversation is named, or one is not here.
    """
    if not (arguments.verdict or arguments.note is not None or arguments.tag or arguments.untag):
        raise UsageError(
            "There is no verdict, note or tag to give.",
            "Add --verdict complete, --note TEXT, --tag NAME or --untag NAME.",
        )
    if arguments.blind and not arguments.verdict:
        raise UsageError("Only a verdict is given blind.", "Add --verdict complete.")
    if bool(arguments.conversations) == bool(arguments.filter):
        raise UsageError("Name conversations by their ids, or by --filter.", "Use one of the two.")
    with OpenProject(Path(arguments.project)) as workspace:
        keys = _wanted(workspace, arguments)
        if arguments.filter and not arguments.yes:
            raise UsageError(
                f"The filter matches {counted(len(keys), 'conversation')}; nothing was stored.",
                "--yes gives it to all of them.",
            )
        acts = [act for key in keys for act in _acts(workspace, key, arguments)]
        if acts:
            workspace.project.write(lambda conn: verdicts.give_all(conn, acts))
            workspace.verdict_changed()
    if arguments.json:
        print_json({"conversations": len(keys), "stored": len(acts)})
    else:
        print_text(
            f"Stored for {counted(len({one.conversation_id for one in acts}), 'conversation')}."
        )
    return DONE


def _wanted(services: OpenProject, arguments: argparse.Namespace) -> list[int]:
    if arguments.filter:
        return list(services.conversations.ids(ListQuery(read_filter(arguments.filter))))
    return list(dict.fromkeys(conversation(services, name) for name in arguments.conversations))


def _acts(services: OpenProject, key: int, arguments: argparse.Namespace) -> list[Act]:
    """What is new of it for one conversation."""
    now = services.triage.current(key)
    tags = set(() if now is None else now.tags)
    who, note = arguments.annotator, arguments.note
    acts = []
    if arguments.verdict:
        kind: VerdictKind = "repeat" if arguments.blind else "give"
        acts.append(Act(key, kind, Verdict(arguments.verdict), annotator=who))
    if note is not None and note != ("" if now is None else now.note):
        acts.append(Act(key, "note", None, note, who))
    wanted = {" ".join(name.split()) for name in arguments.tag} - {""}
    unwanted = {" ".join(name.split()) for name in arguments.untag}
    acts += [Act(key, "tag", None, name, who) for name in sorted(wanted - tags)]
    return acts + [Act(key, "untag", None, name, who) for name in sorted(unwanted & tags)]


def undo_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `undo`."""
    parser.add_argument("project")
    parser.add_argument("--redo", action="store_true", help="give again what was taken back last")


def undo(arguments: argparse.Namespace) -> int:
    """Takes the newest act of triage back, or gives it again.

    Raises:
        UsageError: There is none.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        triage = workspace.triage
        row = triage.redo() if arguments.redo else triage.undo()
        word = "given again" if arguments.redo else "taken back"
        if row is None:
            raise NotYet(f"There is nothing to be {word}.")
    if arguments.json:
        print_json({"kind": row.kind, "conversations": row.count, "redo": arguments.redo})
    else:
        print_text(f"{_KINDS[row.kind]} on {counted(row.count, 'conversation')} {word}.")
    return DONE


_KINDS = {
    "give": "Verdict",
    "repeat": "Blind verdict",
    "note": "Note",
    "tag": "Tag",
    "untag": "Removal of a tag",
}


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
    with OpenProject(Path(arguments.project), read_only=arguments.dry_run) as workspace:
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
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
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
