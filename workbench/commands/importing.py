"""`workbench import`: imports files of conversations, and accounts for their text."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.conversation import Conversation, render_log
from engine.errors import WorkbenchError
from engine.formats import open_inputs
from engine.number_format import counted
from engine.records.imports import MOST_LOST, PLACES, Parsed, SourceReport, Unread
from engine.services.workspace import Workspace
from engine.stages.importing import ImportStage
from engine.text import one_line
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.exits import DONE, WITH_GAPS

MOST_SOURCES = 10
"""Sources of which the text says what was read; JSON has all."""

MOST_UNREAD = 5
CONVERSATIONS_SHOWN = 2
CHARACTERS_SHOWN = 2_000


def import_paths_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `import_paths`."""
    parser.add_argument("project")
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="file, folder, or - for standard input"
    )
    parser.add_argument("--format", help="format of the input (default: detected)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="read everything, say what would be imported and show two conversations; store nothing",
    )


def import_paths(arguments: argparse.Namespace) -> int:
    """Imports into a project, which is created if it is not there, and removed again if no input could be read."""
    if arguments.dry_run:
        return _dry_run(arguments)
    path = Path(arguments.project)
    is_new = not path.exists()
    stage = None
    try:
        with Workspace(path, create=True) as workspace:
            stage = ImportStage(
                workspace.project, arguments.paths, arguments.format, sys.stdin.buffer
            )
            run_stages(workspace, [stage])
    except WorkbenchError:
        if is_new and stage is not None and not stage.sources:
            path.unlink(missing_ok=True)
        raise
    if arguments.json:
        print_json(
            {
                "read": stage.read,
                "new": stage.new,
                "duplicate": stage.duplicate,
                "unchanged": stage.unchanged,
                "quarantined": stage.quarantined,
                "leaks": stage.leaks,
                "sources": [_as_json(source) for source in stage.sources],
            }
        )
    else:
        print_text(stage.summary())
        print_text("\n".join(_account_lines(stage.sources)))
    return _exit_code(stage.sources)


def _dry_run(arguments: argparse.Namespace) -> int:
    """Reads the inputs without a project and says what an import would do."""
    sources: list[SourceReport] = []
    shown: list[Conversation] = []
    for opened in open_inputs(arguments.paths, format=arguments.format, stdin=sys.stdin.buffer):
        report = SourceReport(opened.label, opened.detection)
        sources.append(report)
        for record in opened.records():
            report.count(record)
            if isinstance(record, Parsed) and len(shown) < CONVERSATIONS_SHOWN:
                shown.append(record.conversation)
    if arguments.json:
        logs = [_rendered(conversation) for conversation in shown]
        print_json({"sources": [_as_json(source) for source in sources], "conversations": logs})
    else:
        print_text("\n".join(_account_lines(sources)))
        for conversation in shown:
            log = _rendered(conversation)
            rest = len(log) - CHARACTERS_SHOWN
            more = f"\n... {rest:,} characters more" if rest > 0 else ""
            print_text(f"\n== {conversation.external_id} ==\n{log[:CHARACTERS_SHOWN]}{more}")
        print_text("\nNothing was stored.")
    return _exit_code(sources)


def _exit_code(sources: list[SourceReport]) -> int:
    gaps = any(source.rejected or source.account.warns for source in sources)
    return WITH_GAPS if gaps else DONE


def _rendered(conversation: Conversation) -> str:
    """A conversation as a model reads it."""
    return "".join(piece.text for piece in render_log(conversation.messages))


def _account_lines(sources: list[SourceReport]) -> list[str]:
    """What was read from each source, those with losses first: format and why, counts, where the text went."""
    first = sorted(sources, key=lambda source: -source.account.share("nowhere"))[:MOST_SOURCES]
    lines: list[str] = []
    for source in first:
        account = source.account
        lines.append(f"{source.label}: {source.detection.format}, because {source.detection.why}")
        counts = [
            counted(source.conversations, "conversation"),
            counted(source.messages, "message"),
        ]
        if source.rejected:
            counts.append(f"{source.rejected:,} quarantined")
        lines.append(f"  {', '.join(counts)}")
        places = [
            f"{place} {account.share(place):.1%}"
            for place in PLACES
            if account.chars.get(place) or place == "nowhere"
        ]
        if account.total:
            lines.append(f"  text read as: {', '.join(places)}")
        lines += _unread_lines("not read", account.lost)
        lines += _unread_lines("unknown kind of part, kept as JSON", account.unknown)
        if account.warns:
            lines.append(
                f"  Warning: more than {MOST_LOST:.0%} of the text was not read. Every record is kept as it came;"
                " please check a conversation before you rely on scores."
            )
    if len(sources) > len(first):
        lines.append(f"... and {len(sources) - len(first):,} more sources (all with --json)")
    return lines


def _unread_lines(what: str, unread: dict[str, Unread]) -> list[str]:
    most = sorted(unread.items(), key=lambda entry: -entry[1].chars)
    lines = [
        f"  {what}: `{name}`, {counted(one.times, 'time')}, {one.chars:,} characters,"
        f" such as {one_line(one.example, 60)!r}"
        for name, one in most[:MOST_UNREAD]
    ]
    if len(most) > MOST_UNREAD:
        lines.append(f"  ... and {len(most) - MOST_UNREAD:,} more (all with --json)")
    return lines


def _as_json(source: SourceReport) -> dict[str, Any]:
    account = source.account
    return {
        "source": source.label,
        "format": source.detection.format,
        "why": source.detection.why,
        "conversations": source.conversations,
        "messages": source.messages,
        "quarantined": source.rejected,
        "characters": {place: account.chars.get(place, 0) for place in PLACES},
        "not_read": {name: asdict(one) for name, one in account.lost.items()},
        "unknown_parts": {name: asdict(one) for name, one in account.unknown.items()},
        "warning": account.warns,
    }
