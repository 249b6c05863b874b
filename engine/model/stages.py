"""Base classes of stages that ask a model, and the stage that tunes one: it finds the fastest faithful format of the
weights on this machine.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypeVar

from engine.jobs.contract import OnProgress, Progress, ThreadedWork, config_hash
from engine.model.catalog import Catalog, LoadableModel, ModelEntry
from engine.model.model_work import ModelWork
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tune
from engine.project import runs
from engine.project.project import Project


class TuningStage:
    """Tunes one model and stores the result in the catalogue."""

    name = "tune"
    lane: Literal["model", "cpu"] = "model"
    unit = "steps"

    def __init__(
        self,
        process: ModelProcess,
        catalog: Catalog,
        entry: ModelEntry,
        text: str,
        models: Sequence[LoadableModel] = (),
    ) -> None:
        """Prepares a run.

        Args:
            text: Text of some thousand tokens to measure on.
            models: The models of the stages that follow; their file is replaced by the tuned one.
        """
        self._catalog, self._entry, self._text = catalog, entry, text
        self._process, self._models = process, models
        self.result: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        found = f"Finding the fastest format of {self._entry.name} for this machine"
        drift = self._catalog.drift(self._entry)
        if drift is None:
            return f"{found}, once"
        then, now = drift
        return f"{found} again: it reads {now:,.0f} tokens/s, and {then:,.0f} when the format was chosen"

    @property
    def params(self) -> Mapping[str, Any]:
        """The model to tune."""
        return {"model": self._entry.name}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """SHA-256 of the file to tune."""
        return {"model_sha256": self._catalog.sha256(self._entry.path)}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Measures the candidates in the model process.

        Raises:
            ModelError: The weights cannot be loaded or written in another format.
            Cancelled: `interrupt` was called.
        """
        steps = 0
        tuning = ThreadedWork(
            lambda report: self._process.ask(
                Tune(self._entry.path, self._catalog.cache, self._text), report
            )
        )
        for _, note in tuning.reports():
            yield Progress(steps, None, note)
            steps += 1
        self.result = tuning.result()
        self._catalog.record_tuning(self._entry, self.result)
        tuned_entry = replace(self._entry, tuning=self.result)
        for model in self._models:
            model.become(self._catalog.loadable(tuned_entry, model.adapter))
        yield Progress(steps, steps)

    def interrupt(self) -> None:
        """Cancels the measurement; nothing is stored."""
        self._process.cancel()

    def summary(self) -> str:
        """The result in one sentence."""
        if self.result is None:
            return "Nothing was kept."
        result = self.result
        note = (
            "" if result["settled"] else " Other formats were as fast: the measurements disagree."
        )
        if result["chosen"] == "as is":
            return f"{self._entry.name} is fastest as it is: {result['tokens_per_s']:,.0f} tokens/s.{note}"
        return (
            f"{self._entry.name} runs as {result['chosen']} at {result['tokens_per_s']:,.0f} tokens/s,"
            f" {result['gain']:.1f} times as fast as the file as shipped.{note}"
        )


Key = TypeVar("Key", bound=Hashable)


Entry = TypeVar("Entry")


class ModelStage(ABC):
    """A stage whose answers come from a model; a `engine.jobs.contract.Stage` once it has a `run` and a `summary`."""

    name: ClassVar[str]
    unit: ClassVar[str] = "conversations"
    lane: ClassVar[Literal["model", "cpu"]] = "model"

    def __init__(self, project: Project, process: ModelProcess, model: LoadableModel) -> None:
        self._project = project
        self._work = ModelWork(process, model)

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the run, for screens and logs."""

    @property
    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the results, without the selection of items."""

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model."""
        return self._work.model.fingerprints

    @property
    def config_hash(self) -> str:
        """The key under which this stage stores its results."""
        return config_hash(self.name, self.params, self.fingerprints)

    def interrupt(self) -> None:
        """Ends the request in flight; results that are not committed are dropped."""
        self._work.interrupt()


class BlockStage(ModelStage, Generic[Key, Entry]):
    """A stage that answers items block by block, each block one transaction together with the run's counter.

    Blocks are planned from all items in their fixed order, including those already answered, so that a run that is
    resumed after a crash uses the same batches and gets the same bits.
    """

    @abstractmethod
    def _answer(self, block: Sequence[Key], report: OnProgress) -> list[Entry]:
        """Answers a whole block; runs on a thread of its own."""

    @abstractmethod
    def _key_of(self, entry: Entry) -> Key:
        """The item that an entry belongs to."""

    @abstractmethod
    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[Entry]) -> None:
        """Writes entries that are not stored yet."""

    @abstractmethod
    def _tally(self, entries: Sequence[Entry]) -> None:
        """Counts committed entries for the summary."""

    def _progress(self, done: int, total: int, wanted: int, count: int) -> Progress:
        """The progress of the run when a block with `wanted` items reports `count` items."""
        return Progress(done + min(count, wanted), total)

    def _in_blocks(
        self, run_id: int, blocks: Iterable[Sequence[Key]], missing: AbstractSet[Key]
    ) -> Iterator[Progress]:
        """Answers each block that holds a missing item and commits the missing ones of it.

        Raises:
            Cancelled: `interrupt` was called.
            ModelError: The model cannot answer.
        """
        done, total = 0, len(missing)
        for block in blocks:
            wanted = missing & set(block)
            if not wanted:
                continue
            self._work.check()
            found: list[Entry] = []
            for count, _ in self._work.live(partial(self._answer, block), found.extend):
                yield self._progress(done, total, len(wanted), count)
            entries = [entry for entry in found if self._key_of(entry) in wanted]
            done += len(wanted)
            self._project.write(
                partial(self._commit, run_id=run_id, entries=entries, done=done, total=total)
            )
            self._tally(entries)
            yield self._progress(done, total, 0, 0)

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        run_id: int,
        entries: Sequence[Entry],
        done: int,
        total: int,
    ) -> None:
        self._store(conn, run_id, entries)
        runs.count(conn, run_id, done, total)
