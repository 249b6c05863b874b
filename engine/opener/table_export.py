"""Exports the table of conversations, with a row for each and all that is known of it, for other programs.

The columns are the fixed ones, and one for each field of `meta` and `truth`. The *path* of a field is the keys that
lead to it, of which the first is `meta` or `truth`; its name is these keys joined by dots, as in `meta.user.plan`.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.line_files import ColumnType, write_parquet
from engine.completeness.service.sets import name_of
from engine.completeness.tables import score_sets
from engine.conversations.tables import facets
from engine.project.sql import id_pages, placeholders, snapshot
from engine.questions.tables.example_probes import success_of
from engine.signs import tables as sign_tables

_JSON_COLUMNS = ("tags", "meta")
"""Columns of the view that hold JSON."""

MAX_COLUMNS = 200
"""Most fields of metadata, and of truth, that have a column; the column `meta` or `truth` has the less frequent
ones."""

_FIXED_COLUMNS: dict[str, ColumnType] = {
    "id": "text", "source": "text", "date": "text", "messages": "integer", "turns": "integer",
    "length": "integer", "goal": "text",
    "state": "text", "p_end": "number", "p": "number", "p_succeeded": "number", "score_set": "text",
    "remaining": "text", "trouble": "number", "signs": "texts",
    "succeeded": "text", "note": "text", "tags": "texts",
    "leaves": "integer", "max_logprob": "number", "entropy": "number", "perplexity": "number",
    "language": "text", "personal": "texts",
}  # fmt: skip
"""Columns that every table has, in order and with their types."""

_TYPES: dict[frozenset[type], ColumnType] = {
    frozenset((bool,)): "truth value",
    frozenset((int,)): "integer",
    frozenset((float,)): "number",
    frozenset((int, float)): "number",
}
"""Types of the columns of metadata and truth by the types of their values; the others are texts."""

_MAX_LOG_PERPLEXITY = 700.0
"""Greatest logarithm of a perplexity that is finite in double precision."""

_FieldPath = tuple[str, ...]
"""The path of a field of `meta` or `truth`."""


def _rows(
    conn: sqlite3.Connection, ids: Sequence[int] | None, *, truth: bool
) -> Iterator[dict[str, Any]]:
    """Yields the rows of conversations in the order of `ids`, or with None of all in the order of import.

    A row has the columns of the view `conversation_table`, but for `success` the probability `p_succeeded` (None where
    its test is at chance), `language` (None if unknown), `personal`, the kinds of personal data in the conversation,
    and `trouble` and `signs` of trouble (None and empty before they were read).
    `meta` is an object, and `truth`, which rows have only on request, is an object or None.
    """
    for page in id_pages(conn, ids):
        condition = f"conversation_id IN ({placeholders(page)})"
        with snapshot(conn):
            cursor = conn.execute(
                f"SELECT * FROM conversation_table WHERE {condition}", tuple(page)
            )
            names = [column[0] for column in cursor.description]
            rows_by_id = {row[0]: dict(zip(names, row, strict=True)) for row in cursor}
            truths: dict[int, str] = {}
            if truth:
                query = f"SELECT conversation_id, truth FROM truth WHERE {condition}"
                truths = dict(conn.execute(query, tuple(page)))
        languages = facets.of_conversations(conn, facets.LANGUAGE, page)
        personal = facets.of_conversations(conn, facets.PERSONAL, page)
        success = success_of(conn, page)
        trouble = sign_tables.trouble_of(conn, page)
        signs_by_id = sign_tables.of_conversations(conn, page)
        for key in page:
            row = rows_by_id.get(key)
            if row is None:
                continue
            for name in _JSON_COLUMNS:
                row[name] = json.loads(row[name])
            row["language"] = next(iter(languages.get(key, [])), None)
            row["personal"] = personal.get(key, [])
            del row["success"]  # the view has it even where its test is at chance
            row["p_succeeded"] = success.get(key)
            row["trouble"] = trouble.get(key)
            row["signs"] = [reading.sign for reading in signs_by_id.get(key, ())]
            if truth:
                row["truth"] = json.loads(truths[key]) if key in truths else None
            yield row


def _meta_and_truth(
    conn: sqlite3.Connection, ids: Sequence[int] | None, *, truth: bool
) -> Iterator[tuple[str, Any]]:
    """Yields ("meta", object) of conversations and, where `truth` is set, also ("truth", object)."""
    queries = {"meta": "SELECT meta FROM conversation WHERE id IN"}
    if truth:
        queries["truth"] = "SELECT truth FROM truth WHERE conversation_id IN"
    for page in id_pages(conn, ids):
        for name, query in queries.items():
            for (text,) in conn.execute(f"{query} ({placeholders(page)})", tuple(page)):
                yield name, json.loads(text)


@dataclass(slots=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        fields: Names of the fields of `meta` and `truth` that have a column, such as `meta.channel`, with the types of
            their values.
        objects: `meta` and `truth`, each only if it has fields without a column, which then are in the column of this
            name.
        ambiguous: Names that several fields would have, as `{"a.b": 1, "a": {"b": 2}}` has `a.b` twice.
    """

    fields: dict[str, set[type]] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    ambiguous: frozenset[str] = frozenset()

    @classmethod
    def read(
        cls, conn: sqlite3.Connection, ids: Sequence[int] | None, *, truth: bool
    ) -> TableColumns:
        """Reads which fields the conversations have, and returns the columns for them."""
        types: dict[_FieldPath, set[type]] = {}
        counts: Counter[_FieldPath] = Counter()
        for name, value in _meta_and_truth(conn, ids, truth=truth):
            for path, inner in _flatten((name,), value):
                counts[path] += 1
                types.setdefault(path, set()).add(_type(inner))
        name_counts = Counter(map(".".join, types))
        columns = cls(ambiguous=frozenset(name for name in name_counts if name_counts[name] > 1))
        for name in ("meta", "truth"):
            paths = [path for path, _ in counts.most_common() if path[0] == name]
            columns.fields |= {
                key: types[path]
                for key, path in sorted(
                    (columns.name_of(path), path) for path in paths[:MAX_COLUMNS]
                )
            }
            if len(paths) > MAX_COLUMNS:
                columns.objects += (name,)
        return columns

    def name_of(self, path: _FieldPath) -> str:
        """Returns the name of a field; where it would be ambiguous, keys with dots stand in quotation marks, and keys
        with quotation marks always do."""
        name = ".".join(path)
        if name not in self.ambiguous and '"' not in name:
            return name
        return ".".join(
            json.dumps(key, ensure_ascii=False) if "." in key or '"' in key else key for key in path
        )

    @property
    def names(self) -> list[str]:
        """The names of all columns in order."""
        return [*_FIXED_COLUMNS, *self.fields, *self.objects]


