"""Starts, finds and stops the process of a training run.

The process has a session of its own, writes only into its run directory, and continues when the program that started
it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError, WorkbenchError
from engine.base.files import create_private_file, write_atomically
from engine.base.network_guard import child_environment
from engine.training.config import ConfigError, TrainConfig
from engine.training.run_directory import RunDirectory, is_running

NEEDED = ("torch", "transformers", "peft", "accelerate", "gguf")
"""Packages that training imports; the extra `train` installs them."""

EIGHT_BIT = "bitsandbytes"
"""The package for 8-bit AdamW; the extra `gpu` installs it."""

START_SECONDS, START_POLL_SECONDS = 60.0, 0.02
"""Longest wait until a new process takes the lock of its run, and the time between two checks."""

INSTALL = "`pip install 'conversation-workbench[train]'` installs it."
"""Hint about missing packages."""


@dataclass(frozen=True, slots=True)
class Grace:
    """The times, in seconds, that a process has to end when it is stopped.

    Attributes:
        stop: Longest time without a new event after the STOP file. It is long, because the process then validates and
            converts its adapter; SIGTERM follows.
        term: Time after SIGTERM, which ends the process without an adapter; SIGKILL follows.
        poll: Time between two checks.
    """

    stop: float = 900.0
    term: float = 60.0
    poll: float = 0.5


def _count_gpus() -> int:
    """Returns the number of GPUs that a run can use."""
    # imported here, because these modules import numpy, for which the first screen should not wait
    from engine.model.memory_plan import count_gpus
    from engine.training.base import GPU_SECONDS

    return count_gpus(GPU_SECONDS)


def missing_libraries() -> str:
    """Returns a sentence on the packages that training lacks here; empty if it lacks none."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return f"Training needs {', '.join(missing)}." if missing else ""


