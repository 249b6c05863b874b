"""The server in the model process: one thread reads requests, the main thread owns the model and answers them."""

from __future__ import annotations

import logging
import queue
import threading
from typing import BinaryIO

from engine.base.errors import Cancelled, WorkbenchError
from engine.model.process import protocol
from engine.model.process.protocol import Answer, Ask, Cancel, Failure, Frame, Stopped, Working
from engine.model.process.session import Handlers, ModelSession

log = logging.getLogger(__name__)


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
        self._send(protocol.Hello(protocol.VERSION))
        while (request := self._queue.get()) is not None:
            self._answer(request)
        self._session.close()

    def _read_requests(self) -> None:
        """Queues requests and notes cancellations, until the input closes."""
        while (frame := protocol.read_frame(self._requests)) is not None:
            if isinstance(frame, Cancel):
                self._cancelled_numbers.add(frame.number)
            elif isinstance(frame, Ask):
                self._queue.put(frame)
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
            self._send(Stopped(number))
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
        with self._write_lock:
            protocol.write_frame(self._answers, frame)

    def _send_progress(self, done: int, note: str) -> None:
        if self._current_number is not None:
            self._send(Working(self._current_number, done, note))

    def _is_cancelled(self) -> bool:
        return self._current_number in self._cancelled_numbers
