"""The stage that measures KL(base || fine-tuned) at every boundary of conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.base.number_format import counted
from engine.completeness.boundaries import RULE, no_boundary_reason
from engine.completeness.records.divergences import Divergence
from engine.completeness.tables import divergences
from engine.conversations.logs import logs_of
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.blocks import blocks
from engine.jobs.contract import Progress
from engine.jobs.threaded_work import OnProgress
from engine.model.block_stage import BlockStage
from engine.model.model_work import RunModel
from engine.model.process.client import (
    ModelProcess,
)
from engine.project.project import Project


class DivergenceStage(BlockStage[int, tuple[int, Divergence]]):
    """Reads the conversations that were not measured with this adapter yet, each without and with it."""

    name = "divergence"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        *,
        selection: Selection = ALL,
    ) -> None:
        """Prepares a run; `model` has an adapter, and is of this machine. `selection`: the conversations to measure."""
        super().__init__(project, process, model)
        self.selection = selection
        self._tokens = self.measured = self.without = self.skipped = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        model = self._work.model
        return f"Comparing {model.label} without and with {model.adapter_name}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine a divergence."""
        return {"context": self._work.model.options.context, "boundaries": RULE}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Measures block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key, model = self.config_hash, self._work.model
        with self._project.reading() as conn:
            every = self.selection.ids(conn)
            missing = set(divergences.ids_without(conn, key)).intersection(every)
            chars = conversations.chars(conn, every)
        self.skipped = len(every) - len(missing)
        yield Progress(0, len(missing), "loading the model")
        # Not the copy of the weights with the adapter merged in, from which it cannot be taken off.
        self._work.process.load(model.path, model.options, model.adapter)
        adapter = model.adapter_name or ""
        self._project.write(lambda conn: divergences.register(conn, key, model.label, adapter))
        yield from self._in_blocks(run_id, blocks(every, chars), missing)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Measured {counted(self.measured, 'conversation')}"
        if self.without:
            text += f", {self.without:,} could not be read"
        if self.skipped:
            text += f", {self.skipped:,} were measured before"
        return f"{text}."

    def _progress(self, done: int, total: int, wanted: int, count: int) -> Progress:
        return Progress(done, total, f"{self._tokens + count:,} tokens read")

    def _key_of(self, entry: tuple[int, Divergence]) -> int:
        return entry[0]

    def _store(
        self, conn: sqlite3.Connection, run_id: int, entries: Sequence[tuple[int, Divergence]]
    ) -> None:
        divergences.add(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[tuple[int, Divergence]]) -> None:
        self._tokens += 2 * sum(one.tokens for _, one in entries)
        self.measured += sum(1 for _, one in entries if one.curve)
        self.without += sum(1 for _, one in entries if not one.curve)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[tuple[int, Divergence]]:
        logs = logs_of(self._project, block)
        readable = [log for log in logs if log.item.boundaries]
        adapter = self._work.model.adapter
        assert adapter is not None
        results = self._work.each(
            [log.item for log in readable],
            lambda items: self._work.process.divergences(items, adapter, report),
            lambda reason: Divergence((), 0, reason),
        )
        found = {log.id: result for log, result in zip(readable, results, strict=True)}
        entries = []
        for log in logs:
            none = Divergence((), 0, no_boundary_reason(log.pieces))
            result = found.get(log.id, none)
            curve = tuple((log.pieces[at].message, bits) for at, bits in result.curve)
            entries.append((log.id, replace(result, curve=curve)))
        return entries
