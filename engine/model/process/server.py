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
        self._requests, self._answers = requests, answers
        self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}
        self._queue: queue.Queue[Ask | None] = queue.Queue()
        self._cancelled: set[int] = set()
        self._current: int | None = None
        self._lock = threading.Lock()
        self._session = ModelSession(self._send_progress, self._is_cancelled)

    def serve(self) -> None:
        """Answers requests until the input closes."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        self._send(protocol.Hello(protocol.VERSION))
        while (request := self._queue.get()) is not None:
            self._answer(request)
        self._session.close()

    def _read(self) -> None:
        while (frame := protocol.read_frame(self._requests)) is not None:
            if isinstance(frame, Cancel):
                self._cancelled.add(frame.number)
            elif isinstance(frame, Ask):
                self._queue.put(frame)
        # The program is gone or wants us gone: stop the work in flight too.
        if self._current is not None:
            self._cancelled.add(self._current)
        self._queue.put(None)

    def _answer(self, asked: Ask) -> None:
        number = self._current = asked.number
        try:
            if self._is_cancelled():
                raise Cancelled("The request was cancelled.")
            kind, handler = self._handlers[asked.kind]
            answer = handler(self._session, protocol.decode(kind, asked.request))
            self._send(Answer(number, protocol.encode(answer)))
        except Cancelled:
            self._send(Stopped(number))
        except WorkbenchError as error:
            self._send(Failure(number, error.code, error.message, error.hint))
        except Exception as error:
            log.exception("request %s failed", asked.kind)
            message = f"{type(error).__name__}: {error}"
            self._send(Failure(number, "ModelError", message, "See the log."))
        finally:
            self._cancelled.discard(number)
            self._current = None

    def _send(self, frame: Frame) -> None:
        with self._lock:
            protocol.write_frame(self._answers, frame)

    def _send_progress(self, done: int, note: str) -> None:
        if self._current is not None:
            self._send(Working(self._current, done, note))

    def _is_cancelled(self) -> bool:
        return self._current in self._cancelled
