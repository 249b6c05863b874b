"""The stages that read hidden states: the model reads each log once, and its state at every boundary is kept.

`ReadingStage` only reads; `RefiningStage` also fits the probe to words and states at each doubling of what is read.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Protocol

from engine.base.errors import Cancelled
from engine.base.number_format import counted
from engine.completeness.boundaries import BOUNDARY_RULE_VERSION
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE
from engine.completeness.scoring import ItemScore, Question
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.scoring import Log, OnMeasured, logs_of, noise_of, score_logs
from engine.completeness.tables import hidden_states, scores
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import Lane, OnProgress, Progress, Stage, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.stages import BlockStage
from engine.project import runs
from engine.project.project import Project

QUESTION = Question(None, states=True)
"""The log alone, without a prompt."""

FIRST_READ = 50
"""Number of conversations after which the probe is fitted to states first, and again at each doubling."""

TOKENS_PER_CHAR = 0.25
"""Tokens for each character of English messages; used until some logs were read."""


class ReadingStage(BlockStage[int, StateEntry]):
    """Reads the conversations whose hidden states are not kept yet.

    They are read in the order in which the states are likely to change the score most: first those without a score by
    words, then those whose words leave it open at which boundary they end. Those that are equal in this have an order
    that is drawn at random and always the same. Blocks are cut from all conversations, so that a resumed run has the
    same blocks as long as the scores by words are the same.

    Attributes:
        growing: True while logs are followed, which `engine.results.watch` sets: conversations come and grow while the
            model stays loaded, and blocks are cut only from those that are not read yet. Their states differ from those
            of other blocks within the batch noise of the model.
        minutes: Time that a run may take, in minutes; it reads enough conversations for a probe in any case. None has
            no limit.
        read: Number of conversations read in this run.
        skipped: Number of conversations of the selection that were read before this run.
    """

    name = "read"
    work_title = "Reading conversations"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        *,
        selection: Selection = ALL,
        on_measured: OnMeasured | None = None,
        minutes: int | None = None,
        words_key: Callable[[], str] = lambda: "",
    ) -> None:
        """Prepares a run.

        Args:
            selection: The conversations to read.
            on_measured: Called with the model, its speed and its batch noise, if these were not measured before.
            words_key: Returns the config hash of scores by words, empty without any; called when the stage starts.
        """
        super().__init__(project, process, model)
        self._selection, self._on_measured = selection, on_measured
        self.minutes, self._words_key = minutes, words_key
        self.growing = False
        self.read = 0
        self.skipped = 0
        self._tokens_read = 0
        # Characters of messages: of all conversations, of those read in this run and before it, and of the block that
        # is being read.
        self._total_chars = 0
        self._chars_read = 0
        self._chars_read_earlier = 0
        self._block_chars = 0
        # In seconds: what the blocks of this run took, and when the one that is being read began.
        self._seconds_spent = self._block_begin = 0.0

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine a state."""
        return {"context": self._work.model.options.context, "boundaries": BOUNDARY_RULE_VERSION}

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
            ids = sorted(missing) if self.growing else self._in_order(conn)
            chars_by_id = dict(zip(ids, conversations.chars(conn, ids), strict=True))
        self.skipped = len(ids) - len(missing)
        if not missing:
            return
        planned = [
            block
            for block in blocks(ids, [chars_by_id[key] for key in ids])
            if not missing.isdisjoint(block)
        ]
        self._total_chars = max(1, sum(chars_by_id.values()))
        planned_chars = sum(chars_by_id[key] for block in planned for key in block)
        self._chars_read_earlier = self._total_chars - planned_chars
        share = self._chars_read_earlier / self._total_chars
        yield Progress(0, len(missing), "loading the model", share)
        self._work.load()
        noise_of(self._project, self._work, ids, self._on_measured)
        model = self._work.model
        register = partial(
            hidden_states.register_config,
            config_hash=self.config_hash,
            model=model.label,
            adapter=model.adapter_name,
        )
        self._project.write(register)
        self._project.write(lambda conn: runs.count(conn, run_id, 0, len(missing)))
        yield from self._in_blocks(run_id, self._blocks_within_time(planned, chars_by_id), missing)

    def _in_order(self, conn: sqlite3.Connection) -> list[int]:
        """Returns the ids of the selected conversations in the order of reading; see the class."""
        ids = list(self._selection.ids(conn))
        Random(0).shuffle(ids)
        # All boundaries count alike. An order by the last boundary alone would select logs with doubtful ends but
        # ordinary other boundaries; the probe would learn this difference and score ends too high (docs/lab/words.md).
        distance = scores.mean_distances_from_even(conn, self._words_key())
        # Where there is no score the words say nothing at all.
        return sorted(ids, key=lambda key: distance.get(key, 0.0))

    def _blocks_within_time(
        self, planned: Sequence[Sequence[int]], chars_by_id: Mapping[int, int]
    ) -> Iterator[Sequence[int]]:
        """Yields the blocks as long as they are likely to end within `minutes`; in any case enough for a probe.

        The caller reads each block before it asks for the next one, so that the time between is that of the block.
        """
        for block in planned:
            self._block_chars = sum(chars_by_id[key] for key in block)
            expected = self._seconds_spent * self._block_chars / max(1, self._chars_read)
            has_enough = self.read + self.skipped >= MIN_CONVERSATIONS_FOR_PROBE
            limit = math.inf if self.minutes is None else 60 * self.minutes
            if has_enough and self._seconds_spent + expected > limit:
                return
            self._block_begin = time.monotonic()
            yield block
            self._seconds_spent += time.monotonic() - self._block_begin

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Read {counted(self.read, 'conversation')} with {self._work.model.label}"
        if self.skipped:
            text += f", {self.skipped:,} were read before"
        return f"{text}."

    def _progress(self, done: int, total: int, missing: int, count: int) -> Progress:
        """Returns the progress when the block that is being read has read `count` tokens; `missing` is not used.

        Its share is that of the characters, because conversations differ in length. Where the time runs out first, it
        is the share of the time.
        """
        tokens_per_char = (
            self._tokens_read / self._chars_read if self._chars_read else TOKENS_PER_CHAR
        )
        chars_of_block = min(count / tokens_per_char, self._block_chars) if tokens_per_char else 0.0
        chars_done = self._chars_read_earlier + self._chars_read + chars_of_block
        share = min(1.0, chars_done / self._total_chars)
        if self.minutes is not None:
            spent = self._seconds_spent
            if self._block_chars:
                spent += time.monotonic() - self._block_begin
            share = max(share, min(1.0, spent / (60 * self.minutes)))
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
        """Reads a block of conversations; called on a thread of its own."""
        logs = logs_of(self._project, block)
        item_scores = score_logs(self._work, logs, QUESTION, report)
        return [_entry(log, score) for log, score in zip(logs, item_scores, strict=True)]


