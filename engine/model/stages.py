"""The parts shared by all stages that ask a model, and the stage that tunes one.

`ModelWork` loads the model and tries again after its process died, `ModelStage` and `BlockStage` are base classes, and
`TuningStage` finds the fastest faithful format of the weights on this machine.
"""

from __future__ import annotations

import sqlite3
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Generic, TypeVar

from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, ModelCrashed, ModelError, RequestRefused
from engine.base.text import one_line
from engine.jobs.contract import Lane, OnProgress, Progress, Result, Stage, ThreadedWork
from engine.model.catalog import DEFAULT_MODEL, FIRST_LAYERS, Catalog, LoadableModel, ModelEntry
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.pacing import MAX_PARALLEL_REQUESTS
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, Measure, ModelClient, Tune, WrittenReply
from engine.model.prompt_files import Prompt
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

Key = TypeVar("Key", bound=Hashable)
"""Identifies an item of a stage."""

Entry = TypeVar("Entry")
"""The answer to an item, as it is stored."""

Item = TypeVar("Item")
"""What a model is asked about."""

FORM_TOKENS = 1_500
"""Tokens that a prompt leaves free for the words that ask for fields, and for what a model thinks."""

FITTED_CHARS_PER_TOKEN = 3
"""Number of characters that a token is taken to have where a text is fitted by characters: fewer than in most
languages, so that the text fits in tokens."""

MIN_ROOM = 1_000
"""Fewest characters that `ModelWork.room` returns; a context that is too small even for that many is refused later."""

ATTEMPTS = 3
"""Number of attempts at a block whose process dies, before its items are tried one by one."""

REHEARSED_ITEMS = 200
"""Most items whose requests an estimate looks at."""

REASON_CHARS = 160
"""Most characters of the reason why conversations have no result, in the sentence about a run."""

MAX_REFUSED_IN_A_ROW = 16
"""Number of items in a row that an endpoint may refuse before the fault is no longer in the items."""


