"""Defines what a stage is, cuts conversations into blocks, and runs work on a thread that reports its progress.

A *stage* is one kind of long work, such as an import; a *run* is one execution of it. A *block* is a few conversations
that are worked on together. The jobs of `engine.jobs.runner` run stages; the subclasses of `Stage` are in the modules
`stages` of each subject.
"""

from __future__ import annotations

import hashlib
import json
import queue
import resource
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from engine.base.errors import Cancelled, OutOfMemory
from engine.base.number_format import counted
from engine.project import runs
from engine.project.project import Project

Lane = Literal["model", "cpu"]
"""The queue in which a stage waits. Stages of one lane run one after another; two lanes run at the same time."""

HASH_DIGITS = 16
"""Number of hexadecimal digits of a config hash."""

LEAST_ITEMS, MOST_ITEMS = 4, 16
"""Fewest conversations of a block (unless it is the last one), and most."""

BLOCK_CHARS = 32_000
"""Number of characters from which a block takes no more conversations, once it has `LEAST_ITEMS`."""

ADDRESS_SPACE_BYTES = 560 << 20
"""Address space that a computation needs, besides that of the threads of OpenBLAS; 460 MiB were measured. With a little
less OpenBLAS waits forever for a buffer, or ends the process."""

ADDRESS_SPACE_BYTES_PER_THREAD = 80 << 20
"""Address space that each thread of OpenBLAS needs, as measured."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage after a batch.

    Attributes:
        done: How much is done, in the unit of the stage.
        total: How much there is to do, in that unit; None while it is unknown.
        note: What is being worked on, a few words.
        share: Share of the whole work that is done, 0 to 1, where the units differ in size; None for `done / total`.
        result: A sentence on a result that was reached with this batch; empty for none.
    """

    done: int
    total: int | None
    note: str = ""
    share: float | None = None
    result: str = ""


def config_hash(stage_name: str, params: Mapping[str, Any], fingerprints: Mapping[str, Any]) -> str:
    """Returns the key under which results are stored: a hash of everything that determines them, `HASH_DIGITS` long."""
    canonical = json.dumps(
        [stage_name, dict(params), dict(fingerprints)],
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:HASH_DIGITS]


