"""`workbench import` and `run check`: imports conversations, says what became of their text, drafts mappings of
formats.

A *mapping* describes where the records of an unknown format have their messages. A *refusal* is the error of a file
that cannot be read.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from engine.base.conversation import Conversation, render_log
from engine.base.errors import Cancelled, FormatError, UnknownFormat, UsageError, WorkbenchError
from engine.base.files import remove_new_project
from engine.base.text import message_safe
from engine.conversations.records import ImportRequest
from engine.conversations.service import account_lines, file_of, shares_line
from engine.conversations.stages import CheckStage
from engine.formats.inputs import open_inputs
from engine.formats.mapping_draft import MappingDraft
from engine.formats.opening.source import Bounds
from engine.formats.records import PLACES, Parsed, SourceReport, Unread
from engine.formats.registry import mapping_folder, unusable_formats
from engine.opener.jobs import import_stages
from engine.opener.open_project import OpenProject
from engine.signs.stages import SignStage
from workbench.arguments import PROJECT, argument, read_request, request_arguments, switch, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import run_stages

MAX_CONVERSATIONS_SHOWN = 2
"""Most conversations that `--dry-run` shows."""
MAX_CHARACTERS_SHOWN = 2_000
"""Most characters that `--dry-run` shows of each conversation."""

JSON_COUNTS = (
    "read", "new", "grew", "changed", "judged", "duplicate", "unchanged", "quarantined", "leaks"
)  # fmt: skip
"""The counts of an import stage that `--json` has."""


@takes(
    PROJECT,
    argument("paths", nargs="+", metavar="PATH", help="file, folder, or - for standard input"),
    *request_arguments(ImportRequest),
    switch(
        "--map",
        "print a guess of where one file of an unknown format has its messages, as a mapping file, and what it reads;"
        " store nothing (exit 3)",
    ),
    switch(
        "--dry-run",
        "read everything, say what would be imported and show two conversations; store nothing",
    ),
)
def import_paths(arguments: argparse.Namespace) -> CommandResult:
    """Imports into a project, which is created if it is not there (`opened_for_import`); with `--map` only guesses a
    mapping, with `--dry-run` only reads."""
    request = read_request(ImportRequest, arguments)
    if arguments.map:
        if len(arguments.paths) > 1 or request.format is not None:
            raise UsageError(
                "--map guesses the format of one file.", "Name one, and leave out --format."
            )
        return guessed_mapping(arguments.paths[0])
    if arguments.dry_run:
        try:
            return _dry_run(arguments, request)
        except UnknownFormat as error:
            raise with_map_hint(error, arguments.project) from None
    with opened_for_import(Path(arguments.project)) as workspace:
        stages = import_stages(workspace.project, arguments.paths, request, stdin=sys.stdin.buffer)
        run_stages(workspace, stages)
    stage, signs, check = stages
    remedy = partial(map_hint, arguments.project)
    unknown = [error for error in stage.refused if isinstance(error, UnknownFormat)]
    lines = [stage.summary(), *account_lines(stage.sources, remedy)]
    lines += refusal_lines(unknown, arguments.project)
    document: dict[str, Any] = {name: getattr(stage.counts, name) for name in JSON_COUNTS}
    document["sources"] = [_source_json(source) for source in stage.sources]
    document["signs"], document["check"] = signs.as_json(), check.as_json()
    return CommandResult(
        [*lines, signs.summary(), check.summary()],
        document,
        _exit_code(stage.sources, refused=bool(stage.refused)),
        hints=_skipped_formats(),
    )


def _skipped_formats() -> list[str]:
    """Returns a line on each mapping file of the person that cannot be used."""
    return [f"Skipped: {error}" for error in unusable_formats()]


@contextmanager
def opened_for_import(path: Path) -> Iterator[OpenProject]:
    """Yields the project to import into, which is made if it is missing.

    A project that was made and has no conversations is removed again if the block fails, as where nothing can be read
    or the disk is full; it stays if the block is cancelled.

    Raises:
        WorkbenchError: That of the block; where a format is unknown, the hint is the command that maps it.
    """
    is_new = not path.exists()
    # what cannot be opened may be the project of another program that made it meanwhile
    is_ours_alone = False
    try:
        with OpenProject(path, create=True) as workspace:
            is_ours_alone = is_new  # so it stays where conversations cannot be counted
            try:
                yield workspace
            finally:
                is_ours_alone = is_new and not workspace.conversations.counts().conversations
    except WorkbenchError as error:
        if is_ours_alone and not isinstance(error, Cancelled):
            remove_new_project(os.path.realpath(path))
        if isinstance(error, FormatError):
            raise with_map_hint(error, path) from None
        raise


@takes(PROJECT)
def run_check(arguments: argparse.Namespace) -> CommandResult:
    """Looks for signs of trouble, languages and personal data in conversations that no import has checked."""
    with OpenProject(Path(arguments.project)) as workspace:
        signs, check = SignStage(workspace.project), CheckStage(workspace.project)
        run_stages(workspace, [signs, check])
    return CommandResult(
        [signs.summary(), check.summary()], check.as_json() | {"signs": signs.as_json()}
    )


def _dry_run(arguments: argparse.Namespace, request: ImportRequest) -> CommandResult:
    """Reads the inputs without a project and says what an import would do."""
    sources: list[SourceReport] = []
    examples: list[Conversation] = []
    opened_inputs = open_inputs(
        arguments.paths,
        format=request.format,
        stdin=sys.stdin.buffer,
        bounds=None if request.most_unpacked is None else Bounds(request.most_unpacked),
    )
    for opened in opened_inputs:
        report = SourceReport(opened.label, opened.detection)
        sources.append(report)
        for record in opened.records():
            report.count(record)
            if isinstance(record, Parsed) and len(examples) < MAX_CONVERSATIONS_SHOWN:
                examples.append(record.conversation)
    lines = account_lines(sources, partial(map_hint, arguments.project))
    logs = [_log_text(conversation) for conversation in examples]
    for conversation, log in zip(examples, logs, strict=True):
        characters_left = len(log) - MAX_CHARACTERS_SHOWN
        more_text = f"\n... {characters_left:,} characters more" if characters_left > 0 else ""
        name = message_safe(conversation.external_id)
        lines.append(f"\n== {name} ==\n{log[:MAX_CHARACTERS_SHOWN]}{more_text}")
    document = {"sources": [_source_json(source) for source in sources], "conversations": logs}
    lines.append("\nNothing was stored.")
    return CommandResult(lines, document, _exit_code(sources), hints=_skipped_formats())


def _exit_code(sources: list[SourceReport], *, refused: bool = False) -> int:
    """Returns the exit code: done, or done with gaps if something was refused, rejected or not read."""
    gaps = refused or any(source.rejected or source.account.warns for source in sources)
    return EXIT_INCOMPLETE if gaps else EXIT_DONE


def _log_text(conversation: Conversation) -> str:
    """Returns a conversation as a model reads it."""
    return "".join(piece.text for piece in render_log(conversation.messages))


def _source_json(source: SourceReport) -> dict[str, Any]:
    """Returns what was read from a source as JSON values."""
    account = source.account
    return {
        "source": source.label,
        "format": source.detection.format,
        "why": source.detection.why,
        "conversations": source.conversations,
        "messages": source.messages,
        "quarantined": source.rejected,
        "reasons": source.reasons,
        "characters": {place: account.chars.get(place, 0) for place in PLACES},
        "not_read": _entries_json(account.lost),
        "unknown_parts": _entries_json(account.unknown),
        "kept_from_models": _entries_json(account.hidden),
        "undated": _entries_json(account.undated),
        "columns": account.columns,
        "warning": account.warns,
    }


def _entries_json(entries: Mapping[str, Unread]) -> dict[str, Any]:
    """Returns the entries of an account as JSON values."""
    return {name: asdict(entry) for name, entry in entries.items()}


# Mappings of unknown formats


def guessed_mapping(path: str) -> CommandResult:
    """Returns a draft of the mapping of a file, and what an import would read with it; stores nothing.

    Raises:
        FormatError: Nothing in the file looks like messages.
    """
    draft = MappingDraft.of_file(path)
    text = draft.texts[0]
    trial = draft.try_out(text)
    lines = [trial.counts, *(f"! {doubt}" for doubt in trial.doubts)]
    if trial.account.total:
        lines.append(shares_line(trial.account).strip())
    return CommandResult(
        [text, *(f"# {line}" for line in lines)],
        {
            "mapping": text,
            "conversations": trial.conversations,
            "messages": trial.messages,
            "quarantined": trial.rejected,
            "doubts": trial.doubts,
            "characters": {place: trial.account.chars.get(place, 0) for place in PLACES},
        },
        EXIT_INCOMPLETE,
        hints=[
            f"Nothing was stored. Correct it and save it as {mapping_folder()}/NAME.toml with NAME as its `name`; then"
            " import the file with --format NAME, and with --replace if it was imported before."
        ],
    )


def map_hint(project: str | PathLike[str], path: str) -> str:
    """Returns a sentence with the command that drafts the mapping of a file."""
    words = ["workbench", "import", str(project), path, "--map"]
    return f"To say where its messages are: {shlex.join(words)}"


def refusal_lines(refused: Sequence[FormatError], project: str | PathLike[str]) -> list[str]:
    """Returns for each file that was refused why, and what to do."""
    lines: list[str] = []
    for error in refused:
        refusal = with_map_hint(error, project)
        lines += [message_safe(refusal.message), message_safe(f"  {refusal.hint}")]
    return lines


def with_map_hint(error: FormatError, project: str | PathLike[str]) -> FormatError:
    """Returns the refusal of a file of an unknown format with another hint: `map_hint`, and the mapping files that
    cannot be used, one of which may be meant for this file.

    Any other refusal is returned unchanged, and so is one whose file is gone.
    """
    path = file_of(error.path) if isinstance(error, UnknownFormat) else None
    if path is None:
        return error
    return FormatError(error.message, "\n  ".join([map_hint(project, path), *_skipped_formats()]))
