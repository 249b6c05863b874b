"""Base classes of stages that ask a model: `ModelStage`, and `BlockStage`, which loops over blocks of items."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypeVar

from engine.jobs.contract import OnProgress, Progress, config_hash
from engine.model.model_work import ModelWork, RunModel
from engine.model.process.process import (
    ModelProcess,
)
from engine.project import runs
from engine.project.project import Project

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class ModelStage(ABC):
    """A stage whose answers come from a model; a `engine.jobs.contract.Stage` once it has a `run` and a `summary`."""

    name: ClassVar[str]
    unit: ClassVar[str] = "conversations"
    lane: ClassVar[Literal["model", "cpu"]] = "model"

    def __init__(self, project: Project, process: ModelProcess, model: RunModel) -> None:
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