def pid_of(run: RunDirectory) -> int | None:
    """Returns the id of the process of a run, which it wrote into the lock; None without a process or before it did."""
    if not is_running(run):
        return None
    try:
        return int(run.lock_file.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def exit_code(run: RunDirectory) -> int | None:
    """Returns the exit code of the last process (-N for signal N); None if this program did not see it end."""
    try:
        content = json.loads(_exit_file(run).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    code = content.get("code") if isinstance(content, dict) else None
    return code if isinstance(code, int) else None


class Trainers:
    """Starts and stops the processes of runs, which continue when this program ends."""

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "training"),
        grace: Grace = Grace(),
        gpus: Callable[[], int] = _count_gpus,
    ) -> None:
        """Starts nothing yet.

        Args:
            command: The command that starts a process, to which the run directory is added.
            grace: How long a process has to end when it is stopped.
            gpus: Returns the number of GPUs.
        """
        self._command, self._grace, self._gpus = tuple(command), grace, gpus
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()

    def check_libraries(self, config: TrainConfig | None) -> None:
        """Checks that the packages that a run needs are installed.

        Args:
            config: The settings of the run; None where they cannot be read, which the trainer reports.

        Raises:
            UsageError: A package is missing; the hint says what to install, and which setting does without it.
        """
        missing = missing_libraries()
        if missing:
            raise UsageError(missing, INSTALL)
        needs_eight_bit = config is not None and config.eight_bit and self._gpus() > 0
        if needs_eight_bit and importlib.util.find_spec(EIGHT_BIT) is None:
            raise UsageError(
                f"On a GPU, eight_bit needs {EIGHT_BIT}.",
                "`pip install 'conversation-workbench[gpu]'` installs it; --set eight_bit=false does without, with more"
                " memory.",
            )

    def start(self, run: RunDirectory) -> int:
        """Starts a process on a new run or on one that ended, waits until it holds the lock, and returns its id.

        Raises:
            UsageError: The run is running, or the libraries that it needs are not installed.
            WorkbenchError: The process cannot be started.
        """
        self.check_libraries(_config(run))
        with self._guard:
            self._reap(run)
            if is_running(run):
                raise UsageError(f"{run.path.name} is running.", "Stop it first.")
            run.stop_file.unlink(missing_ok=True)
            _exit_file(run).unlink(missing_ok=True)
            try:
                create_private_file(run.log)
                with run.log.open("ab") as log:
                    child = subprocess.Popen(
                        [*self._command, str(run.path)],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env={
                            **child_environment(),
                            "TOKENIZERS_PARALLELISM": "false",
                            # A run trains on the first GPU: several would share the step and change what is learned.
                            "CUDA_VISIBLE_DEVICES": os.environ.get(
                                "CUDA_VISIBLE_DEVICES", "0"
                            ).split(",")[0],
                        },
                    )
            except OSError as error:
                raise WorkbenchError(f"The training process cannot start: {error}.") from error
            self._children[run.path] = child
            # until the process holds the lock, others would think that the run has none
            until = time.monotonic() + START_SECONDS
            while child.poll() is None and pid_of(run) is None and time.monotonic() < until:
                time.sleep(START_POLL_SECONDS)
        threading.Thread(
            target=self._wait_for_end,
            args=(run, child),
            name=f"wait for {run.path.name}",
            daemon=True,
        ).start()
        return child.pid

    def stop(self, run: RunDirectory) -> None:
        """Asks a run to end after its step; a thread of this program kills the process if it does not end.

        If this program ends before, the STOP file still makes the run end after its step.
        """
        if not is_running(run):
            return
        run.stop_file.touch()
        threading.Thread(
            target=self._enforce_stop, args=(run,), name=f"stop {run.path.name}", daemon=True
        ).start()

    def kill(self, run: RunDirectory) -> None:
        """Kills the process of a run; the last checkpoint stays."""
        _signal(run, signal.SIGKILL)

    def _wait_for_end(self, run: RunDirectory, child: subprocess.Popen[bytes]) -> None:
        """Waits for a process to end, and records its exit code; runs on a thread of its own."""
        child.wait()
        with self._guard:
            self._reap(run)

    def _reap(self, run: RunDirectory) -> None:
        """Writes the exit code of the process of a run into its folder, if this program started it and it has ended."""
        child = self._children.get(run.path)
        if child is None or child.poll() is None:
            return
        del self._children[run.path]
        # the folder may have been deleted meanwhile
        with contextlib.suppress(OSError):
            write_atomically(_exit_file(run), json.dumps({"code": child.returncode}) + "\n")

    def _enforce_stop(self, run: RunDirectory) -> None:
        """Waits for a run to end after the STOP file, as long as it writes events; then sends signals to its
        process."""
        grace, began = self._grace, time.time()
        while is_running(run):
            if time.time() - max(began, _last_event_time(run)) > grace.stop:
                break
            # repeated, because a process that was only starting deletes the file
            run.stop_file.touch()
            time.sleep(grace.poll)
        for number, seconds in ((signal.SIGTERM, grace.term), (signal.SIGKILL, 0.0)):
            if not _signal(run, number):
                return
            until = time.time() + seconds
            while is_running(run) and time.time() < until:
                time.sleep(grace.poll)


def _config(run: RunDirectory) -> TrainConfig | None:
    """Returns the settings of a run; None if they cannot be read."""
    try:
        return TrainConfig.load(run.config)
    except ConfigError:
        return None


def _signal(run: RunDirectory, number: signal.Signals) -> bool:
    """Sends a signal to the process group of a run; returns False if the run has no process."""
    pid = pid_of(run)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # a process started by this program leads its group, which has the processes that its libraries start
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    return True


def _last_event_time(run: RunDirectory) -> float:
    """Returns the time of the last event of a run, in seconds since the epoch; 0 if it has none."""
    try:
        return run.events.stat().st_mtime
    except OSError:
        return 0.0


def _exit_file(run: RunDirectory) -> Path:
    """Returns the path of the file with the exit code of the last process of a run."""
    return run.path / "exit.json"
