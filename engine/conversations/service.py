"""Imports: the stages of one, and what was read from its sources, as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from engine.base.number_format import counted
from engine.base.text import one_line
from engine.conversations.records import CheckCounts
from engine.formats.input_kinds import SKIPPED
from engine.formats.records import MOST_LOST, PLACES, Account, SourceReport, Unread
from engine.project.project import Project

if TYPE_CHECKING:
    from engine.conversations.stages import ImportStage
    from engine.conversations.stages.checking import CheckStage

MOST_SOURCES = 10
"""Sources of which the text says what was read; JSON has all."""

MOST_UNREAD = 5


def import_stages(
    project: Project,
    paths: Sequence[str],
    format: str | None = None,
    *,
    stdin: BinaryIO | None = None,
    all_branches: bool = False,
    replace: bool = False,
    most_unpacked: int | None = None,
) -> tuple[ImportStage, CheckStage]:
    """Returns the stages of an import: that which reads, and that which checks what came.

    Args:
        paths: Files and folders; `-` is `stdin`.
        format: Name of a format; None to detect it for each file.
        all_branches: Each branch of a tree of messages is a conversation, not only the current one.
        replace: Conversations that changed take the place of the stored ones; otherwise both are kept.
        most_unpacked: Number of bytes to which any file may unpack; None for the usual limit.
    """
    # Imported here: they bring readers and numpy, which what only shows an import does not wait for.
    from engine.conversations.stages import ImportStage
    from engine.conversations.stages.checking import CheckStage

    reading = ImportStage(
        project, paths, format, stdin, all_branches, replace, most_unpacked=most_unpacked
    )
    return reading, CheckStage(project)


def account_lines(
    sources: list[SourceReport], remedy: Callable[[str], str] | None = None
) -> list[str]:
    """What was read from each source, those with losses first: format and why, counts, where the text went.

    Args:
        remedy: What to do about a file that was badly read, in words; gets its path.
    """
    first = sorted(
        sources, key=lambda source: (-source.account.share("nowhere"), not source.badly_read)
    )[:MOST_SOURCES]
    lines: list[str] = []
    for source in first:
        account = source.account
        if source.detection.format == SKIPPED:
            lines.append(f"{source.label}: {source.detection.why}")
            continue
        lines.append(f"{source.label}: {source.detection.format}, because {source.detection.why}")
        counts = [
            counted(source.conversations, "conversation"),
            counted(source.messages, "message"),
        ]
        if source.rejected:
            counts.append(f"{source.rejected:,} quarantined")
        lines.append(f"  {', '.join(counts)}")
        lines += _reason_lines(source)
        if account.total:
            lines.append(shares_line(account))
        lines += _unread_lines("not read", account.lost)
        lines += _unread_lines("not understood, kept as it is", account.unknown)
        lines += _unread_lines("kept from models", account.hidden)
        for name, one in account.ids.items():
            some = f"{counted(one.times, 'time')}, such as {one_line(one.example, 60)!r}"
            lines.append(f"  several ids: `{name}` names another conversation {some}")
        for name, one in account.dates.items():
            some = f"{counted(one.times, 'time')}, such as {one_line(one.example, 60)}"
            lines.append(f"  time of the conversation: taken from `{name}` {some}")
        if account.out_of_order:
            some = counted(account.out_of_order, "conversation")
            lines.append(f"  in {some} a message has an earlier time than one before it")
        if account.warns:
            lines.append(
                f"  Warning: more than {MOST_LOST:.0%} of the text was not read. Every record is kept as it came;"
                " please check a conversation before you rely on scores."
            )
        if remedy is not None and source.badly_read and (path := file_of(source.label)):
            lines.append(f"  {remedy(path)}")
    if len(sources) > len(first):
        lines.append(f"... and {len(sources) - len(first):,} more sources (all with --json)")
    return lines


def file_of(label: str) -> str | None:
    """The path of the file that a source was read from, with its archive for one within; None if it is not there."""
    return next((path for path in (label, label.split(": ")[0]) if os.path.isfile(path)), None)


def stored_accounts(reports: Sequence[str], checks: CheckCounts | None = None) -> str:
    """What the checks found in all conversations, and the accounts of the sources that were read to their end, from the
    reports that the project has of them."""
    lines: list[str] = [] if checks is None else [checks.in_words(), ""]
    if not reports:
        lines.append(
            "No source was read to its end by an import that keeps accounts. Import it again to see its account."
        )
    for report in map(SourceReport.from_json, reports):
        lines += [*account_lines([report], lambda _: "m says where its messages are."), ""]
    return "\n".join(lines)


def badly_read(reports: Sequence[str]) -> int:
    """The number of sources that were badly read."""
    return sum(SourceReport.from_json(report).badly_read for report in reports)


def stored_files(reports: Sequence[str]) -> list[tuple[str, bool]]:
    """The files of sources that were read to their end and are still there, and whether each was badly read; those
    first."""
    files: dict[str, bool] = {}
    for report in map(SourceReport.from_json, reports):
        if path := file_of(report.label):
            files[path] = files.get(path, False) or report.badly_read
    return sorted(files.items(), key=lambda entry: not entry[1])


def _reason_lines(source: SourceReport) -> list[str]:
    """Why records were quarantined, the most frequent reasons first."""
    most = sorted(source.reasons.items(), key=lambda entry: -entry[1])
    lines = [
        f"  quarantined: {one_line(reason, 100)}" + (f", {count:,} times" if count > 1 else "")
        for reason, count in most[:MOST_UNREAD]
    ]
    if len(most) > MOST_UNREAD:
        lines.append(f"  ... for {len(most) - MOST_UNREAD:,} more reasons (all with --json)")
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


def shares_line(account: Account) -> str:
    """Where the text went, as shares."""
    places = [
        f"{place} {account.share(place):.1%}"
        for place in PLACES
        if account.chars.get(place) or place == "nowhere"
    ]
    return f"  text read as: {', '.join(places)}"
