"""Says what was read from the sources of imports, as lines of text; and stores what the list of conversations shows.

The *account* of a source says where its text went: into messages, into metadata, or nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import get_args

from engine.base.errors import FilterError
from engine.base.number_format import counted
from engine.base.text import message_safe, one_line
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.records import CheckCounts
from engine.formats.messages.times import is_ambiguous
from engine.formats.records import MOST_LOST, PLACES, SKIPPED, Account, SourceReport, Unread
from engine.project import settings
from engine.project.project import Project

# What was read from sources

MOST_SOURCES = 10
"""Most sources of which the text says what was read; JSON has all."""

MOST_UNREAD = 5
"""Most kinds of what was not read, and most reasons of the quarantine, that the text names for a source."""


def account_lines(sources: list[SourceReport], remedy: Callable[[str], str]) -> list[str]:
    """Returns what was read from each source, those with losses first: format and why, counts, where the text went.

    Args:
        remedy: Returns what to do about a file that was badly read, in words, from its path.
    """
    shown = sorted(
        sources, key=lambda source: (-source.account.share("nowhere"), not source.badly_read)
    )[:MOST_SOURCES]
    lines: list[str] = []
    for source in shown:
        if source.detection.format == SKIPPED:
            lines.append(f"{source.label}: {source.detection.why}")
            continue
        lines += _source_lines(source)
        if source.badly_read and (path := file_of(source.label)):
            lines.append(f"  {remedy(path)}")
    if len(sources) > len(shown):
        lines.append(f"... and {len(sources) - len(shown):,} more sources (all with --json)")
    return [message_safe(line) for line in lines]


def stored_accounts(reports: Sequence[str], checks: CheckCounts | None = None) -> str:
    """Returns what the checks found in all conversations, and the accounts of sources.

    Args:
        reports: The reports of the sources that were read to their end, as JSON.
        checks: What the checks found; None before any.
    """
    lines: list[str] = [] if checks is None else [checks.in_words(), ""]
    if not reports:
        lines.append(
            "No source was read to its end by an import that keeps accounts. Import it again to see its account."
        )
    for report in map(SourceReport.from_json, reports):
        lines += [
            *account_lines([report], lambda _: "i and then ^t say where its messages are."),
            "",
        ]
    return "\n".join(lines)


def badly_read(reports: Sequence[str]) -> int:
    """Returns how many of the sources with these reports, as JSON, were badly read."""
    return sum(SourceReport.from_json(report).badly_read for report in reports)


def file_of(label: str) -> str | None:
    """Returns the path of the file from which a source with a label was read, or of the archive in which that file is;
    None if there is no such file any more."""
    return next((path for path in (label, label.split(": ")[0]) if os.path.isfile(path)), None)


def _source_lines(source: SourceReport) -> list[str]:
    """Returns what was read from one source, and warnings where much was not read."""
    account = source.account
    counts = [counted(source.conversations, "conversation"), counted(source.messages, "message")]
    if source.rejected:
        counts.append(f"{source.rejected:,} quarantined")
    lines = [
        f"{source.label}: {source.detection.format}, because {source.detection.why}",
        f"  {', '.join(counts)}",
        *_reason_lines(source),
    ]
    if account.total:
        what = "text of the other records" if source.rejected else "text"
        lines.append(shares_line(account, what))
    for subject in sorted({*account.columns.values()}):
        names = ", ".join(f"`{name}`" for name, of in account.columns.items() if of == subject)
        lines += [f"  columns kept with the {subject}: {names}"]
    lines += _unread_lines("not read", account.lost)
    lines += _unread_lines("not understood, kept as it is", account.unknown)
    lines += _unread_lines("kept from models", account.hidden)
    if account.undated:
        times = sum(texts.times for texts in account.undated.values())
        examples = ", ".join(one_line(texts.example, 30) for texts in account.undated.values())
        lines.append(
            f"  time of the conversation: not understood {counted(times, 'time')}, such as {one_line(examples, 60)}"
        )
        if any(is_ambiguous(texts.example) for texts in account.undated.values()):
            lines.append(
                "  Day or month first? Say `day_first` in a mapping file (`workbench import PROJECT FILE --map`)."
            )
    if account.lies_aside:
        lines.append(
            "  Warning: metadata have far more sentences than messages; the conversation may be there."
        )
    if account.share("nowhere") > MOST_LOST:
        lines.append(
            f"  Warning: more than {MOST_LOST:.0%} of the text was not read. Every record is kept as it came;"
            " please check a conversation before you rely on scores."
        )
    return lines


def _reason_lines(source: SourceReport) -> list[str]:
    """Returns why records were quarantined, the most frequent reasons first."""
    by_count = sorted(source.reasons.items(), key=lambda reason_and_count: -reason_and_count[1])
    lines = [
        f"  quarantined: {one_line(reason, 100)}" + (f", {count:,} times" if count > 1 else "")
        for reason, count in by_count[:MOST_UNREAD]
    ]
    if len(by_count) > MOST_UNREAD:
        lines.append(f"  ... for {len(by_count) - MOST_UNREAD:,} more reasons (all with --json)")
    return lines


def _unread_lines(what: str, unread: dict[str, Unread]) -> list[str]:
    """Returns a line for each kind of text that was not read, the one with the most text first; `what` says what became
    of it."""
    by_length = sorted(unread.items(), key=lambda name_and_texts: -name_and_texts[1].chars)
    lines = [
        f"  {what}: `{name}`, {counted(texts.times, 'time')}, {texts.chars:,} characters,"
        f" such as {one_line(texts.example, 60)!r}"
        for name, texts in by_length[:MOST_UNREAD]
    ]
    if len(by_length) > MOST_UNREAD:
        lines.append(f"  ... and {len(by_length) - MOST_UNREAD:,} more (all with --json)")
    return lines


def shares_line(account: Account, what: str = "text") -> str:
    """Returns the line on where the text of an account went, as shares; `what` names that text."""
    places = [
        f"{place} {account.share(place):.1%}"
        for place in PLACES
        if account.chars.get(place) or place == "nowhere"
    ]
    return f"  {what} read as: {', '.join(places)}"


# What the list of conversations shows


_SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)
"""The keys that a list can be ordered by."""

_COLUMNS = "list.columns"
"""Setting: the columns of the list of conversations, in order."""

_VIEW = "list.view"
"""Setting: what the list of conversations showed last: filter, order, conversation."""


class SavedViews:
    """Remembers in a project what its list of conversations shows. Methods that store raise ProjectReadOnly where the
    project cannot be written.

    Another version of the program may have written other values; a value that is not understood counts as absent.
    """

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        self._project = project

    def columns(self) -> list[str] | None:
        """Returns the keys of the columns of the list, in order; None where nobody has chosen any."""
        stored = self._project.read(settings.get, _COLUMNS)
        return [key for key in stored if isinstance(key, str)] if isinstance(stored, list) else None

    def save_columns(self, columns: Sequence[str]) -> None:
        """Remembers the columns of the list."""
        self._project.write(lambda conn: settings.put(conn, _COLUMNS, list(columns)))

    def view(self) -> tuple[ListQuery, int | None]:
        """Returns what the list showed last, and the id of the conversation under its cursor."""
        stored = self._project.read(settings.get, _VIEW)
        if not isinstance(stored, dict):
            return ListQuery(), None
        conversation = stored.get("conversation")
        try:
            filter = parse_filter(str(stored.get("filter", "")))
        except FilterError:
            return ListQuery(), None
        known_keys = (key for key in _SORT_KEYS if key == stored.get("sort"))
        query = ListQuery(filter, next(known_keys, "id"), stored.get("descending") is True)
        return query, conversation if isinstance(conversation, int) else None

    def save_view(self, query: ListQuery, conversation_id: int | None) -> None:
        """Remembers what the list shows."""
        view = {
            "filter": str(query.filter),
            "sort": query.sort,
            "descending": query.descending,
            "conversation": conversation_id,
        }
        self._project.write(lambda conn: settings.put(conn, _VIEW, view))