class ModelWork:
    """The model of a run as one stage uses it; `interrupt` may be called from any thread.

    Attributes:
        has_answered: Whether the model has answered about any item in `each`.
        failure: The error about the last item of the last block without any answer; None before that.
    """

    def __init__(self, process: ModelProcess, model: LoadableModel) -> None:
        """Loads nothing yet; `model` is shared by all stages of the run."""
        self._process = process
        self._shared_model = model
        self._interrupted = threading.Event()
        self._context = 0
        self._has_loaded = False
        self.has_answered = False
        self._refused_in_a_row = 0
        self.failure: ModelError | None = None

    @cached_property
    def model(self) -> LoadableModel:
        """The model that this stage loads: that of the run as it is when this is first read."""
        return replace(self._shared_model)

    @property
    def process(self) -> ModelClient:
        """The client of the model: its process, or endpoints."""
        return self._process.client_for(self.model)

    def load(self) -> None:
        """Loads the model unless it is loaded already; see `ModelProcess.load`."""
        self.check()
        loaded = self.process.load(
            self.model.path, self.model.options, self.model.adapter, self.model.weights_copy
        )
        self._context, self._has_loaded = int(loaded["context"]), True

    def room(self, prompt: Prompt) -> int:
        """Returns the characters that the model, loaded or behind endpoints, has room for inside a prompt whose reply
        has fields."""
        client = self.process
        context = client.context if isinstance(client, EndpointModel) else self._context
        tokens = context - prompt.max_tokens - FORM_TOKENS
        return max(MIN_ROOM, FITTED_CHARS_PER_TOKEN * tokens - len(prompt.before + prompt.question))

    @property
    def endpoint(self) -> EndpointModel:
        """The client of a model behind endpoints."""
        client = self.process
        assert isinstance(client, EndpointModel)
        return client

    def rehearse(self, asks: Iterable[Callable[[], object]]) -> list[Mapping[str, Any]]:
        """Returns the bodies of the requests that endpoints would be sent, each of `asks` being about an item; see
        `RequestSender.rehearse`."""
        bodies: list[Mapping[str, Any]] = []
        sender = self.endpoint.sender
        for ask_one in asks:
            bodies += sender.rehearse(ask_one)
            self._refused_in_a_row = 0  # a rehearsed request is refused, and that is no fault
        return bodies

    @property
    def tokens_per_reply(self) -> float | None:
        """The mean tokens of the replies of endpoints since the model was loaded; None before any."""
        client = self.process
        return client.tokens_per_reply if isinstance(client, EndpointModel) else None

    def spent(self) -> str:
        """Returns the cost of the requests, as a sentence for the end of a summary.

        It is empty if they cost only time, and if this stage did not load the model: the count is then that of the
        stage before.
        """
        cost = self.process.spent() if self._has_loaded else ""
        return f" {cost}." if cost else ""

    def interrupt(self) -> None:
        """Makes the request in flight and every later one raise Cancelled."""
        self._interrupted.set()
        self.process.cancel()

    def check(self) -> None:
        """Raises Cancelled after `interrupt`."""
        if self._interrupted.is_set():
            raise Cancelled("The work was cancelled.")

    def each(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        failed_result: Callable[[str], Result],
    ) -> list[Result]:
        """Returns the results of `work` on a block, and isolates the item on which the process dies or that an endpoint
        refuses.

        If the process dies, the whole block is tried again first, because the same block gives the same bits. If that
        keeps failing, its items are tried alone. A refused block is not tried again: an endpoint would refuse it again.

        Args:
            work: Returns the results of some items.
            failed_result: Returns the result of an item that fails alone, given the reason.

        Raises:
            Cancelled: `interrupt` was called.
            ModelCrashed: Every single item failed, so the fault is not in the items.
            RequestRefused: Every single item was refused, and with those of earlier blocks `MAX_REFUSED_IN_A_ROW` in a
                row.
        """
        for _ in range(ATTEMPTS):
            self.check()
            try:
                results = list(work(items))
            except ModelCrashed:
                continue
            except RequestRefused:
                break
            self.has_answered, self._refused_in_a_row = True, 0
            return results
        return self._each_alone(items, work, failed_result)

    def _each_alone(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        failed_result: Callable[[str], Result],
    ) -> list[Result]:
        """Returns the results of `work` on the items of a block one by one; see `each`."""
        results: list[Result] = []
        failures: list[ModelCrashed | RequestRefused] = []
        for item in items:
            self.check()
            try:
                results.extend(work([item]))
            except ModelCrashed as error:
                failures.append(error)
                results.append(failed_result(f"the model process died on it: {error.message}"))
            except RequestRefused as error:
                failures.append(error)
                results.append(failed_result(error.message))
        if len(failures) < len(items):
            self.has_answered, self._refused_in_a_row = True, 0
            return results
        self.failure = failures[-1]
        self._refused_in_a_row += len(items)
        if isinstance(self.failure, ModelCrashed) or self._refused_in_a_row >= MAX_REFUSED_IN_A_ROW:
            raise self.failure
        return results

    def replies(
        self, items: Sequence[tuple[Sequence[str], int]], prompt: Prompt, report: OnProgress
    ) -> list[WrittenReply]:
        """Returns the model's most probable reply to a prompt around each log; see `Generate`."""
        return self.process.ask(Generate(items, prompt), report)

    def free_replies(self, bodies: Sequence[str], prompt: Prompt, report: OnProgress) -> list[str]:
        """Returns the text of the model's most probable reply to a prompt around each body."""
        replies = self.replies([((body,), 0) for body in bodies], prompt, report)
        return [without_surrogates(reply.text) for reply in replies]

    def live(
        self, work: Callable[[OnProgress], Result], take_result: Callable[[Result], None]
    ) -> Iterator[tuple[int, str]]:
        """Runs blocking work on a thread and yields its progress reports, each a count and a note.

        Args:
            work: Called with the callback for its reports.
            take_result: Called with the return value of `work` before the iterator ends.

        Raises:
            ModelError: The work failed; the message says what its requests have cost.
        """
        running = ThreadedWork(work)
        yield from running.reports()
        try:
            result = running.result()
        except ModelError as error:
            error.message += self.spent()
            raise
        take_result(result)


