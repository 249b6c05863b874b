"""`workbench scores`: the sets of scores of a project, the one in force, and those that come by file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, UsageError
from engine.base.number_format import counted
from engine.completeness.records.scores import ScoreSet
from engine.completeness.service.outside import IDS, SCORES, import_scores
from engine.completeness.service.sets import ScoreSets, in_force, name_of, reliability
from engine.opener.open_project import OpenProject
from workbench.commands.narration import narrate, print_json, print_text
from workbench.exits import DONE, WITH_GAPS

_OF_IMPORT = ("name", "id", "score", "range", "replace", "dry_run")
"""The options that only an import has, by their names in the parsed arguments."""


def list_scores_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `list_scores`."""
    parser.add_argument("project")
    parser.add_argument(
        "--use", metavar="N", help="put this set in force: its number, or the start of its hash"
    )
    outside = parser.add_argument_group(
        "scores that were made elsewhere: a judge, a rating, another tool"
    )
    outside.add_argument(
        "--import",
        dest="file",
        metavar="FILE",
        help="make a set of the scores in a file of JSON Lines, JSON or CSV, one conversation a line",
    )
    outside.add_argument("--name", help="name of the set (default: that of the file)")
    outside.add_argument(
        "--id", metavar="FIELD", help=f"field of the conversations' ids (default: {', '.join(IDS)})"
    )
    outside.add_argument(
        "--score", metavar="FIELD", help=f"field of the scores (default: {', '.join(SCORES)})"
    )
    outside.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="what stands for incomplete and for complete (default: 0 1), as 1 5 for stars",
    )
    outside.add_argument(
        "--replace", action="store_true", help="replace the outside scores of the same name"
    )
    outside.add_argument(
        "--dry-run", action="store_true", help="say what would happen and store nothing"
    )


def list_scores(arguments: argparse.Namespace) -> int:
    """Prints the sets of scores; with --use puts one of them in force first.

    Raises:
        FormatError: The file of --import cannot be read, or has no ids or scores.
        UsageError: --use names no set, or more than one; options do not go together.
    """
    if arguments.file is not None:
        return _import(arguments)
    if alone := [name for name in _OF_IMPORT if getattr(arguments, name)]:
        option = alone[0].replace("_", "-")
        raise UsageError(f"--{option} needs --import FILE.", "Name the file, or leave it out.")
    with OpenProject(Path(arguments.project), read_only=arguments.use is None) as workspace:
        score_sets = workspace.score_sets
        sets = score_sets.all()
        if arguments.use is not None:
            score_sets.use(_named(arguments.use, sets).config_hash)
            sets = score_sets.all()
    if arguments.json:
        print_json({"sets": [set_json(one, sets) for one in sets]})
        return 0
    for one in sets:
        sign = "*" if one.in_force else " "
        print_text(f"{sign} {one.number:>2}  {one.config_hash[:8]}  {set_text(one, sets)}")
    print_text("* in force; --use N puts another in force" if sets else "No scores yet.")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    if arguments.use is not None:
        raise UsageError("--use and --import do not go together.", "Import first, then --use N.")
    with OpenProject(Path(arguments.project), read_only=arguments.dry_run) as workspace:
        report = import_scores(
            workspace.project,
            Path(arguments.file),
            name=arguments.name or "",
            id_field=arguments.id or "",
            score_field=arguments.score or "",
            ends=tuple(arguments.range or (0.0, 1.0)),
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


def _named(which: str, sets: Sequence[ScoreSet]) -> ScoreSet:
    """The set with this number, or the one whose hash begins like this."""
    found = [one for one in sets if which == str(one.number)] or [
        one for one in sets if which and one.config_hash.startswith(which)
    ]
    if len(found) == 1:
        return found[0]
    numbers = ", ".join(str(one.number) for one in sets) or "none"
    many = "Several sets of scores have hashes that begin with" if found else "No set of scores is"
    raise NotFound(f"{many} {which!r}.", f"Numbers of sets: {numbers}.")


def set_text(one: ScoreSet, sets: Sequence[ScoreSet]) -> str:
    """One set: its name, how much it scores and how far it can be relied on."""
    return f"{name_of(one)}, {counted(one.scored, 'conversation')}; {reliability(one, sets).test}"


def set_lines(sets: Sequence[ScoreSet]) -> list[str]:
    """The set in force, what is doubtful about it and what would help, and how many others there are."""
    now = in_force(sets)
    if now is None:
        return []
    found = reliability(now, sets)
    lines = [f"scores in force: set {now.number}, {set_text(now, sets)}"]
    lines += [f"  {found.doubt}"] if found.doubt else []
    lines += [f"  what would help: {found.remedy}"] if found.remedy else []
    others = len(sets) - 1
    if others:
        lines.append(f"  {counted(others, 'other set')} (`workbench scores PROJECT`)")
    return lines


def narrate_set(score_sets: ScoreSets) -> None:
    """Says on standard error which set of scores states and probabilities come from; nothing without scores."""
    now = in_force(score_sets.all())
    if now is not None:
        narrate(f"Scores of set {now.number}, {name_of(now)}.")


def set_json(one: ScoreSet, sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """A set as JSON, with what is doubtful about it and what would help."""
    found = reliability(one, sets)
    return {**asdict(one), "doubt": found.doubt or None, "remedy": found.remedy or None}


def sets_json(sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """The set in force as JSON, and the number of sets."""
    now = in_force(sets)
    return {"in_force": now and set_json(now, sets), "score_sets": len(sets)}
