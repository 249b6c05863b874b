"""`workbench analyse`: tables of imported truth."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, NotYet
from engine.base.report_table import CellKind
from engine.base.text import one_line
from engine.completeness.turns import TurnRow, by_turns
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations, selecting
from engine.conversations.tables.truth import truth_by_record, truth_of_duplicates
from engine.opener.open_project import OpenProject
from engine.project.sql import snapshot
from engine.results.metrics.aptitude import Scored, aptitudes
from engine.simulate.service.result_tables import aptitude_json, aptitude_table
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, read_filter
from workbench.commands.report_text import cell_lines, table_lines
from workbench.exits import DONE

LONGEST_NAME = 28


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
        OpenProject(Path(arguments.project), read_only=True) as workspace,
        workspace.project.reading() as conn,
        snapshot(conn),
    ):
        ids = selecting.ids(conn, query)
        if not ids:
            raise NotFound("No conversation matches.", "Leave out --filter, or import some.")
        result = _TABLES[arguments.subcommand](conn, ids)
    result.print(arguments.json)
    return DONE


def _turns(conn: sqlite3.Connection, ids: Sequence[int]) -> Result:
    rows = by_turns(_records(conn, ids))
    if not any(row.means for row in rows):
        narrate("No conversation came with a rating, a reward or another number to average.")
    return Result(turn_lines(rows), {"turns": [turn_json(row) for row in rows]})


def turn_lines(rows: Sequence[TurnRow]) -> list[str]:
    """The table of means by number of turns."""
    names = list(dict.fromkeys(name for row in rows for name in row.means))
    means: list[tuple[str, CellKind]] = [(one_line(name, LONGEST_NAME), "mean") for name in names]
    return cell_lines(
        [("turns", "count"), ("conversations", "count"), *means],
        [(row.turns, row.conversations, *(_mean(row, name) for name in names)) for row in rows],
    )


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
    for key, name, truth in truth_of_duplicates(conn):
        if key in turns and (key, name) not in names:
            names.add((key, name))
            yield turns[key], truth


def _mean(row: TurnRow, name: str) -> float | None:
    return row.means[name].value if name in row.means else None


def turn_json(row: TurnRow) -> dict[str, Any]:
    """The means of a number of turns as JSON values."""
    return {
        "turns": row.turns,
        "conversations": row.conversations,
        "means": {name: one.value for name, one in row.means.items()},
        "counts": {name: one.count for name, one in row.means.items()},
    }


def _aptitude(conn: sqlite3.Connection, ids: Sequence[int]) -> Result:
    wanted = frozenset(ids)
    scored = [
        one
        for key, truth in truth_by_record(conn)
        if key in wanted and (one := _simulated(truth)) is not None
    ]
    if not scored:
        raise NotYet(
            "None of these conversations is a scored simulation.",
            "Import logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scored)
    if any(row.fewest == 1 for row in rows):
        narrate("Where an instruction was simulated once, nothing is known of its reliability.")
    return Result(table_lines(aptitude_table(rows)), {"aptitude": aptitude_json(rows)})


def _simulated(truth: Mapping[str, Any]) -> Scored | None:
    """A simulation with its score, which is 0 where the log has it as null: no answer was attempted."""
    score, instruction = truth.get("score", ...), truth.get("task_id")
    if instruction is None or not isinstance(score, int | float | None):
        return None
    names = (str(truth.get(key, "unknown")) for key in ("task", "condition", "assistant_model"))
    task, condition, model = names
    return Scored(task, condition, model, str(instruction), float(score or 0))


_TABLES: Mapping[str, Callable[[sqlite3.Connection, Sequence[int]], Result]] = {
    "turns": _turns,
    "aptitude": _aptitude,
}