class Stage(ABC):
    """One kind of long work with its parameters; each call of `run` is one run of it.

    Attributes:
        name: Name of the stage in run records, such as `import`.
        lane: The queue in which the stage waits.
    """

    name: str
    lane: Lane = "cpu"

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the stage on screens and in progress lines, such as `Importing star.jsonl.gz`."""

    @property
    def unit(self) -> str:
        """What the progress of the stage counts, such as `bytes`."""
        return "conversations"

    @property
    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result, as JSON values."""

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """What determines the result besides the parameters, such as the model, as JSON values."""
        return {}

    @property
    def config_hash(self) -> str:
        """The key under which the stage stores its results."""
        return config_hash(self.name, self.params, self.fingerprints)

    @abstractmethod
    def run(self, run_id: int) -> Iterator[Progress]:
        """Does the work and yields the progress after each batch of bounded size.

        A batch is committed in one transaction with the counter of the run `run_id`.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """Makes `run` raise Cancelled soon, also out of a blocking call; another thread calls this.

        A stage may first make use of the results that it has; a second call ends that too.
        """

    @abstractmethod
    def summary(self) -> str:
        """Returns the result in one sentence with counts; the stage may have been cancelled before."""


def blocks(ids: Sequence[int], chars: Sequence[int]) -> Iterator[list[int]]:
    """Cuts conversations into blocks and yields the ids of each block.

    A block is complete with `MOST_ITEMS` conversations, or with at least `LEAST_ITEMS` that have `BLOCK_CHARS`
    characters together. The last block may be smaller.

    Args:
        ids: Ids of conversations, in the order in which they are cut.
        chars: Number of characters of each.
    """
    block: list[int] = []
    block_chars = 0
    for conversation_id, length in zip(ids, chars, strict=True):
        block.append(conversation_id)
        block_chars += length
        if len(block) == MOST_ITEMS or (len(block) >= LEAST_ITEMS and block_chars >= BLOCK_CHARS):
            yield block
            block, block_chars = [], 0
    if block:
        yield block


OnProgress = Callable[[int, str], None]
"""A callback that takes how much is done, and a note on what is being done; they may be 0 and empty."""


Result = TypeVar("Result")
"""What a piece of work returns."""


class ThreadedWork(Generic[Result]):
    """Runs blocking work on a thread and passes on its progress reports."""

    def __init__(self, work: Callable[[OnProgress], Result]) -> None:
        """Starts `work` on a thread; it is called with the callback to which it reports."""
        self._reports: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._result: Future[Result] = Future()

        def run_work() -> None:
            """Does the work on the thread; None ends its reports."""
            try:
                self._result.set_result(work(lambda count, note: self._reports.put((count, note))))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                self._result.set_exception(error)
            finally:
                self._reports.put(None)

        threading.Thread(target=run_work, name="stage-work", daemon=True).start()

    def reports(self) -> Iterator[tuple[int, str]]:
        """Yields the count and the note of each report until the work ends."""
        while (report := self._reports.get()) is not None:
            yield report

    def result(self) -> Result:
        """Waits for the end of the work, and returns what it returned or raises what it raised."""
        return self._result.result()


class CpuStage(Stage):
    """A stage that needs no model."""

    def __init__(self, project: Project) -> None:
        """Prepares the stage; nothing runs yet."""
        self._project = project
        self._interrupted = threading.Event()
        # sends a report, so that `_run_on_thread` wakes up and notices the interrupt; None before the thread starts
        self._wake: OnProgress | None = None

    def interrupt(self) -> None:
        """Makes the stage abandon its computation; results that are not committed are dropped."""
        self._interrupted.set()
        if self._wake is not None:
            self._wake(0, "")

    def _raise_if_cancelled(self) -> None:
        """Raises Cancelled if `interrupt` was called."""
        if self._interrupted.is_set():
            raise Cancelled("The work was cancelled.")

    def _run_batches(
        self,
        run_id: int,
        ids: Sequence[int],
        size: int,
        read: runs.ReadBatch[Result],
        put: runs.PutBatch[Result],
    ) -> Iterator[Progress]:
        """Works on conversations batch by batch, commits each batch with the counter of the run, and yields progress.

        Args:
            ids: Ids of the conversations.
            size: Number of conversations in a batch.
            read: Returns the results for the conversations of a batch.
            put: Stores these results.

        Raises:
            Cancelled: `interrupt` was called.
        """
        for start in range(0, len(ids), size):
            self._raise_if_cancelled()
            batch = self._project.read(read, ids[start : start + size])
            done = min(start + size, len(ids))
            counter = run_id, done, len(ids)
            self._project.write(partial(runs.put_batch, put=put, batch=batch, counter=counter))
            yield Progress(done, len(ids))

    def _run_on_thread(
        self, work: Callable[[OnProgress], Result], progress: Callable[[int, str], Progress]
    ) -> Generator[Progress, None, Result]:
        """Runs `work` on a thread of its own, yields the progress at each of its reports, and returns its result.

        Native code cannot be stopped, so after `interrupt` the thread runs on and its result is dropped.

        Args:
            work: Called with a callback for reports, which raises Cancelled after `interrupt`.
            progress: Returns the progress of the stage from the count and the note of a report.

        Raises:
            Cancelled: `interrupt` was called.
            OutOfMemory: The limit on the address space of the process is too low for a computation.
        """
        _check_address_space()

        def run_work(report: OnProgress) -> Result:
            """Does the work with a callback that stops it after `interrupt`."""
            self._wake = report
            self._raise_if_cancelled()

            def report_unless_cancelled(count: int, note: str) -> None:
                """Passes a report on, or raises Cancelled."""
                self._raise_if_cancelled()
                report(count, note)

            return work(report_unless_cancelled)

        threaded_work = ThreadedWork(run_work)
        for report in threaded_work.reports():
            self._raise_if_cancelled()
            yield progress(*report)
        return threaded_work.result()


def _check_address_space() -> None:
    """Raises OutOfMemory if the limit on the address space of this process is too low for a computation."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    # imported here, because code that only names a stage needs no numerical library
    from threadpoolctl import threadpool_info

    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    threads = max((pool["num_threads"] for pool in pools), default=1)
    needed = ADDRESS_SPACE_BYTES + threads * ADDRESS_SPACE_BYTES_PER_THREAD
    if limit < needed:
        raise OutOfMemory(
            f"This process may use {limit >> 20:,} MiB of address space; a computation with"
            f" {counted(threads, 'thread')} needs {needed >> 20:,} MiB.",
            "Raise the limit (`ulimit -v`), or set OPENBLAS_NUM_THREADS=1.",
        )