def table_lines(
    conn: sqlite3.Connection,
    ids: Sequence[int] | None,
    *,
    truth: bool = False,
    columns: TableColumns | None = None,
) -> Generator[dict[str, Any], None, None]:
    """Yields a line for each conversation; every line has the same keys.

    Args:
        ids: Ids of the conversations in the order of the lines; None for all in the order of import.
        truth: Whether the lines have the fields of the truth.
        columns: The columns of the lines; None for those of `TableColumns.read`.
    """
    if columns is None:
        columns = TableColumns.read(conn, ids, truth=truth)
    config = score_sets.config_in_force(conn)
    score_set = None if config is None else name_of(config)
    for row in _rows(conn, ids, truth=truth):
        fields = {
            columns.name_of(path): value
            for name in ("meta", "truth")
            for path, value in _flatten((name,), row.get(name) or {})
        }
        line: dict[str, Any] = dict.fromkeys(columns.names)
        line.update({key: value for key, value in row.items() if key in line})
        line["score_set"] = None if row["state"] == "unscored" else score_set
        line["perplexity"] = _perplexity(row["answer_logprob"])
        line.update({key: value for key, value in fields.items() if key in columns.fields})
        for name in columns.objects:
            line[name] = {
                key.removeprefix(f"{name}."): value
                for key, value in fields.items()
                if key.startswith(f"{name}.") and key not in columns.fields
            }
        yield line


def write_table(lines: Iterator[dict[str, Any]], columns: TableColumns, path: Path) -> int:
    """Writes lines of `table_lines` as a Parquet file, and returns how many.

    Values of metadata and truth that are lists or objects, or of several types in one column, are written as JSON.

    Raises:
        WorkbenchError: pyarrow is not installed.
        UsageError: The path is that of a pipe.
        ProjectError: The file cannot be written.
    """
    types = {name: column_type(name, columns.fields.get(name)) for name in columns.names}
    return write_parquet(lines, types, path)


def column_type(name: str, values: Collection[type] | None = None) -> ColumnType:
    """Returns the type of a column of the table.

    Args:
        name: Name of the column.
        values: Types of the values, for a column that is a field of the metadata or of the truth.
    """
    if name in _FIXED_COLUMNS:
        return _FIXED_COLUMNS[name]
    return _TYPES.get(frozenset(values or ()) - {type(None)}, "text")


def _type(value: Any) -> type:
    """Returns the type of a value; `str` for a whole number that takes more than 64 bits."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return str
    return type(value)


def _flatten(path: _FieldPath, value: Any) -> Iterator[tuple[_FieldPath, Any]]:
    """Yields path and value of the fields of the object at a path, and of the objects in it.

    Lists are values; an empty object is left out.
    """
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flatten((*path, key), inner)
    elif value != {}:
        yield path, value


def _perplexity(log_probability: float | None) -> float | None:
    """Returns the perplexity that belongs to the mean log-probability of a token; None for None."""
    return None if log_probability is None else math.exp(min(-log_probability, _MAX_LOG_PERPLEXITY))
