"""The stage that reads hidden states: the model reads each log once, and its state at every boundary is kept."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any

from engine.completeness.block import ItemScore, Question
from engine.completeness.boundaries import RULE
from engine.jobs.contract import Progress
from engine.records.scores import LEAST_FOR_PROBE
from engine.stages.block_stage import BlockStage
from engine.stages.blocks import blocks
from engine.stages.logs import NO_BOUNDARY, Log, Measured, logs_of, measured_noise
from engine.stages.model_work import RunModel
from engine.stages.selection import ALL, Selection
from engine.store import conversations, hidden_states, runs
from engine.store.hidden_states import BoundaryPlace, StateEntry
from engine.store.project import Project
from engine.worker.client import ModelProcess, OnProgress

QUESTION = Question(None, states=True)
"""The log alone, without a prompt."""

TOKENS_PER_CHAR = 0.4
"""Tokens for each character of the messages, headers and calls included, until the logs that were read tell."""


class ReadingStage(BlockStage[int, StateEntry]):
    """Reads the conversations whose hidden states are not kept yet.

    Blocks are read in an order that is drawn at random and always the same, so that what is read after some time is a
    random sample of blocks. As blocks are cut from all conversations, nothing is read twice when the rest is read.
    """

    name = "read"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        *,
        selection: Selection = ALL,
        measured: Measured | None = None,
        seconds: float | None = None,
    ) -> None:
        """Prepares a run.

        Args:
            selection: The conversations to read.
            measured: See `Measured`.
            seconds: Read for about so many seconds, but enough conversations for a probe; None reads all.
        """
        super().__init__(project, process, model)
        self._selection, self._measured, self._seconds = selection, measured, seconds
        self._tokens = self.read = self.skipped = 0
        self._chars = self._chars_read = self._chars_before = self._block = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Reading conversations with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine a state."""
        return {"context": self._work.model.options.context, "boundaries": RULE}

    def waiting(self, conn: sqlite3.Connection) -> set[int]:
        """Ids of the conversations that a run would read now."""
        missing = hidden_states.ids_without_states(conn, self.config_hash)
        return set(missing).intersection(self._selection.ids(conn))

    def run(self, run_id: int) -> Iterator[Progress]:
        """Reads block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded, or gives no hidden states.
            Cancelled: `interrupt` was called.
        """
        with self._project.reading() as conn:
            every = self._selection.ids(conn)
            missing = self.waiting(conn)
            chars = {row.id: row.chars for row in conversations.rows(conn, every)}
        self.skipped = len(every) - len(missing)
        if not missing:
            return
        planned = [
            block
            for block in blocks(every, [chars[key] for key in every])
            if not missing.isdisjoint(block)
        ]
        Random(0).shuffle(planned)
        self._chars = max(1, sum(chars.values()))
        self._chars_before = self._chars - sum(chars[key] for one in planned for key in one)
        yield Progress(0, len(missing), "loading the model", self._chars_before / self._chars)
        self._work.load()
        measured_noise(self._project, self._work, every, self._measured)
        model = self._work.model
        register = partial(
            hidden_states.register,
            config_hash=self.config_hash,
            model=model.label,
            adapter=model.adapter_name,
        )
        self._project.write(register)
        self._project.write(lambda conn: runs.count(conn, run_id, 0, len(missing)))
        yield from self._in_blocks(run_id, self._in_time(planned, chars), missing)

    def _in_time(
        self, planned: Sequence[Sequence[int]], chars: Mapping[int, int]
    ) -> Iterator[Sequence[int]]:
        """The blocks that are likely to end before the time is over, and in any case enough of them for a probe."""
        start = time.monotonic()
        for block in planned:
            self._block = sum(chars[key] for key in block)
            if self._seconds is not None and self.read + self.skipped >= LEAST_FOR_PROBE:
                spent = time.monotonic() - start
                if spent * (1 + self._block / max(1, self._chars_read)) > self._seconds:
                    return
            yield block

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Read {self.read:,} conversations with {self._work.model.label}"
        if self.skipped:
            text += f", {self.skipped:,} were read before"
        return f"{text}."

    def _progress(self, done: int, total: int, wanted: int, count: int) -> Progress:
        per_char = self._tokens / self._chars_read if self._chars_read else TOKENS_PER_CHAR
        of_block = min(count / per_char, self._block) if per_char else 0.0
        share = (self._chars_before + self._chars_read + of_block) / self._chars
        return Progress(done, total, f"{self._tokens + count:,} tokens read", min(1.0, share))

    def _key_of(self, entry: StateEntry) -> int:
        return entry.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[StateEntry]) -> None:
        hidden_states.add(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[StateEntry]) -> None:
        self.read += len(entries)
        self._tokens += sum(entry.tokens for entry in entries)
        self._chars_read += self._block
        self._block = 0

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[StateEntry]:
        logs = logs_of(self._project, block)
        readable = [log for log in logs if log.item.boundaries]
        results = self._work.each(
            [log.item for log in readable],
            lambda items: self._work.process.score(items, QUESTION, report),
            lambda reason: ItemScore((), 0, unscored=reason),
        )
        by_id = {log.id: result for log, result in zip(readable, results, strict=True)}
        return [_entry(log, by_id.get(log.id)) for log in logs]


def _entry(log: Log, found: ItemScore | None) -> StateEntry:
    if found is None:
        return StateEntry(log.id, (), b"", NO_BOUNDARY, 0)
    if found.states is None:
        return StateEntry(log.id, (), b"", found.unscored, found.tokens)
    so_far = list(accumulate(len(piece.text) for piece in log.pieces))
    places = []
    for point in found.curve:
        piece = log.pieces[point.boundary]
        place = BoundaryPlace(
            piece.message, piece.step, piece.turn, so_far[point.boundary], len(piece.text)
        )
        places.append(place)
    return StateEntry(
        log.id, tuple(places), found.states.astype("<f2").tobytes(), found.note, found.tokens
    )
