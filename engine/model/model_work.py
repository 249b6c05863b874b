"""Shared by all stages that use a model: loading it, and retrying after its process died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from engine.base.errors import Cancelled, ModelCrashed, RequestRefused
from engine.jobs.contract import OnProgress, Result, ThreadedWork
from engine.model.catalog import LoadableModel
from engine.model.interface import Sampling
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, ModelClient, WrittenReply
from engine.model.prompt_files import Prompt

Item = TypeVar("Item")

ATTEMPTS = 3
"""Number of attempts at a block whose process dies, before its items are tried one by one."""


class ModelWork:
    """What one stage does with the model of its run; `interrupt` may be called from any thread."""

    def __init__(self, process: ModelProcess, model: LoadableModel) -> None:
        self._process = process
        self._shared_model = model
        self._interrupted = threading.Event()

    @cached_property
    def model(self) -> LoadableModel:
        """The model that this stage loads: that of the run as it is when this is first read."""
        return replace(self._shared_model)

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
