"""The stage that reads the signs of trouble of conversations."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.base.number_format import counted
from engine.base.sign import Sign, SignReading
from engine.conversations.tables.conversations import messages_of
from engine.jobs.contract import CpuStage, Progress
from engine.project.project import Project
from engine.signs import tables
from engine.signs.reading import read_signs

CONVERSATIONS_PER_BATCH = 500
"""Number of conversations whose signs are stored in one transaction."""


class SignStage(CpuStage):
    """Reads the signs of every conversation that was not read in its present text and way, then compares all.

    Attributes:
        read: Number of the conversations read.
        counts: Number of the conversations of the project with each sign.
        with_signs, total: Number of those with any, and of all.
    """

    name = "signs"
    title = "Looking for signs of trouble"

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        super().__init__(project)
        self.counts: Counter[Sign] = Counter()
        self.read = self.with_signs = self.total = 0

    @property
    def params(self) -> Mapping[str, Any]:
        """Empty: nothing can be chosen."""
        return {}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits signs batch by batch, then the trouble of all.

        Raises:
            Cancelled: `interrupt` was called.
        """
        if self._project.read(tables.is_outdated):
            self._project.write(tables.forget_outdated)
        ids = self._project.read(tables.unread_ids)
        for progress in self._run_batches(
            run_id, ids, CONVERSATIONS_PER_BATCH, self._read_signs, tables.put
        ):
            self.read = progress.done
            yield progress
        is_compared = self._project.read(tables.is_compared)
        if not is_compared:
            yield Progress(len(ids), len(ids), "comparing")
            self._project.write(tables.compare)
        self.total, self.with_signs, self.counts = self._project.read(tables.counts)

    def summary(self) -> str:
        """Returns how many conversations of the project have which signs, in one sentence."""
        signs = ", ".join(f"{sign} {count:,}" for sign, count in self.counts.most_common())
        return (
            f"Signs of trouble in {self.with_signs:,} of {counted(self.total, 'conversation')}"
            + (f": {signs}." if signs else ".")
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the counts as JSON values."""
        return {
            "read": self.read,
            "conversations": self.total,
            "with_signs": self.with_signs,
            "by_sign": dict(self.counts),
        }

    def _read_signs(
        self, conn: sqlite3.Connection, ids: Sequence[int]
    ) -> dict[int, list[SignReading]]:
        """Returns the signs of each conversation."""
        signs_by_id = {}
        for key in ids:
            self._raise_if_cancelled()
            signs_by_id[key] = read_signs(messages_of(conn, key))
        return signs_by_id
