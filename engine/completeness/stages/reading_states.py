"""The stage that reads hidden states: the model reads each log once, and its state at every boundary is kept."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from random import Random
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.completeness.boundaries import BOUNDARY_RULE_VERSION, no_boundary_reason
from engine.completeness.conversation_logs import Log, OnMeasured, logs_of, noise_of
from engine.completeness.model_requests import Score
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE
from engine.completeness.scoring import ItemScore, LogItem, Question
from engine.completeness.tables import hidden_states
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.completeness.truncation import cut_at
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.stages import BlockStage
from engine.project import runs
from engine.project.project import Project

QUESTION = Question(None, states=True)
"""The log alone, without a prompt."""

TOKENS_PER_CHAR = 0.25
"""Tokens for each character of English messages, until the logs that were read tell."""


class ReadingStage(BlockStage[int, StateEntry]):
    """Reads the conversations whose hidden states are not kept yet.

    Blocks are read in an order that is drawn at random and always the same, so that what is read after some time is a
    random sample of blocks. As blocks are cut from all conversations, nothing is read twice when the rest is read.

    Attributes:
        growing: Set once conversations come and grow while the model stays loaded: then only what is new of them is
            read, on the cells (the cached computation of each token) that the model process kept. Their states differ
            from those of a block within the batch noise of the model.
        read: Conversations read in this run.
        skipped: Conversations of the selection that were read before this run.
    """

    name = "read"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        *,
        selection: Selection = ALL,
        measured: OnMeasured | None = None,
        seconds: float | None = None,
        ends: bool = False,
    ) -> None:
        """Prepares a run.

        Args:
            selection: The conversations to read.
            measured: Called with the model, its speed and its batch noise, if these were not measured before.
            seconds: Read for about so many seconds, but enough conversations for a probe; None reads all.
            ends: Read each conversation only at its last boundary and at one earlier one that is drawn, because a probe
                learns from both kinds; each with as much of the text before it as the context holds, without the
                system message.
        """
        super().__init__(project, process, model)
        self._selection, self._record_measurement, self._seconds = selection, measured, seconds
        self._only_ends = ends
        self.growing = False
        self.read = 0
        self.skipped = 0
        self._tokens_read = 0
        self._seconds_spent = 0.0
        # Characters of messages: of all conversations, of those read in this run and before it, and of the block that
        # is being read.
        self._total_chars = 0
        self._chars_read = 0
        self._chars_read_earlier = 0
        self._block_chars = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        what = "ends of logs" if self._only_ends else "conversations"
        return f"Reading {what} with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine a state."""
        params = {"context": self._work.model.options.context, "boundaries": BOUNDARY_RULE_VERSION}
        return {**params, "ends": True} if self._only_ends else params

    def waiting(self, conn: sqlite3.Connection) -> set[int]:
        """Returns the ids of the conversations that a run would read now."""
        missing = hidden_states.ids_without_states(conn, self.config_hash)
        return set(missing).intersection(self._selection.ids(conn))

    def run(self, run_id: int) -> Iterator[Progress]:
        """Reads block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded, or gives no hidden states.
            Cancelled: The run was cancelled.
        """
        with self._project.reading() as conn:
            missing = self.waiting(conn)
            # Blocks are cut from all conversations, so that those of a resumed run are the same. While conversations
            # grow, each is read on its own kept cells and the blocks do not matter.
            ids = sorted(missing) if self.growing else self._selection.ids(conn)
            chars_by_id = dict(zip(ids, conversations.chars(conn, ids), strict=True))
        self.skipped = len(ids) - len(missing)
        if not missing:
            return
        planned = [
            block
            for block in blocks(ids, [chars_by_id[key] for key in ids])
            if not missing.isdisjoint(block)
        ]
        Random(0).shuffle(planned)
        self._total_chars = max(1, sum(chars_by_id.values()))
        planned_chars = sum(chars_by_id[key] for block in planned for key in block)
        self._chars_read_earlier = self._total_chars - planned_chars
        total, share = len(missing), self._chars_read_earlier / self._total_chars
        note = "loading the model"
        yield Progress(0, None, note) if self._only_ends else Progress(0, total, note, share)
        self._work.load()
        noise_of(self._project, self._work, ids, self._record_measurement)
        model = self._work.model
        register = partial(
            hidden_states.register_config,
            config_hash=self.config_hash,
            model=model.label,
            adapter=model.adapter_name,
        )
        self._project.write(register)
        self._project.write(lambda conn: runs.count(conn, run_id, 0, len(missing)))
        yield from self._in_blocks(run_id, self._blocks_in_time(planned, chars_by_id), missing)

    def _blocks_in_time(
        self, planned: Sequence[Sequence[int]], chars_by_id: Mapping[int, int]
    ) -> Iterator[Sequence[int]]:
        """Yields the blocks that are likely to end before the time is over, and in any case enough for a probe.

        The caller reads each block before it asks for the next one, so that the time between is that of the block.
        """
        start = time.monotonic()
        for block in planned:
            self._block_chars = sum(chars_by_id[key] for key in block)
            seconds_with_block = self._seconds_spent * (
                1 + self._block_chars / max(1, self._chars_read)
            )
            enough = self.read + self.skipped >= MIN_CONVERSATIONS_FOR_PROBE
            if self._seconds is not None and enough and seconds_with_block > self._seconds:
                return
            yield block
            self._seconds_spent = time.monotonic() - start

    def tokens_per_second(self) -> float | None:
        """Returns the speed of this run in tokens per second, without loading the model; None where nothing was
        read."""
        if not self._tokens_read or self._seconds_spent <= 0:
            return None
        return self._tokens_read / self._seconds_spent

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        what = "the ends of " if self._only_ends else ""
        text = f"Read {what}{counted(self.read, 'conversation')} with {self._work.model.label}"
        if self.skipped:
            text += f", {self.skipped:,} were read before"
        return f"{text}."

    def _progress(self, done: int, total: int, missing: int, count: int) -> Progress:
        """Returns the progress when the block that is being read has read `count` tokens; its share is that of the
        characters, because conversations differ in length."""
        if self._only_ends:
            # How many will be read in time is not known.
            return Progress(done, None)
        tokens_per_char = (
            self._tokens_read / self._chars_read if self._chars_read else TOKENS_PER_CHAR
        )
        chars_of_block = min(count / tokens_per_char, self._block_chars) if tokens_per_char else 0.0
        chars_done = self._chars_read_earlier + self._chars_read + chars_of_block
        share = min(1.0, chars_done / self._total_chars)
        return Progress(done, total, f"{self._tokens_read + count:,} tokens read", share)

    def _key_of(self, entry: StateEntry) -> int:
        """Returns the id of the conversation of an entry."""
        return entry.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[StateEntry]) -> None:
        """Writes the states of a block, in the transaction that also counts it."""
        hidden_states.add(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[StateEntry]) -> None:
        """Counts a block after it was stored."""
        self.read += len(entries)
        self._tokens_read += sum(entry.tokens for entry in entries)
        self._chars_read += self._block_chars
        self._block_chars = 0

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[StateEntry]:
        """Reads a block of conversations; called on a thread of its own.

        Each log has one item, or two if only its ends are read; the results come in the order of the items.
        """
        logs = logs_of(self._project, block)
        readable = [log for log in logs if log.item.boundaries]
        items_by_log = [_end_items(log) if self._only_ends else [log.item] for log in readable]
        results = self._work.each(
            list(chain.from_iterable(items_by_log)),
            lambda items: self._work.process.ask(
                Score(items, QUESTION, growing=self.growing), report
            ),
            lambda reason: ItemScore((), 0, unscored=reason),
        )
        remaining_results = iter(results)
        by_id = {}
        for log, log_items in zip(readable, items_by_log, strict=True):
            log_results = [next(remaining_results) for _ in log_items]
            boundaries = [boundary for item in log_items for boundary in item.boundaries]
            score = self._join(log_results) if self._only_ends else log_results[0]
            by_id[log.id] = _entry(log, boundaries, score)
        return [by_id.get(log.id) or _entry_without_boundary(log) for log in logs]

    def _join(self, parts: Sequence[ItemScore]) -> ItemScore:
        """Returns the results of the items of a log as one, which is unscored if one of them is."""
        unscored = next((part.unscored for part in parts if part.states is None), None)
        if unscored is not None:
            return ItemScore((), 0, unscored=unscored)
        context = self._work.model.options.context or 0
        return ItemScore(
            tuple(point for part in parts for point in part.curve),
            sum(min(part.tokens, context) for part in parts),
            note=f"read at {len(parts)} of its places only, {context} tokens before each",
            states=np.concatenate([part.states for part in parts if part.states is not None]),
        )


