"""Sets of conversations with one byte for each id: a million take a megabyte and are combined in a millisecond."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import Any


def read_ids(conn: sqlite3.Connection, sql: str, values: Sequence[Any] = ()) -> array[int]:
    """Returns the integers of a query with one column, in its order, without making a list of a million rows."""
    return array("q", chain.from_iterable(conn.execute(sql, values)))


class IdSet:
    """A set of ids of conversations of one project. `every` makes the first set, and all others come from it.

    Attributes:
        flags: A byte for each id from 0 on: 1 where it is in the set, else 0.
    """

    def __init__(self, flags: bytes) -> None:
        """Makes a set of its flags; callers outside of this class use `every` and `of`."""
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
        """Returns the set whose flags, as many as those of this set, are an integer of `_number`."""
        return IdSet(number.to_bytes(len(self.flags), "little"))
