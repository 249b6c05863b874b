"""The client side of the model process: starts the process, sends and cancels requests, kills it if it hangs, and
restarts it after a crash.

`RoutedProcess` also gives the clients of models that HTTP endpoints serve.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from engine.base import errors
from engine.base.errors import Cancelled, ModelCrashed, ModelError, WorkbenchError
from engine.base.files import create_private_file, create_private_folder
from engine.base.network_guard import child_environment
from engine.base.number_format import duration
from engine.jobs.contract import OnProgress
from engine.model.catalog import LoadableModel
from engine.model.endpoints.model import EndpointModel
from engine.model.interface import LoadOptions
from engine.model.process import protocol
from engine.model.process.protocol import (
    Answer,
    Ask,
    Cancel,
    CancelDone,
    Failure,
    Frame,
    Hello,
    Request,
    Working,
)
from engine.model.process.requests import Load, ModelClient

log = logging.getLogger(__name__)

SERVER_MODULE = "engine.opener.model_process"
"""The module that runs in the model process. It stands above all subjects, since it puts their handlers together."""

UTIME_INDEX = 10
"""Index of `utime` among the fields of proc_pid_stat(5) after the state; `stime` follows."""

PROC_FOLDER = Path("/proc")
"""The folder in which Linux shows the state of processes."""

START_SECONDS = 60.0
"""Longest wait for the model process to be ready."""

CANCEL_GRACE_SECONDS = 5.0
"""Longest wait for the model process to end a cancelled request, or to end itself."""

POLL_SECONDS = 0.2
"""Time between two looks at whether the request was cancelled or the process hangs."""

POLLS_PER_SAMPLE = 25
"""Polls from one sample of the processor time to the next."""

MAX_IDLE_SAMPLES = 24
"""Samples in a row without an answer and without use of the processor, after which a process is killed: two minutes.

