"""`workbench list`: lists conversations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from rich.cells import cell_len

from engine.base.errors import UsageError
from engine.base.number_format import counted, probability
from engine.base.text import as_json, one_line
from engine.conversations.filter_fields import ANY, COUNTED, DOTTED, SortKey
from engine.conversations.filters import Filter, ListQuery, Term
from engine.opener.conversations import (
    ConversationRow,
    ConversationService,
)
from engine.opener.open_project import OpenProject
from workbench.commands.narration import narrate
from workbench.commands.options import add_filter, positive, read_filter
from workbench.commands.scores import narrate_set

BATCH = 500
"""Rows read at once; the columns of the table are as wide as the first of these need."""

COLUMNS: tuple[tuple[str, bool, Callable[[ConversationRow], str]], ...] = (
    ("state", False, lambda row: str(row.state)),
    ("p", True, lambda row: probability(row.p_end_normalised)),
    ("success", True, lambda row: probability(row.success)),
    ("turns", True, lambda row: f"{row.turns}"),
    ("messages", True, lambda row: f"{row.messages}"),
    ("length", True, lambda row: f"{row.chars}"),
    ("date", False, lambda row: one_line((row.created_at or "–")[:10])),
    ("verdict", False, lambda row: str(row.verdict or "–")),
    ("tags", False, lambda row: one_line(",".join(row.tags)) or "–"),
    ("source", False, lambda row: one_line(row.source)),
    ("name", False, lambda row: one_line(row.external_id)),
    ("opening", False, lambda row: one_line(row.opening, 100)),
)
"""The columns: title, whether it is aligned to the right, and the text of a row."""


def list_conversations_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `list_conversations`."""
    parser.add_argument("project")
    add_filter(parser)
    parser.add_argument(
        "--sort",
        choices=get_args(SortKey),
        default="id",
        help="what to sort by (default: id, the order of import)",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.add_argument(
        "--by",
        metavar="FIELD",
        help="count by the values of a field instead: goal, model, tool, date, meta.channel, ...",
    )


def list_conversations(arguments: argparse.Namespace) -> int:
    """Lists conversations as an aligned table or as JSON Lines, on standard output."""
    query = ListQuery(read_filter(arguments.filter), arguments.sort, arguments.reverse)
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        if arguments.by is not None:
            _count(workspace, query.filter, arguments.by, arguments.limit, json=arguments.json)
            return 0
        conversations = workspace.conversations
        ids = conversations.ids(query)[: arguments.limit]
        if arguments.json:
            for row in chain.from_iterable(_batches(conversations, ids)):
                print(as_json(_line(row)))
        else:
            _print_table(_batches(conversations, ids))
        sys.stdout.flush()
        narrate_set(workspace.score_sets)
    return 0


def _count(
    services: OpenProject, wanted: Filter, field: str, limit: int | None, *, json: bool
) -> None:
    """Prints the values of a field with the number of conversations that match a filter, the most frequent first.

    Raises:
        UsageError: Conversations cannot be counted by the field.
        WorkbenchError: No conversation has this field of metadata or truth.
    """
    if field not in COUNTED:
        if field.partition(".")[0] not in DOTTED or not field.partition(".")[2]:
            near = get_close_matches(field, COUNTED, 3)
            raise UsageError(
                f"Conversations cannot be counted by “{field}”.",
                (f"Do you mean {' or '.join(near)}? " if near else "")
                + f"Fields: {', '.join(COUNTED)}, meta.KEY, truth.KEY.",
            )
        services.conversations.ids(ListQuery(Filter((Term(field, ":", (ANY,)),))))
    values = services.conversations.values(field, wanted)[:limit]
    if json:
        for value, count in values:
            print(as_json({field: value, "conversations": count}))
    else:
        rows = [(one_line(value), f"{count or 0:,}") for value, count in values]
        width = max([len(field), *(cell_len(value) for value, _ in rows)])
        for value, number in [(field, "conversations"), *rows]:
            print(f"{value}{' ' * (width - cell_len(value))}  {number:>13}")
        all_of_them = f" that match {wanted}" if wanted else ""
        narrate(
            f"Of {counted(len(services.conversations.ids(ListQuery(wanted))), 'conversation')}{all_of_them}."
        )
    sys.stdout.flush()
    narrate_set(services.score_sets)


def _batches(
    conversations: ConversationService, ids: Sequence[int]
) -> Iterator[list[ConversationRow]]:
    for start in range(0, len(ids), BATCH):
        yield conversations.rows(ids[start : start + BATCH])


def _print_table(batches: Iterator[list[ConversationRow]]) -> None:
    begin = next(batches, [])
    # Most projects have no probe of success; a column of dashes says less than none.
    without_success = all(row.success is None for row in begin)
    columns = [column for column in COLUMNS if column[0] != "success" or not without_success]
    first = [[cell(row) for _, _, cell in columns] for row in begin]
    titles = [title for title, _, _ in columns]
    widths = [max(map(cell_len, column)) for column in zip(titles, *first, strict=True)]
    rest = ([cell(row) for _, _, cell in columns] for row in chain.from_iterable(batches))
    for cells in chain([titles], first, rest):
        padded = (
            " " * (width - cell_len(text)) + text
            if right
            else text + " " * (width - cell_len(text))
            for text, width, (_, right, _) in zip(cells, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def _line(row: ConversationRow) -> dict[str, Any]:
    return {
        "id": row.external_id,
        "source": row.source,
        "state": str(row.state),
        "p_end": row.p_end,
        "p_end_normalised": row.p_end_normalised,
        "success": row.success,
        "reason": row.reason,
        "turns": row.turns,
        "messages": row.messages,
        "length": row.chars,
        "created_at": row.created_at,
        "verdict": None if row.verdict is None else str(row.verdict),
        "tags": list(row.tags),
        "opening": row.opening,
    }
