"""What stages that use the model share: loading it, and going on after its process died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from engine.errors import Cancelled, ModelCrashed
from engine.model.catalog import RunnableModel
from engine.worker.client import ModelProcess

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS = 3
"""How often a block is tried when the process dies on it, before its items are tried one by one."""


class ModelWork:
    """A model in its process, for one stage; `interrupt` may be called from any thread."""

    def __init__(self, process: ModelProcess, model: RunnableModel) -> None:
        self.process, self.model = process, model
        self._interrupted = threading.Event()

    def load(self) -> Mapping[str, Any]:
        """Loads the model unless it is loaded already; see `ModelProcess.load`."""
        self.check()
        return self.process.load(self.model.path, self.model.options, self.model.adapter)

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
        given_up: Callable[[str], Result],
    ) -> list[Result]:
        """Does `work` on a block and goes on when the process dies on it.

        The whole block is tried again first, because the same block gives the same bits. Only when that keeps
        failing are its items tried alone; one that still kills the process gets `given_up(reason)`.

        Raises:
            ModelCrashed: The process died on every single item, so the fault is not in the items.
        """
        for _ in range(ATTEMPTS):
            self.check()
            try:
                return list(work(items))
            except ModelCrashed as error:
                crash = error
        results: list[Result] = []
        survived = False
        for item in items:
            self.check()
            try:
                results.extend(work([item]))
                survived = True
            except ModelCrashed as error:
                crash = error
                results.append(given_up(f"the model process died on it: {error.message}"))
        if not survived:
            raise crash
        return results
