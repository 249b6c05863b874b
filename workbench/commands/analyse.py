"""`workbench analyse`: what truth that came along says, laid out in tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.store import conversations, imports
from engine.store.sql import id_pages, snapshot
from engine.text import one_line
from engine.validate.turns import Mean, TurnRow, by_turns
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import say, show, tell
from workbench.exits import DONE
from workbench.services import Workspace

LONGEST_NAME = 24


def analyse(arguments: argparse.Namespace) -> int:
    """Tells how figures go with the number of turns.

    Raises:
        UsageError: Nothing matches.
    """
    query = ListQuery(asked_filter(arguments.filter))
    with (
        Workspace(Path(arguments.project), read_only=True) as workspace,
        workspace.project.reading() as conn,
        snapshot(conn),
    ):
        ids = conversations.ids(conn, query)
        turns = {
            key: sum(message.role == "user" for message in messages)
            for page in id_pages(conn, ids)
            for key, messages in conversations.conversations_for(conn, page)
        }
        known = {key: truth for key, truth in imports.truths(conn) if key in turns}
    if not turns:
        raise UsageError("No conversation matches.", "Leave out --filter, or import some.")
    rows = by_turns((count, known.get(key)) for key, count in turns.items())
    names = list(dict.fromkeys(name for row in rows for name in row.means))
    if not names:
        tell("No conversation came with a rating, a reward or another number to average.")
    if arguments.json:
        show({"turns": [_as_json(row) for row in rows]})
    else:
        say("\n".join(_lines(rows, names)))
    return DONE


def _as_json(row: TurnRow) -> dict[str, Any]:
    return {
        "turns": row.turns,
        "conversations": row.conversations,
        "means": {name: one.value for name, one in row.means.items()},
        "counts": {name: one.count for name, one in row.means.items()},
    }


def _lines(rows: Sequence[TurnRow], names: Sequence[str]) -> list[str]:
    heads = ["turns", "conversations", *(one_line(name, LONGEST_NAME) for name in names)]
    body = [
        [f"{row.turns:,}", f"{row.conversations:,}", *(_cell(row.means.get(n)) for n in names)]
        for row in rows
    ]
    widths = [max(map(cell_len, column)) for column in zip(heads, *body, strict=True)]
    return [
        "  ".join(
            " " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True)
        )
        for cells in (heads, *body)
    ]


def _cell(mean: Mean | None) -> str:
    return "-" if mean is None else f"{mean.value:.4f}"
