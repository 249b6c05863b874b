"""The loaded model in its process, as the handlers of requests use it, and what they report meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import Cancelled, ModelError
from engine.model.generation import GenerativeModel
from engine.model.interface import LoadOptions
from engine.model.process.protocol import Request

PROGRESS_SECONDS = 0.1

Handler = Callable[["ModelSession", Any], Any]
Handlers = Mapping[type[Request[Any]], Handler]
"""The function that answers each kind of request."""


class LoadedModel(GenerativeModel, Protocol):
    """A model that was loaded from a file."""

    path: Path
    vocabulary: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of its weights and its cache."""

    def meta(self, key: str) -> str | None:
        """A value of the header of its file; None if there is none."""

    def use_adapter(self, path: Path | None) -> None:
        """Switches to an adapter, or to the bare model; a change forgets all sequences."""

    def embed(self, texts: Any) -> NDArray[np.float32]:
        """Embeds texts, each given as token ids."""

    def close(self) -> None:
        """Frees it."""


class CellKeeper(Protocol):
    """What keeps cells in the cache of the model from one request to the next."""

    def forget(self) -> None:
        """Empties the cache, because something else is going to use the model."""


class ModelSession:
    """The model of the process, which one request after another uses.

    Attributes:
        before_load: Called at each request to load a model: what was read of the one before is of no use then.
    """

    def __init__(
        self, send_progress: Callable[[int, str], None], is_cancelled: Callable[[], bool]
    ) -> None:
        """Prepares.

        Args:
            send_progress: Sends a count and a note about the request that is being answered.
            is_cancelled: Whether that request was cancelled.
        """
        self._send_progress, self.is_cancelled = send_progress, is_cancelled
        self._model: LoadedModel | None = None
        self._loaded: tuple[Path, LoadOptions] | None = None
        self._keeper: CellKeeper | None = None
        self.before_load: list[Callable[[], None]] = []

    def use(self, path: Path, options: LoadOptions, load: Callable[[], LoadedModel]) -> LoadedModel:
        """Returns the model of a file, loaded with `load` unless it is there; any other is freed before."""
        for forget in self.before_load:
            forget()
        if self._loaded != (path, options):
            self.close()
            self._model, self._loaded = load(), (path, options)
        return self.take()

    def close(self) -> None:
        """Frees the model, if there is one."""
        if self._model is not None:
            self._model.close()
        self._model = self._loaded = self._keeper = None

    @property
    def model(self) -> LoadedModel:
        """The loaded model; its cache has the layout and the cells of the last request.

        Raises:
            ModelError: No model is loaded.
        """
        if self._model is None:
            raise ModelError("No model is loaded.")
        return self._model

    def take(self, keeper: CellKeeper | None = None) -> LoadedModel:
        """Returns the model with an empty cache that all sequences share.

        Args:
            keeper: Who keeps cells in it until somebody else takes the model; it finds those that it left there.

        Raises:
            ModelError: No model is loaded.
        """
        model = self.take_to_arrange(keeper)
        if model.capacity.separate:
            model.arrange(0)
        return model

    def take_to_arrange(self, keeper: CellKeeper | None = None) -> LoadedModel:
        """As `take`, but the cache has the layout of the last request."""
        model = self.model
        if self._keeper is not None and self._keeper is not keeper:
            self._keeper.forget()
        if keeper is None:
            model.clear()
        self._keeper = keeper
        return model

    def progress(self) -> Callable[[int], None]:
        """Returns a callback that adds up the counts it gets and sends the sum every tenth of a second. It raises
        Cancelled when the request was cancelled."""
        done, sent = 0, time.monotonic()

        def report(count: int) -> None:
            nonlocal done, sent
            done += count
            if self.is_cancelled():
                raise Cancelled("The request was cancelled.")
            if time.monotonic() - sent >= PROGRESS_SECONDS:
                sent = time.monotonic()
                self._send_progress(done, "")

        return report

    def total_progress(self) -> Callable[[int], None]:
        """As `progress`, but the callback gets the sum itself."""
        before = 0
        report = self.progress()

        def progress(done: int) -> None:
            nonlocal before
            report(done - before)
            before = done

        return progress

    def note(self, text: str) -> None:
        """Says what is being done, where there is nothing to count."""
        self._send_progress(0, text)