Polls are counted, not seconds, so that nobody ends a process that was suspended together with this program."""

T = TypeVar("T")
"""Answer to a request."""

_IDLE_REASON = (
    "no answer and no use of the processor for"
    f" {duration(MAX_IDLE_SAMPLES * POLLS_PER_SAMPLE * POLL_SECONDS)}"
)
"""Why a process that does nothing is killed."""


class ModelProcess:
    """One model process, as a `ModelClient`. Requests are answered one at a time; any thread may ask, cancel or close.

    The first request starts the process; the first one after a crash restarts it and loads the last model again.
    So a crash raises `ModelCrashed` for one request only.

    Attributes:
        log_path: File that gets the standard error of the process.
        loaded: The answer to the last `Load` that succeeded; None before it.
    """

    def __init__(
        self,
        log_path: Path,
        command: Sequence[str] | None = None,
        restarted: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Prepares a client, without starting the process.

        Args:
            log_path: File that gets the standard error of the process.
            command: What to run; `SERVER_MODULE` by default.
            restarted: Called after a restart, with a sentence on why the previous process ended.
        """
        self.log_path = log_path
        self._command = list(command or (sys.executable, "-m", SERVER_MODULE))
        self._restarted = restarted
        self._process: subprocess.Popen[bytes] | None = None
        # Why the last process ended, as a sentence; None where no request has noticed its end.
        self._end_reason: str | None = None
        self._answers: queue.Queue[Frame | None] = queue.Queue()
        self._request_lock = threading.RLock()
        self._write_lock = threading.Lock()
        # Number of the last request, and of the one that is being answered; None where none is.
        self._last_number = 0
        self._in_flight: int | None = None
        # When the request was cancelled, in seconds of `time.monotonic`.
        self._cancelled_at: float | None = None
        self._closed = False
        self._killed_here = False
        self._last_load: Load | None = None
        self.loaded: dict[str, Any] | None = None

    # Requests

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        weights_copy: Path | None = None,
    ) -> dict[str, Any]:
        """Loads a model unless it is loaded already, and switches to an adapter or back.

        Args:
            weights_copy: See `Load`.

        Returns:
            The answer to `Load`.

        Raises:
            ModelFileError: Weights or adapter cannot be used.
            ModelCrashed: The process died while loading.
        """
        request = Load(path, options, adapter, weights_copy)
        with self._request_lock:
            self._cancelled_at = None
            if self.loaded is not None and self._last_load == request and self.pid is not None:
                return self.loaded
            self._last_load = None
            self.loaded = self._send_and_wait(request)
            self._last_load = request
            return self.loaded

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends one request and returns its answer.

        Raises:
            Cancelled: `cancel` was called while it ran.
            ModelCrashed: The process died; the next request starts it anew.
            WorkbenchError: The process refused the request.
        """
        with self._request_lock:
            self._cancelled_at = None
            if request.needs_model and self._last_load is not None and self.pid is None:
                self.loaded = self._send_and_wait(self._last_load)
            return self._send_and_wait(request, progress)

    def cancel(self) -> None:
        """Cancels the current request, if any, even while the process starts or loads a model for it; the thread that
        waits gets `Cancelled`."""
        with self._write_lock:
            self._cancelled_at = time.monotonic()
            process, request = self._process, self._in_flight
            if process is not None and request is not None:
                # If the process has died, the thread that waits notices the closed pipe.
                with suppress(OSError):
                    protocol.write_frame(cast(BinaryIO, process.stdin), Cancel(request))

    def client_for(self, model: LoadableModel) -> ModelClient:
        """Returns the client for a model: this process."""
        return self

    @property
    def parallel(self) -> int:
        """One: requests are answered one after another."""
        return 1

    def spent(self) -> str:
        """Returns "": requests cost nothing but time."""
        return ""

    def close(self) -> None:
        """Kills the process at once; a request in flight raises `Cancelled`."""
        self._closed = True
        self._kill()

    @property
    def pid(self) -> int | None:
        """The id of the process; None if it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    # The process

    def _start(self) -> None:
        """Starts the process and waits until it is ready; reports why the previous one ended.

        Raises:
            Cancelled: The request was cancelled, or the client closed.
            ModelCrashed: The process ended or was not ready in time.
            OSError: The program cannot be run, or its log cannot be written.
        """
        self._check_open()
        end_reason = self._end_reason
        if end_reason is None and self._process is not None and not self._killed_here:
            end_reason = f"The model process died ({_status_text(self._process.returncode)})."
        create_private_folder(self.log_path.parent)
        self._answers = queue.Queue()
        started: Future[subprocess.Popen[bytes]] = Future()
        # Linux ends the process together with the thread that started it, so that thread also reads its answers.
        threading.Thread(
            target=self._start_and_read, args=(started, self._answers), daemon=True
        ).start()
        self._process, self._end_reason, self._killed_here = started.result(), None, False
        self._check_open()
        hello = self._await_hello()
        if not isinstance(hello, Hello):
            raise self._crash_error("could not start")
        if end_reason is not None:
            log.warning("%s It was started anew.", end_reason)
            self._restarted(end_reason)

    def _start_and_read(
        self, started: Future[subprocess.Popen[bytes]], answers: queue.Queue[Frame | None]
    ) -> None:
        """Starts the process, gives it (or the error) to `started`, and reads its answers until it ends."""
        try:
            create_private_file(self.log_path)
            with self.log_path.open("ab") as log_file:
                # A session of its own: ctrl+c in the terminal must reach the program, which then decides.
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log_file,
                    start_new_session=True,
                    env={
                        **child_environment(),
                        "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder),
                    },
                )
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked for the process
            started.set_exception(error)
            return
        started.set_result(process)
        _read_answers(cast(BinaryIO, process.stdout), answers)

    def _await_hello(self) -> Frame | None:
        """Waits for the first frame of the process, which says that it is ready, and returns it; None if it ended
        instead.

        Raises:
            Cancelled: The request was cancelled.
            ModelError: The process does not answer in time.
        """
        started = time.monotonic()
        while True:
            try:
                return self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if self._cancelled_at is not None:
                    self._kill()
                    raise Cancelled("The request was cancelled.") from None
                if time.monotonic() - started > START_SECONDS:
                    self._kill()
                    raise self._crash_error("did not answer") from None

    def _check_open(self) -> None:
        """Raises Cancelled, and kills the process, if this client was closed."""
        if self._closed:
            self._kill()
            raise Cancelled("The model process was closed.")

    def _kill(self) -> None:
        """Kills the process, if it runs."""
        process = self._process
        if process is not None and process.poll() is None:
            self._killed_here = True
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _send_and_wait(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends a request to the process, which is started if it does not run, and returns the answer.

        Raises:
            ModelError: The process died, or a text cannot be encoded.
            Cancelled: The request was cancelled.
        """
        if self.pid is None:
            self._start()
        process = cast("subprocess.Popen[bytes]", self._process)
        try:
            encoded = protocol.encode(request)
        except UnicodeEncodeError:
            raise ModelError("A text for the model has half a surrogate pair.") from None
        try:
            with self._write_lock:
                if self._cancelled_at is not None:
                    raise Cancelled("The request was cancelled.")
                number = self._in_flight = self._last_number = self._last_number + 1
                frame = Ask(number, type(request).__name__, encoded)
                try:
                    protocol.write_frame(cast(BinaryIO, process.stdin), frame)
                except OSError:
                    raise self._crash_error("died") from None
            answer = self._wait_for_answer(number, progress)
        finally:
            self._in_flight = None
        return cast(T, protocol.decode(protocol.answer_type(type(request)), answer))

    def _wait_for_answer(self, number: int, progress: OnProgress | None) -> msgspec.Raw:
        """Waits for the last frame about a request, and returns the encoded answer or raises the error.

        Raises:
            Cancelled: The request was cancelled.
            ModelCrashed: The process died, or was killed because it hung.
            WorkbenchError: The request failed.
        """
        idle = _IdleWatch(cast("subprocess.Popen[bytes]", self._process).pid)
        while True:
            try:
                answer = self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._kill_if_cancel_ignored()
                if idle.is_idle():
                    self._kill()
                    raise self._crash_error("hung and was ended", _IDLE_REASON) from None
                continue
            idle.reset()
            if answer is None:
                raise self._crash_error("died")
            match answer:
                case Answer(number=answered_number) if answered_number == number:
                    return answer.value
                case CancelDone(number=answered_number) if answered_number == number:
                    raise Cancelled("The request was cancelled.")
                case Failure(number=answered_number) if answered_number == number:
                    raise _error_from(answer)
                case Working(number=answered_number) if (
                    answered_number == number and progress is not None
                ):
                    progress(answer.done, answer.note)

    def _kill_if_cancel_ignored(self) -> None:
        """Kills the process if it did not end a cancelled request in `CANCEL_GRACE_SECONDS`: native code may be stuck
        where it does not look whether it is to stop.

        Raises:
            Cancelled: The process was killed.
        """
        cancelled_at = self._cancelled_at
        if cancelled_at is not None and time.monotonic() - cancelled_at > CANCEL_GRACE_SECONDS:
            self._kill()
            raise Cancelled("The request was cancelled; the model process had to be ended for it.")

    def _crash_error(self, what: str, why: str = "") -> WorkbenchError:
        """Returns the error for a process that has ended or has to be killed.

        Args:
            what: What happened to the process, as a verb in the past.
            why: The reason; "" gives the exit status.
        """
        if self._closed:
            return Cancelled("The model process was closed.")
        process = cast("subprocess.Popen[bytes]", self._process)
        try:
            status = process.wait(CANCEL_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            # It closed its pipe or wrote invalid data, and is still running.
            self._kill()
            status = process.wait()
        self._end_reason = f"The model process {what} ({why or _status_text(status)})."
        return ModelCrashed(
            self._end_reason,
            f"Its log is {self.log_path}. The work can be run again and goes on where it stopped.",
        )


class _IdleWatch:
    """Detects a process that neither answers nor uses the processor; `is_idle` is called once per poll."""

    def __init__(self, pid: int) -> None:
        """Begins to count."""
        self._pid = pid
        self._polls = 0
        self._idle_samples = 0  # in a row
        self._last_used: str | None = None

    def reset(self) -> None:
        """Counts idle samples from zero again, because the process answered."""
        self._idle_samples = 0

    def is_idle(self) -> bool:
        """Returns whether the process did nothing for `MAX_IDLE_SAMPLES` samples."""
        self._polls += 1
        if self._polls % POLLS_PER_SAMPLE:
            return False
        used = processor_time(self._pid)
        is_unused = used is not None and used == self._last_used
        self._idle_samples = self._idle_samples + 1 if is_unused else 0
        self._last_used = used
        return self._idle_samples >= MAX_IDLE_SAMPLES


def processor_time(pid: int) -> str | None:
    """Returns the processor time of a process as a text that changes with it; None if the system does not say, and
    while the process waits for a disk."""
    try:
        if PROC_FOLDER.exists():
            # The fields of proc_pid_stat(5) after the name, which may hold spaces.
            _, _, fields = (PROC_FOLDER / str(pid) / "stat").read_text().rpartition(")")
            state, *others = fields.split()
            used = others[UTIME_INDEX : UTIME_INDEX + 2]  # utime and stime
        else:
            command = ("ps", "-o", "state=,time=", "-p", str(pid))
            shown = subprocess.run(command, capture_output=True, text=True, check=True)
            state, *used = shown.stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    # D on Linux and U on macOS: the process waits for a disk.
    return None if state.startswith(("D", "U")) else " ".join(used)


def _read_answers(stream: BinaryIO, answers: queue.Queue[Frame | None]) -> None:
    """Queues the frames of the process until the stream ends or is invalid, then None."""
    try:
        while (answer := protocol.read_frame(stream)) is not None:
            answers.put(answer)
    except ValueError as error:
        log.warning("the model process wrote an invalid answer: %s", error)
    finally:
        answers.put(None)


def _error_from(failure: Failure) -> WorkbenchError:
    """Returns the error of a failed request, in the class that the failure names."""
    kind: Any = getattr(errors, failure.kind, ModelError)
    return cast(WorkbenchError, kind(failure.message, failure.hint))


def _status_text(status: int) -> str:
    """Returns how a process ended, in words; a negative status is a signal."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"killed by {name}, perhaps for want of memory" if name == "SIGKILL" else f"by {name}"


class RoutedProcess(ModelProcess):
    """The model process, and the endpoints for models that they serve."""

    def __init__(
        self,
        log_path: Path,
        connect: Callable[[str], EndpointModel],
        restarted: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Prepares a client, without starting the process.

        Args:
            connect: Returns the client of the endpoint of this name.
            restarted: See `ModelProcess`.
        """
        super().__init__(log_path, restarted=restarted)
        self._connect = connect
        self._endpoint_models: dict[str, EndpointModel] = {}
        self._endpoints_lock = threading.Lock()

    def client_for(self, model: LoadableModel) -> ModelClient:
        """Returns the client for a model: that of its endpoint, or this process."""
        name = model.endpoint
        if name is None:
            return self
        with self._endpoints_lock:
            if name not in self._endpoint_models:
                self._endpoint_models[name] = self._connect(name)
            client = self._endpoint_models[name]
        client.sender.spending = model.spending
        return client

    def close(self) -> None:
        """Kills the process and abandons requests to endpoints."""
        super().close()
        for endpoint_model in list(self._endpoint_models.values()):
            endpoint_model.cancel()
