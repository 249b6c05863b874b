"""The parts of the model process.

`ModelSession` is the loaded model as the handlers of requests use it. `Server` reads requests on one thread and answers
them on the main thread, which owns the model.

The cache of a model has a cell for each token that it has read, for each sequence. A handler that may find its cells
again at its next request is the keeper of the cache until another handler claims the model.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import Cancelled, ModelError, WorkbenchError
from engine.model.generation import GenerativeModel
from engine.model.interface import LoadOptions
from engine.model.process import protocol
from engine.model.process.protocol import (
    Answer,
    Ask,
    Cancel,
    CancelDone,
    Failure,
    Frame,
    Request,
    Working,
)

log = logging.getLogger(__name__)

SECONDS_BETWEEN_REPORTS = 0.1
"""Least time between two reports of progress."""

Handler = Callable[["ModelSession", Any], Any]
"""A function that answers one kind of request."""

Handlers = Mapping[type[Request[Any]], Handler]


class LoadedModel(GenerativeModel, Protocol):
    """A model that was loaded from a file.

    Attributes:
        path: The file.
        vocabulary: Number of tokens in the vocabulary.
    """

    path: Path
    vocabulary: int

    def meta(self, key: str) -> str | None:
        """Returns a value from the header of its file; None if there is none."""

    def use_adapter(self, path: Path | None) -> None:
        """Switches to an adapter, or to the bare model for None; a change empties the cache."""

    def embed(self, texts: Any) -> NDArray[np.float32]:
        """Returns the vectors of texts, each given as token ids; shape (texts, dimensions)."""

    def close(self) -> None:
        """Frees the memory."""


class CellKeeper(Protocol):
    """The owner of cells that stay in the cache of the model from one request to the next."""

    def forget(self) -> None:
        """Empties the cache; called before another handler uses the model."""


class ModelSession:
    """The model of the process, which one request after another uses."""

    def __init__(
        self, send_progress: Callable[[int, str], None], is_cancelled: Callable[[], bool]
    ) -> None:
        """Prepares a session without a model.

        Args:
            send_progress: Sends a count and a note about the request that is being answered.
            is_cancelled: Returns whether that request was cancelled.
        """
        self._send_progress, self.is_cancelled = send_progress, is_cancelled
        self._model: LoadedModel | None = None
        self._loaded_with: tuple[Path, LoadOptions] | None = None
        self._keeper: CellKeeper | None = None

    def use(self, path: Path, options: LoadOptions, load: Callable[[], LoadedModel]) -> LoadedModel:
        """Returns the model of a file with an empty cache that all sequences share.

        Args:
            load: Loads the model; called if another model or none is loaded, after that one was freed.
        """
        if self._loaded_with != (path, options):
            self.close()
            self._model, self._loaded_with = load(), (path, options)
        return self.claim_shared()

    def close(self) -> None:
        """Frees the model, if there is one."""
        if self._model is not None:
            self._model.close()
        self._model = self._loaded_with = self._keeper = None

    @property
    def model(self) -> LoadedModel:
        """The loaded model; its cache has the layout and the cells of the last request.

        Raises:
            ModelError: No model is loaded.
        """
        if self._model is None:
            raise ModelError("No model is loaded.")
        return self._model

    def claim_shared(self, keeper: CellKeeper | None = None) -> LoadedModel:
        """Returns the model for one request, with a cache that all sequences share.

        Args:
            keeper: Owner of the cells that stay in the cache until another handler claims the model; a keeper that
                claims it twice in a row finds its cells again. None empties the cache.

        Raises:
            ModelError: No model is loaded.
        """
        model = self.claim(keeper)
        if model.capacity.separate:
            model.arrange(0)
        return model

    def claim(self, keeper: CellKeeper | None = None) -> LoadedModel:
        """Returns the model for one request, with the layout that its cache has; see `claim_shared` for the keeper."""
        model = self.model
        if self._keeper is not None and self._keeper is not keeper:
            self._keeper.forget()
        if keeper is None:
            model.clear()
        self._keeper = keeper
        return model

    def progress(self) -> Callable[[int], None]:
        """Returns a callback that adds up the counts it gets, and sends the sum at most every tenth of a second.

        The callback raises Cancelled when the request was cancelled.
        """
        done, sent = 0, time.monotonic()

        def report(count: int) -> None:
            """Adds a count, and sends the sum if the last one was sent long enough ago."""
            nonlocal done, sent
            done += count
            if self.is_cancelled():
                raise Cancelled("The request was cancelled.")
            if time.monotonic() - sent >= SECONDS_BETWEEN_REPORTS:
                sent = time.monotonic()
                self._send_progress(done, "")

        return report

    def total_progress(self) -> Callable[[int], None]:
        """Returns a callback like that of `progress`, but one that is called with the sum so far."""
        previous_total = 0
        report = self.progress()

        def progress(done: int) -> None:
            """Adds what is new in the sum."""
            nonlocal previous_total
            report(done - previous_total)
            previous_total = done

        return progress

    def note(self, text: str) -> None:
        """Sends a note on what is being done, where there is nothing to count."""
        self._send_progress(0, text)


class Server:
    """Answers requests one after another, each with the handler of its kind."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO, handlers: Handlers) -> None:
        """Prepares a server that reads frames from `requests` and writes frames to `answers`."""
        self._requests, self._answers = requests, answers
        self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}
        self._queue: queue.Queue[Ask | None] = queue.Queue()
        self._cancelled_numbers: set[int] = set()
        self._current_number: int | None = None
        self._write_lock = threading.Lock()
        self._session = ModelSession(self._send_progress, self._is_cancelled)

    def serve(self) -> None:
        """Answers requests until the input closes."""
        threading.Thread(target=self._read_requests, name="requests", daemon=True).start()
        self._send(protocol.Hello())
        while (request := self._queue.get()) is not None:
            self._answer(request)
        self._session.close()

    def _read_requests(self) -> None:
        """Queues requests and notes cancellations, until the input closes or is invalid."""
        try:
            while (frame := protocol.read_frame(self._requests)) is not None:
                if isinstance(frame, Cancel):
                    self._cancelled_numbers.add(frame.number)
                elif isinstance(frame, Ask):
                    self._queue.put(frame)
        finally:
            # The program has ended or wants this process to end: stop the current request too.
            if self._current_number is not None:
                self._cancelled_numbers.add(self._current_number)
            self._queue.put(None)

    def _answer(self, ask: Ask) -> None:
        """Sends the answer to a request, the error that it raised, or that it was cancelled."""
        number = self._current_number = ask.number
        try:
            if self._is_cancelled():
                raise Cancelled("The request was cancelled.")
            kind, handler = self._handlers[ask.kind]
            answer = handler(self._session, protocol.decode(kind, ask.request))
            self._send(Answer(number, protocol.encode(answer)))
        except Cancelled:
            self._send(CancelDone(number))
        except WorkbenchError as error:
            self._send(Failure(number, error.code, error.message, error.hint))
        except Exception as error:
            log.exception("request %s failed", ask.kind)
            message = f"{type(error).__name__}: {error}"
            self._send(Failure(number, "ModelError", message, "See the log."))
        finally:
            self._cancelled_numbers.discard(number)
            self._current_number = None

    def _send(self, frame: Frame) -> None:
        """Writes a frame; two threads may do so."""
        with self._write_lock:
            protocol.write_frame(self._answers, frame)

    def _send_progress(self, done: int, note: str) -> None:
        """Sends a count and a note about the request that is being answered."""
        if self._current_number is not None:
            self._send(Working(self._current_number, done, note))

    def _is_cancelled(self) -> bool:
        """Whether the request that is being answered was cancelled."""
        return self._current_number in self._cancelled_numbers
