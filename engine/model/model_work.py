"""Shared by all stages that use a model: loading it, and retrying after its process died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from engine.base.errors import Cancelled, ModelCrashed, RequestRefused
from engine.jobs.contract import OnProgress, Result, ThreadedWork
from engine.model.catalog import DEFAULT_MODEL, ModelEntry, RunnableModel
from engine.model.interface import Sampling
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, ModelClient, WrittenReply
from engine.model.prompt_files import Prompt

Item = TypeVar("Item")

ATTEMPTS = 3
"""Number of attempts at a block whose process dies, before its items are tried one by one."""


@dataclass(slots=True)
class RunModel:
    """The model of one run, resolved once when the run is made.

    All stages of the run share it. A tuning stage, which comes first, replaces `model` with the tuned file; so the
    other stages read `model` when they start, not when they are made.

    Attributes:
        model: The model that the stages load.
        entry: Its entry in the catalogue; None for endpoints.
        adapter: Name of the run or the catalogue entry that the adapter came from; None without an adapter.
    """

    model: RunnableModel
    entry: ModelEntry | None = None
    adapter: str | None = None

    @property
    def writes_labels(self) -> bool:
        """Whether its labels of goals are worth asking for. Those of the built-in model are worse than phrases of the
        members (docs/lab/goals.md), and no larger one has been measured."""
        return self.entry is None or self.entry.name != DEFAULT_MODEL


class ModelWork:
    """What one stage does with the model of its run; `interrupt` may be called from any thread."""

    def __init__(self, process: ModelProcess, run_model: RunModel) -> None:
        self._process = process
        self._run_model = run_model
        self._interrupted = threading.Event()

    @cached_property
    def model(self) -> RunnableModel:
        """The model that this stage loads: the model of the run when this is first read."""
        return self._run_model.model

    @property
    def writes_labels(self) -> bool:
        """See `RunModel.writes_labels`."""
        return self._run_model.writes_labels

    @property
    def process(self) -> ModelClient:
        """The client of the model: its process, or endpoints."""
        return self._process.client_for(self.model)

    def load(self) -> Mapping[str, Any]:
        """Loads the model unless it is loaded already; see `ModelProcess.load`."""
        self.check()
        return self.process.load(
            self.model.path, self.model.options, self.model.adapter, self.model.merged
        )

    def spent(self) -> str:
        """The cost of the requests, as a sentence for the end of a summary; empty if they cost only time."""
        found = self.process.spent()
        return f" {found}." if found else ""

    def interrupt(self) -> None:
        """Makes the request in flight and every later one raise Cancelled."""
        self._interrupted.set()
        self._process.cancel()

    def check(self) -> None:
        """Raises Cancelled after `interrupt`."""
        if self._interrupted.is_set():
            raise Cancelled("The work was cancelled.")

    def each(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        given_up: Callable[[str], Result],
    ) -> list[Result]:
        """Does `work` on a block, and isolates the item on which the process dies or that an endpoint refuses.

        If the process dies, the whole block is tried again first, because the same block gives the same bits. If that
        keeps failing, its items are tried alone; an item that still fails gets `given_up(reason)`.

        Raises:
            ModelCrashed, RequestRefused: Every single item failed, so the fault is not in the items.
        """
        failed: ModelCrashed | RequestRefused
        for _ in range(ATTEMPTS):
            self.check()
            try:
                return list(work(items))
            except ModelCrashed as error:
                failed = error
            except RequestRefused as error:
                failed = error
                break
        results: list[Result] = []
        survived = False
        for item in items:
            self.check()
            try:
                results.extend(work([item]))
                survived = True
            except ModelCrashed as error:
                failed = error
                results.append(given_up(f"the model process died on it: {error.message}"))
            except RequestRefused as error:
                failed = error
                results.append(given_up(error.message))
        if not survived:
            raise failed
        return results

    def replies(
        self, items: Sequence[tuple[Sequence[str], int]], prompt: Prompt, report: OnProgress
    ) -> list[WrittenReply]:
        """The model's most probable reply to a prompt around each log; see `ModelClient.generate`."""
        request = Generate(items, prompt, Sampling(), prompt.max_tokens, prompt.stop)
        return self.process.ask(request, report)

    def live(
        self, work: Callable[[OnProgress], Result], result: Callable[[Result], None]
    ) -> Iterator[tuple[int, str]]:
        """Runs blocking work on a thread and yields its progress reports.

        Args:
            work: Called with a callback for (count, note).
            result: Called with the return value of `work` before the iterator ends.
        """
        running = ThreadedWork(work)
        yield from running.reports()
        result(running.result())