def _end_items(log: Log) -> list[LogItem]:
    """Returns what is read of a log at one earlier boundary and at its last.

    They are two items, so that both windows are as long: the length of a window must not tell which is the last.
    """
    boundaries = log.item.boundaries
    # The seed is 0: the earlier boundary of a log is always the same.
    cut = cut_at(0, str(log.id), len(boundaries))
    ends = boundaries[-1:] if cut is None else (boundaries[cut], boundaries[-1])
    # `pinned_pieces` is 0: no system message is kept in front of a window.
    return [LogItem(log.item.texts[: end + 1], (end,), pinned_pieces=0) for end in ends]


def _entry_without_boundary(log: Log) -> StateEntry:
    """Returns the entry of a log that has no boundary, with the reason."""
    return StateEntry(
        log.id, places=(), states=b"", reason=no_boundary_reason(log.pieces), tokens=0
    )


def _entry(log: Log, boundaries: Sequence[int], score: ItemScore) -> StateEntry:
    """Returns the states at these boundaries of a log as they are stored, or the reason why there are none."""
    if score.states is None:
        return StateEntry(log.id, (), b"", score.unscored, score.tokens)
    chars = list(accumulate(len(piece.text) for piece in log.pieces))
    places = []
    for boundary in boundaries:
        piece = log.pieces[boundary]
        place = BoundaryPlace(
            piece.message, piece.step, piece.turn, chars[boundary], len(piece.text)
        )
        places.append(place)
    states = score.states.astype("<f2").tobytes()
    return StateEntry(log.id, tuple(places), states, score.note, score.tokens)
