"""What all modules with tables share for SQL: ids of messages, times, pages and sets of ids, JSON, snapshots."""

from __future__ import annotations

import datetime
import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, compress
from typing import Any, TypeVar

from engine.base.conversation import MAX_MESSAGES

# Values as they are stored

MESSAGE_BITS = (MAX_MESSAGES - 1).bit_length()
"""Number of bits of the index of a message. The id of a message is the id of its conversation, shifted left by this
number of bits, plus the index."""


def message_ids(conversation_id: int) -> tuple[int, int]:
    """Returns the first and the last id that a message of a conversation can have."""
    first = conversation_id << MESSAGE_BITS
    return first, first + MAX_MESSAGES - 1


def utc_now() -> str:
    """Returns the present time in UTC with milliseconds, in the stored form: `2026-07-01T12:00:00.123Z`."""
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


to_json = json.JSONEncoder(separators=(",", ":")).encode
"""Returns a value as JSON in the form that is stored; ASCII, so that it is valid text whatever the value holds."""


# Queries

K = TypeVar("K")
"""A key of a table."""

CHUNK = 500
"""Number of keys in one IN list, far below SQLite's limit on variables."""


def chunks(keys: Sequence[K], size: int = CHUNK) -> Iterator[Sequence[K]]:
    """Yields the keys in their order in pieces of at most `size`, by default so many that they fit one IN list."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def id_pages(
    conn: sqlite3.Connection, ids: Sequence[int] | None = None, size: int = CHUNK
) -> Iterator[Sequence[int]]:
    """Yields ids of conversations in pages of at most `size`: the given ids in their order, or all ascending.

    Args:
        ids: The ids; None for those of all conversations.
        size: Most ids in a page.

    Raises:
        ValueError: The ids of a damaged file are out of order, so that their pages would never end.
    """
    if ids is not None:
        yield from chunks(ids, size)
        return
    last = 0
    while page := conn.execute(
        "SELECT id FROM conversation WHERE id > ? ORDER BY id LIMIT ?", (last, size)
    ).fetchall():
        page_ids = [key for (key,) in page]
        if page_ids[-1] <= last:
            raise ValueError("the ids of conversations are out of order")
        last = page_ids[-1]
        yield page_ids


def placeholders(values: Sequence[object]) -> str:
    """Returns a placeholder for each value: `?,?,?`."""
    return ",".join("?" * len(values))


def rows_in(
    conn: sqlite3.Connection,
    query: str,
    keys: Sequence[Any],
    values: Sequence[Any] = (),
    order: str = "",
) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query for keys, of which there may be more than fit one IN list.

    Args:
        query: The query up to and with the last word before the keys, `IN`.
        keys: The keys that a column is compared with.
        values: The parameters of the query that come before the keys.
        order: The clause behind the keys, `ORDER BY ...`; rows are ordered within each `CHUNK` of keys only.
    """
    for chunk in chunks(keys):
        yield from conn.execute(f"{query} ({placeholders(chunk)}) {order}", (*values, *chunk))


def read_ids(conn: sqlite3.Connection, sql: str, values: Sequence[Any] = ()) -> array[int]:
    """Returns the integers of a query with one column, in its order, without making a list of a million rows."""
    return array("q", chain.from_iterable(conn.execute(sql, values)))


def not_undone(table: str, act: str) -> str:
    """Returns an SQL condition that an act was not undone, or was redone after it was undone.

    Args:
        table: A table to which acts, undos and redos are appended; `target` of an undo or redo is the id of its act.
        act: SQL expression of the id of the act.
    """
    return (
        f"coalesce((SELECT act.kind FROM {table} AS act WHERE act.target = {act}"
        " ORDER BY act.id DESC LIMIT 1), 'redo') = 'redo'"
    )


@contextmanager
def snapshot(conn: sqlite3.Connection) -> Iterator[None]:
    """Makes all reads in the block see the same state of the file; joins a transaction that is already open."""
    if conn.in_transaction:
        yield
        return
    conn.execute("BEGIN")
    try:
        yield
    finally:
        conn.execute("ROLLBACK")


# Sets of conversations


class IdSet:
    """A set of ids of conversations of one project, with one byte for each id: a million take a megabyte and are
    combined in a millisecond. All sets of a project have equally many flags: `every` makes the first set, and the
    others are made of one.

    Attributes:
        flags: A byte for each id from 0 on: 1 where it is in the set, else 0.
    """

    def __init__(self, flags: bytes) -> None:
        """Makes a set of its flags."""
        self.flags = flags

    @classmethod
    def every(cls, conn: sqlite3.Connection) -> IdSet:
        """Returns the set of all conversations."""
        last, count = conn.execute(
            "SELECT (SELECT max(id) FROM conversation), (SELECT count(*) FROM conversation)"
        ).fetchone()
        if not count:
            return cls(b"")
        if last == count:  # the usual case: ids have no gaps
            return cls(b"\0" + b"\1" * count)
        return cls(bytes(1 + last)).of(read_ids(conn, "SELECT id FROM conversation"))

    def of(self, ids: Iterable[int]) -> IdSet:
        """Returns a new set with these ids, each of which must be the id of a conversation."""
        flags = bytearray(len(self.flags))
        for key in ids:
            flags[key] = 1
        return IdSet(bytes(flags))

    def __len__(self) -> int:
        return self.flags.count(1)

    def __and__(self, other: IdSet) -> IdSet:
        return self._from(self._number() & other._number())

    def __or__(self, other: IdSet) -> IdSet:
        return self._from(self._number() | other._number())

    def __sub__(self, other: IdSet) -> IdSet:
        # `~` gives a negative number, of which `&` keeps no more bits than this set has
        return self._from(self._number() & ~other._number())

    def condition(self, column: str) -> tuple[str, tuple[bytes, ...]]:
        """Returns an SQL condition that the conversation id in a column is in the set, and its parameters."""
        if len(self) == len(self.flags) - 1:  # all of them; 0 is no id
            return "TRUE", ()
        return f"substr(?, {column} + 1, 1) = x'01'", (self.flags,)

    def ascending(self) -> array[int]:
        """Returns the ids, smallest first."""
        return array("q", compress(range(len(self.flags)), self.flags))

    def _number(self) -> int:
        """Returns the flags as one long integer, whose bits the operators combine in one step."""
        return int.from_bytes(self.flags, "little")

    def _from(self, number: int) -> IdSet:
        """Returns the set whose flags are the bytes of an integer, as many as this set has."""
        return IdSet(number.to_bytes(len(self.flags), "little"))