class ModelStage(Stage):
    """A stage whose answers come from a model."""

    lane: Lane = "model"
    work_title = ""
    """What is done, for a `title` that says with which model."""

    def __init__(self, project: Project, process: ModelProcess, model: LoadableModel) -> None:
        """Reads and loads nothing yet."""
        self._project = project
        self._work = ModelWork(process, model)

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"{self.work_title} with {self._work.model.label}"

    @property
    def model(self) -> LoadableModel:
        """The model of the run."""
        return self._work.model

    @property
    def asks_endpoints(self) -> bool:
        """Whether the model is behind endpoints."""
        return bool(self._work.model.endpoint)

    @property
    def _asks_again(self) -> bool:
        """Whether the run asks again about items with a stored failure."""
        return self._work.model.spending.fresh

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model."""
        return self._work.model.fingerprints

    def interrupt(self) -> None:
        """Ends the request in flight; results that are not committed are dropped."""
        self._work.interrupt()

    def _cost(
        self, asks: Sequence[Callable[[], object]], items: float, certain: float = 1.0
    ) -> StageCost:
        """Returns what asking endpoints costs, by the requests for a sample; sends nothing.

        Args:
            asks: Functions that each ask about one item, or about one like those.
            items: Number of items.
            certain: Share of the items that is asked about in any case.
        """
        tokens_per_reply = self._project.read(runs.tokens_per_reply, self.name, self.fingerprints)
        # Evenly spread: of clusters the first ones are the largest.
        sample = asks[:: -(-len(asks) // REHEARSED_ITEMS) or 1]
        items_per_sampled = items / max(1, len(sample))
        cost = self._work.endpoint.estimate(
            self.name, self._work.rehearse(sample), items_per_sampled, tokens_per_reply
        )
        return replace(cost, certain=certain)


def without_result(reasons: Counter[str], what: str) -> str:
    """Returns what the sentence about a run says of the conversations without a result; empty if all have one.

    Args:
        reasons: How many have none for which reason.
        what: What they have, such as "no summary".
    """
    if not reasons:
        return ""
    ((reason, _),) = reasons.most_common(1)
    shown = one_line(reason, REASON_CHARS).rstrip(".")
    return f"; {reasons.total():,} have {what}, most often because: {shown}"


class BlockStage(ModelStage, Generic[Key, Entry]):
    """A stage that answers items block by block, each block one transaction together with the run's counter.

    Blocks are planned from all items in their fixed order, including those already answered, so that a run that is
    resumed after a crash uses the same batches and gets the same bits. An answer of an endpoint depends on its item
    alone, so there are no blocks then.
    """

    @abstractmethod
    def _answer(self, block: Sequence[Key], report: OnProgress) -> list[Entry]:
        """Answers a whole block; runs on a thread of its own."""

    @abstractmethod
    def _key_of(self, entry: Entry) -> Key:
        """Returns the item that an entry belongs to."""

    @abstractmethod
    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[Entry]) -> None:
        """Writes entries that are not stored yet."""

    @abstractmethod
    def _tally(self, entries: Sequence[Entry]) -> None:
        """Counts committed entries for the summary."""

    def rehearse(self, keys: Sequence[Key]) -> list[Mapping[str, Any]]:
        """Returns the bodies of the requests that endpoints would be sent about items; see `RequestSender.rehearse`."""
        return self._work.rehearse(self._asks(keys))

    def estimate(self, keys: Sequence[Key]) -> StageCost:
        """Returns what asking endpoints about items costs, by the requests for a sample; sends nothing."""
        return self._cost(self._asks(keys), len(keys))

    def _asks(self, keys: Sequence[Key]) -> list[Callable[[], object]]:
        """Returns for each item a function that asks about it."""
        return [partial(self._answer, [key], _ignore_report) for key in keys]

    def _progress(self, done: int, total: int, missing: int, count: int) -> Progress:
        """Returns the progress of the run when a block reports a number of its items as done.

        Args:
            done, total: Items of the run that are committed, and all that were missing at its start.
            missing: Items of the block that were not answered earlier.
            count: Items that the block has reported so far, also those answered earlier.
        """
        return Progress(done + min(count, missing), total)

    def _load_and_answer(
        self, run_id: int, blocks: Iterable[Sequence[Key]], missing: AbstractSet[Key]
    ) -> Iterator[Progress]:
        """Loads the model and then does as `_in_blocks`; does neither where nothing is missing.

        Raises:
            Cancelled: `interrupt` was called.
            ModelError: The model cannot be loaded, or cannot answer.
        """
        if missing:
            yield Progress(0, len(missing), "loading the model")
            self._work.load()
            yield from self._in_blocks(run_id, blocks, missing)

    def _in_blocks(
        self, run_id: int, blocks: Iterable[Sequence[Key]], missing: AbstractSet[Key]
    ) -> Iterator[Progress]:
        """Answers each block that holds a missing item and commits the missing ones of it. Endpoints are asked about
        the missing items alone, side by side.

        Raises:
            Cancelled: `interrupt` was called.
            ModelError: The model cannot answer.
        """
        done, total = 0, len(missing)
        if self._work.model.endpoint:
            keys = (key for block in blocks for key in block if key in missing)
            yield from self._side_by_side(run_id, keys, total)
            return
        for block in blocks:
            missing_here = missing & set(block)
            if not missing_here:
                continue
            self._work.check()
            answers: list[Entry] = []
            for count, _ in self._work.live(partial(self._answer, block), answers.extend):
                yield self._progress(done, total, len(missing_here), count)
            entries = [entry for entry in answers if self._key_of(entry) in missing_here]
            done += len(missing_here)
            yield self._commit(run_id, entries, done, total)

    def _side_by_side(self, run_id: int, keys: Iterable[Key], total: int) -> Iterator[Progress]:
        """Answers items on threads, as many as the endpoints bear, and commits each as soon as it is answered.

        What fails cancels nothing that is in flight, because that is paid for. Nothing is committed before an item was
        answered: until then the fault may not be in the items.

        Raises:
            Cancelled: `interrupt` was called.
            ModelError: No endpoint is left, or every item was refused.
        """
        done, waiting, failure = 0, iter(keys), None
        uncommitted: list[list[Entry]] = []  # the entries of each item that was answered
        running: set[Future[list[Entry]]] = set()
        with ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, "asking") as threads:
            try:
                while True:
                    free = 0 if failure else max(0, self._work.process.parallel - len(running))
                    running.update(
                        threads.submit(self._answer, [key], _ignore_report)
                        for key in islice(waiting, free)
                    )
                    if not running:
                        break
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    errors = [error for future in finished if (error := future.exception())]
                    failure = failure or next(iter(errors), None)
                    uncommitted += [
                        future.result() for future in finished if not future.exception()
                    ]
                    if uncommitted and self._work.has_answered:
                        done += len(uncommitted)
                        entries = [entry for item_entries in uncommitted for entry in item_entries]
                        uncommitted = []
                        yield self._commit(run_id, entries, done, total)
            except BaseException:  # also ctrl+c, and the end of the generator
                self._work.interrupt()
                raise
        failure = failure or (self._work.failure if uncommitted else None)
        if isinstance(failure, ModelError):
            failure.message += self._work.spent()
        if failure:
            raise failure

    def _commit(self, run_id: int, entries: Sequence[Entry], done: int, total: int) -> Progress:
        """Stores entries and counts their items in the run, in one transaction; returns the progress of the run."""

        def store(conn: sqlite3.Connection) -> None:
            """Writes both."""
            self._store(conn, run_id, entries)
            runs.count(conn, run_id, done, total)
            runs.measure_replies(conn, run_id, self._work.tokens_per_reply)

        self._project.write(store)
        self._tally(entries)
        return self._progress(done, total, 0, 0)


def _ignore_report(_count: int, _note: str) -> None:
    """Ignores the progress inside an item: where items are worked on side by side, the finished ones are counted."""


def measure_first_layers(
    process: ModelProcess, catalog: Catalog, entry: ModelEntry, text: str
) -> None:
    """Writes and loads the first layers of the built-in model in the format that it runs as, and stores their speed and
    batch noise; does nothing for other models.

    Args:
        text: Text of some thousand tokens to measure on.

    Raises:
        ModelError: They cannot be written or loaded.
        Cancelled: The process was told to cancel.
    """
    if entry.name != DEFAULT_MODEL:
        return
    model = catalog.loadable(entry, layers=FIRST_LAYERS)
    process.load(model.path, model.options, model.adapter, model.weights_copy)
    tokens_per_s, noise = process.ask(Measure(text))
    catalog.record_speed(model, tokens_per_s, noise)


class TuningStage(Stage):
    """Tunes one model and stores the result in the catalog."""

    name = "tune"
    lane: Lane = "model"
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
        return f"Finding the fastest format of {self._entry.name} for this machine, once"

    @property
    def params(self) -> Mapping[str, Any]:
        """The model to tune."""
        return {"model": self._entry.name}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """SHA-256 of the file to tune."""
        return {"model_sha256": self._catalog.sha256(self._entry.path)}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Measures the candidates in the model process, then the first layers of the built-in model.

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
        ThreadedWork(
            lambda _: measure_first_layers(self._process, self._catalog, tuned_entry, self._text)
        ).result()
        for model in self._models:
            layers = model.options.layers
            model.become(self._catalog.loadable(tuned_entry, model.adapter, layers))
        yield Progress(steps, steps)

    def interrupt(self) -> None:
        """Cancels the measurement; nothing is stored."""
        self._process.cancel()

    def summary(self) -> str:
        """Returns the result in one sentence."""
        if self.result is None:
            return "Nothing was kept."
        result = self.result
        if result["chosen"] == "as is":
            return (
                f"{self._entry.name} is fastest as it is: {result['tokens_per_s']:,.0f} tokens/s."
            )
        return (
            f"{self._entry.name} runs as {result['chosen']} at {result['tokens_per_s']:,.0f} tokens/s,"
            f" {result['gain']:.1f} times as fast as the file as shipped."
        )