def _entry(log: Log, score: ItemScore) -> StateEntry:
    """Returns the states of a log as they are stored, or the reason why there are none."""
    if score.states is None:
        return StateEntry(log.id, places=(), states=b"", reason=score.unscored, tokens=score.tokens)
    places = BoundaryPlace.in_log(log.pieces, log.item.boundaries)
    states = score.states.astype("<f2").tobytes()
    return StateEntry(log.id, places, states, score.note, score.tokens)


class MakeFit(Protocol):
    """Makes the stage of one fit to what is read when it starts."""

    def __call__(self, *, required: bool) -> FittingStage:
        """Returns the stage; `required` is whether it is an error that there are too few conversations."""


class RefiningStage(Stage):
    """Reads conversations, and fits the probe anew to what is read.

    Scores by words, where the probe reads them, are there before, so each fit changes what is shown. A run that is
    cancelled fits once more, so that nothing it read is in vain. A second cancel leaves out that fit, and the next run
    does it. Ctrl+C (`KeyboardInterrupt`) does what the first cancel does.

    Attributes:
        _fit: The stage of the last fit; None before the first.
        _cancels: Number of calls of `interrupt`.
    """

    name = "read"
    lane: Lane = "model"

    def __init__(
        self,
        reading: ReadingStage,
        make_fit: MakeFit,
        *,
        while_reading: bool,
    ) -> None:
        """Prepares a run.

        Args:
            make_fit: Makes the stage of one fit; the fit is a part of this run.
            while_reading: Whether to fit at each doubling; else only at the end.
        """
        self._reading, self._make_fit, self._while_reading = reading, make_fit, while_reading
        self._fit: FittingStage | None = None
        self._cancels = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return self._reading.title

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the states, and what is fitted to them."""
        return {**self._reading.params, **self._make_fit(required=True).method}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model."""
        return self._reading.fingerprints

    def run(self, run_id: int) -> Iterator[Progress]:
        """Reads block by block, and fits between blocks.

        Raises:
            ModelError: The model cannot be loaded, or gives no hidden states.
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model.
            Cancelled: The run was cancelled; what was read is kept, and after a single cancel the scores rest on it.
        """
        reading = self._reading
        last_progress = Progress(0, None)
        fitted_count: int | None = None
        try:
            for last_progress in reading.run(run_id):
                yield last_progress
                read_count = reading.read + reading.skipped
                # What an earlier run read is fitted to already; only the first progress says how much that is.
                fitted_count = reading.skipped if fitted_count is None else fitted_count
                # After the last block comes the fit at the end.
                if (
                    self._while_reading
                    and _passes_doubling(fitted_count, read_count)
                    and last_progress.done != last_progress.total
                ):
                    fitted_count = read_count
                    yield from self._run_fit(run_id, last_progress, required=False)
        except (Cancelled, KeyboardInterrupt):
            for stage in (reading, self._fit):
                if stage is not None:  # what it does on a thread would go on
                    stage.interrupt()
            if self._cancels < 2 and reading.read:
                note = "the scores are fitted to what was read; cancel again to leave that out"
                yield replace(last_progress, result=f"Reading was cancelled: {note}.", note=note)
                yield from self._run_fit(run_id, last_progress, required=False)
            raise Cancelled("The work was cancelled.") from None
        yield from self._run_fit(run_id, last_progress, required=True)

    def _run_fit(self, run_id: int, last: Progress, *, required: bool) -> Iterator[Progress]:
        """Fits to what is read, and yields the last progress of reading with a note, and at the end with the result.

        Raises:
            NotYet: There are too few conversations for a probe, and this is required.
            Cancelled: The run was cancelled.
        """
        self._fit = fit = self._make_fit(required=required)
        progress = None
        for progress in fit.run(run_id):
            yield replace(last, note=progress.note or "fitting the probe")
        if progress is not None:  # else the scores were stored before
            yield replace(last, note="", result=fit.summary())

    def interrupt(self) -> None:
        """Ends reading, so that what was read is fitted to; the second time ends that fit."""
        self._cancels += 1
        self._reading.interrupt()
        if self._cancels > 1 and self._fit is not None:
            self._fit.interrupt()

    def summary(self) -> str:
        """Returns how many conversations were read, and the result of the last fit, in two sentences."""
        fitted = "" if self._fit is None else f" {self._fit.summary()}"
        return f"{self._reading.summary()}{fitted}"


def _passes_doubling(before: int, now: int) -> bool:
    """Returns whether a number that grows from `before` to `now` reaches `FIRST_READ`, or a doubling of it."""
    return (before // FIRST_READ).bit_length() < (now // FIRST_READ).bit_length()
