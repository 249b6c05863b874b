"""Which conversations a run works on."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain, islice

from engine.base.errors import UsageError
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.tables import conversations, selecting
from engine.jobs.contract import blocks


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of the conversations of a project; all of them by default.

    Attributes:
        filter: The conversations have to match it.
        names: Ids in their source, of which the conversations have to have one; None for any.
        limit: The most conversations, the first ones in id order; None for all.
        part: (n, of): of the blocks that these are decoded in every `of`-th, from the n-th on; None for all. So several
            machines share one job, and together read the same blocks as one machine would.
    """

    filter: Filter = field(default_factory=Filter)
    names: Collection[str] | None = None
    limit: int | None = None
    part: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)

    def ids(self, conn: sqlite3.Connection) -> array[int]:
        """Ids of the conversations, in id order."""
        ids = selecting.ids(conn, ListQuery(self.filter))
        if self.names is not None:
            ids = conversations.with_external_ids(conn, ids, self.names)
        ids = ids[: self.limit]
        if self.part is None:
            return ids
        number, of = self.part
        chars = conversations.chars(conn, ids)
        return array("q", chain.from_iterable(islice(blocks(ids, chars), number - 1, None, of)))


def check_limit(limit: int | None) -> None:
    """Refuses a limit that would count from the end.

    Raises:
        UsageError: It is negative.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"limit is {limit}.", "Give the most conversations, 0 or more, or None.")


ALL = Selection()
"""All conversations."""
