"""`workbench analyse`: tables of imported truth."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.records.report import ReportTable
from engine.services.report_rendering import shown_cells
from engine.services.workspace import Workspace
from engine.store import conversations, imports
from engine.store.sql import snapshot
from engine.text import one_line
from engine.validate.aptitude import Scored, aptitudes
from engine.validate.turns import Mean, TurnRow, by_turns
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, read_filter
from workbench.exits import DONE

LONGEST_NAME = 28
LONGEST_LINE = 80


def analyse_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `analyse`."""
    parser.add_argument("project")
    add_filter(parser)


def analyse(arguments: argparse.Namespace) -> int:
    """Prints means by the number of turns, or performance, aptitude and unreliability of simulated conversations.

    Raises:
        UsageError: No conversation matches, or none that matches has the figures that are needed.
    """
    query = ListQuery(read_filter(arguments.filter))
    with (
        Workspace(Path(arguments.project), read_only=True) as workspace,
        workspace.project.reading() as conn,
        snapshot(conn),
    ):
        ids = conversations.ids(conn, query)
        if not ids:
            raise UsageError("No conversation matches.", "Leave out --filter, or import some.")
        result = _TABLES[arguments.subcommand](conn, ids)
    result.print(arguments.json)
    return DONE


def _turns(conn: sqlite3.Connection, ids: Sequence[int]) -> Result:
    rows = by_turns(_records(conn, ids))
    names = list(dict.fromkeys(name for row in rows for name in row.means))
    if not names:
        narrate("No conversation came with a rating, a reward or another number to average.")
    heads = ["turns", "conversations", *(one_line(name, LONGEST_NAME) for name in names)]
    body = [
        [f"{row.turns:,}", f"{row.conversations:,}", *(_cell(row.means.get(n)) for n in names)]
        for row in rows
    ]
    return Result(aligned(heads, body), {"turns": [_turn_json(row) for row in rows]})


def _records(
    conn: sqlite3.Connection, ids: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Turns and truth of every record: two with the same text under two names are one conversation and count twice, as
    they do in the data set's own table; the same record from two places counts once."""
    turns: dict[int, int] = {}
    names: set[tuple[int, str]] = set()
    for key, _, one in conversations.export_conversations(conn, ids):
        turns[key] = sum(message.role == "user" for message in one.messages)
        names.add((key, one.external_id))
        yield turns[key], one.truth
    for key, name, truth in imports.duplicates(conn):
        if key in turns and (key, name) not in names:
            names.add((key, name))
            yield turns[key], truth


def _turn_json(row: TurnRow) -> dict[str, Any]:
    return {
        "turns": row.turns,
        "conversations": row.conversations,
        "means": {name: one.value for name, one in row.means.items()},
        "counts": {name: one.count for name, one in row.means.items()},
    }


def _cell(mean: Mean | None) -> str:
    return "-" if mean is None else f"{mean.value:.4f}"


def _aptitude(conn: sqlite3.Connection, ids: Sequence[int]) -> Result:
    wanted = frozenset(ids)
    scored = [
        one
        for key, truth in imports.recorded_truths(conn)
        if key in wanted and (one := _simulated(truth)) is not None
    ]
    if not scored:
        raise UsageError(
            "None of these conversations is a scored simulation.",
            "Import logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scored)
    heads = ["instructions", "runs", "P", "A90", "U90-10", "task, condition, model"]
    body = [
        [
            f"{row.instructions:,}", f"{row.runs:,}", f"{row.performance:.1f}", f"{row.aptitude:.1f}",
            f"{row.unreliability:.1f}" if row.fewest > 1 else "-",
            "  " + one_line(f"{row.task}, {row.condition}, {row.model}", LONGEST_LINE),
        ]
        for row in rows
    ]  # fmt: skip
    if any(row.fewest == 1 for row in rows):
        narrate("Where an instruction was simulated once, nothing is known of its reliability.")
    return Result(aligned(heads, body), {"aptitude": [asdict(row) for row in rows]})


def _simulated(truth: Mapping[str, Any]) -> Scored | None:
    """A simulation with its score, which is 0 where the log has it as null: no answer was attempted."""
    score, instruction = truth.get("score", ...), truth.get("task_id")
    if instruction is None or not isinstance(score, int | float | None):
        return None
    names = (str(truth.get(key, "unknown")) for key in ("task", "condition", "assistant_model"))
    task, condition, model = names
    return Scored(task, condition, model, str(instruction), float(score or 0))


def aligned_table(table: ReportTable) -> list[str]:
    """A table of results as lines, right-aligned."""
    return aligned(
        [one.title for one in table.columns], [shown_cells(table, row) for row in table.rows]
    )


def aligned(heads: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines, right-aligned in cells of the terminal."""
    widths = [max(map(cell_len, column)) for column in zip(heads, *body, strict=True)]
    return [
        "  ".join(
            " " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True)
        )
        for cells in (heads, *body)
    ]


_TABLES: Mapping[str, Callable[[sqlite3.Connection, Sequence[int]], Result]] = {
    "turns": _turns,
    "aptitude": _aptitude,
}
