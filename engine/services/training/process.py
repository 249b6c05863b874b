"""The process of a training run: started on its own, found again, stopped by and by.

A run needs nobody to watch it: it lives in a session of its own, writes into its directory only, and goes on when
the program that started it quits.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError, WorkbenchError
from engine.network_guard import child_environment
from engine.run_directory.events import RunDirectory, is_running, read_events, write_atomically

NEEDED = ("torch", "transformers", "peft", "accelerate", "gguf")
"""What the extra `train` installs."""

INSTALL = "`pip install 'conversation-workbench[train]'` installs it."


@dataclass(frozen=True, slots=True)
class Grace:
    """Seconds that a run has to end: after the wish without a new event, after SIGTERM; between two looks.

    The wish comes first and long, because a run that heeds it validates, converts its adapter and compares it; SIGTERM
    ends it at once.
    """

    wish: float = 900.0
    term: float = 60.0
    look: float = 0.5


def missing_libraries() -> str:
    """Why nothing can be trained here; empty when it can."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return f"Training needs {', '.join(missing)}." if missing else ""


def works(run: RunDirectory) -> bool:
    """Whether a process works on the run, or was started and has not taken the run's lock yet."""
    if is_running(run):
        return True
    started = _started(run)
    return started is not None and _is_trainer(started, run)


def pid_of(run: RunDirectory) -> int | None:
    """The process that works on the run; None where nobody does."""
    if not works(run):
        return None
    started = _started(run)
    if started is not None and _is_trainer(started, run):
        return started
    # Started by hand: its own words.
    told = [e["pid"] for e in read_events(run.events)[0] if e["event"] == "started" and "pid" in e]
    return int(told[-1]) if told and _is_trainer(int(told[-1]), run) else None


def was_started(run: RunDirectory) -> bool:
    """Whether a process was ever started on the run from here."""
    return _started(run) is not None


def exit_code(run: RunDirectory) -> int | None:
    """How the last process ended, as `subprocess` has it; None where nobody was there to see it."""
    try:
        found = json.loads(_exit_file(run).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("pid") != _started(run):
        return None
    code = found.get("code")
    return code if isinstance(code, int) else None


class Trainers:
    """Starts and stops processes. Leaves those that work alone when it goes."""

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "training"),
        grace: Grace = Grace(),
    ) -> None:
        """`command` gets the run's folder as its last word."""
        self._command, self._grace = tuple(command), grace
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()

    def start(self, run: RunDirectory) -> int:
        """Starts the process of a run, or the next one of a run that ended; its id.

        Raises:
            UsageError: A process works on the run, or the libraries are not installed.
            WorkbenchError: The process cannot be started.
        """
        missing = missing_libraries()
        if missing:
            raise UsageError(missing, INSTALL)
        with self._guard:
            self._reap(run)
            if works(run):
                raise UsageError(f"{run.path.name} is running.", "Stop it first.")
            run.stop.unlink(missing_ok=True)
            try:
                with run.log.open("ab") as log:
                    child = subprocess.Popen(
                        [*self._command, str(run.path)],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env={**child_environment(), "TOKENIZERS_PARALLELISM": "false"},
                    )
            except OSError as error:
                raise WorkbenchError(f"The training process cannot start: {error}.") from error
            write_atomically(_pid_file(run), json.dumps({"pid": child.pid}) + "\n")
            self._children[run.path] = child
        threading.Thread(
            target=self._see_end, args=(run, child), name=f"see {run.path.name} end", daemon=True
        ).start()
        return child.pid

    def stop(self, run: RunDirectory) -> None:
        """Asks the run to end after its step, and sees to it that it does.

        Whoever quits meanwhile leaves the wish behind, which alone makes the run end after its step.
        """
        if not works(run):
            return
        run.stop.touch()
        threading.Thread(
            target=self._press, args=(run,), name=f"stop {run.path.name}", daemon=True
        ).start()

    def kill(self, run: RunDirectory) -> None:
        """Ends the process now; the last checkpoint stays."""
        _signal(run, signal.SIGKILL)

    def _see_end(self, run: RunDirectory, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        with self._guard:
            self._reap(run)

    def _reap(self, run: RunDirectory) -> None:
        child = self._children.get(run.path)
        if child is None or child.poll() is None:
            return
        del self._children[run.path]
        # The folder may have been deleted since.
        with contextlib.suppress(OSError):
            said = json.dumps({"pid": child.pid, "code": child.returncode})
            write_atomically(_exit_file(run), said + "\n")

    def _press(self, run: RunDirectory) -> None:
        grace, began = self._grace, time.time()
        while works(run):
            if time.time() - max(began, _last_event(run)) > grace.wish:
                break
            # A process that was beginning took the wish for an old one.
            run.stop.touch()
            time.sleep(grace.look)
        for how, seconds in ((signal.SIGTERM, grace.term), (signal.SIGKILL, 0.0)):
            if not _signal(run, how):
                return
            until = time.time() + seconds
            while works(run) and time.time() < until:
                time.sleep(grace.look)


def _signal(run: RunDirectory, number: signal.Signals) -> bool:
    """Sends a signal to the run's whole session; False where nobody is left."""
    pid = pid_of(run)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # What was started from here leads a session of its own, so this reaches the parts of a run on several GPUs.
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    return True


def _last_event(run: RunDirectory) -> float:
    try:
        return run.events.stat().st_mtime
    except OSError:
        return 0.0


def _started(run: RunDirectory) -> int | None:
    try:
        found = json.loads(_pid_file(run).read_text("utf-8"))
        return int(found["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_trainer(pid: int, run: RunDirectory) -> bool:
    """Whether this process lives and was started on this run: ids are given out again, and the wrong one would be
    killed."""
    process = Path(f"/proc/{pid}")
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        folder = (process / "cwd").readlink()
    except OSError:
        return not Path("/proc/self").exists() and _is_trainer_by_ps(pid, run)
    return any((folder / os.fsdecode(word)).resolve() == run.path for word in words if word)


def _is_trainer_by_ps(pid: int, run: RunDirectory) -> bool:
    try:
        said = subprocess.run(
            ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return False
    return said.strip().endswith(str(run.path))


def _pid_file(run: RunDirectory) -> Path:
    return run.path / "process.json"


def _exit_file(run: RunDirectory) -> Path:
    return run.path / "exit.json"
