"""`python -m training RUN_DIR`: trains the run of a directory, or resumes it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

from engine.base import network_guard
from engine.base.errors import WorkbenchError
from engine.base.files import DISK_FULL_MESSAGE, TRAINING_DISK_FULL_HINT, is_disk_full
from engine.training.config import ConfigError, TrainConfig
from engine.training.events import EventLog, is_out_of_memory
from engine.training.run_directory import RunDirectory, lock_run

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 143
"""Exit codes of the process; the last one is that of a shell after SIGTERM."""

_LOCK_SECONDS, _LOCK_POLL_SECONDS = 2.0, 0.05
"""Longest wait for the lock of a run, and the time between two attempts."""


def main(words: list[str]) -> int:
    """Trains the run that the arguments name and returns the exit code, `DONE` if an adapter was made.

    Args:
        words: The arguments of the command, without its name.
    """
    # warnings of libraries about their future versions are of no use to a person who trains
    warnings.filterwarnings("ignore", category=FutureWarning)
    folders = [Path(word) for word in words]
    if len(folders) != 1 or not folders[0].is_dir():
        print("usage: python -m training RUN_DIR", file=sys.stderr)  # noqa: T201
        return USAGE
    run = RunDirectory(folders[0].resolve())
    logging.basicConfig(level=logging.WARNING)
    # nothing is downloaded: weights and tokenizer are on the disk
    network_guard.install_in_child()
    os.environ.update(TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
    # threads that spin while they wait become very slow when another process uses the machine
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # a reader that checks whether the run is running holds the lock for a moment
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        with lock_run(run) as has_lock:
            if has_lock:
                run.lock_file.write_text(f"{os.getpid()}\n", "utf-8")
                run.stop_file.unlink(missing_ok=True)
                return _run(run, EventLog(run.events))
        if time.monotonic() > until:
            print("Another process is training this run.", file=sys.stderr)  # noqa: T201
            return FAILED
        time.sleep(_LOCK_POLL_SECONDS)


def _run(run: RunDirectory, events: EventLog) -> int:
    """Trains the run of a directory and returns the exit code; an error becomes an event."""
    try:
        config = TrainConfig.load(run.config)
        from training.loop import Interrupted
        from training.run import train

        try:
            train(run, config, events)
        except Interrupted:
            return INTERRUPTED
    except ConfigError as error:
        _report(run, events, f"{error}.", "Correct config.json.")
        return FAILED
    except ImportError as error:
        _report(
            run,
            events,
            f"{error.name} is not installed.",
            "pip install 'conversation-workbench[train]'",
        )
        return FAILED
    except Exception as error:  # noqa: BLE001 - libraries report a full disk by errors of their own
        _report(run, events, *_message_of(error, run))
        return FAILED
    finally:
        with contextlib.suppress(OSError):
            events.close()
    return DONE


def _report(run: RunDirectory, events: EventLog, message: str, hint: str) -> None:
    """Writes the event `error`, and the traceback into the log.

    On a full disk incomplete checkpoints are deleted first, to make room for both. If there still is no room, the
    program that reads the run finds out that the disk is full.
    """
    if message.startswith(DISK_FULL_MESSAGE):
        from training.checkpoints import discard_incomplete

        discard_incomplete(run.checkpoints)
    with contextlib.suppress(OSError):
        events.write("error", message=message, hint=hint)
    with contextlib.suppress(OSError):
        traceback.print_exc()


def _message_of(error: Exception, run: RunDirectory) -> tuple[str, str]:
    """Returns the message for an error, and what to do about it."""
    if isinstance(error, WorkbenchError):
        return error.message, error.hint
    text = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError) or is_out_of_memory(text):
        return (
            "Out of memory.",
            "Lower `rows`, then `max_tokens`; or set `recompute`.",
        )
    if is_disk_full(error, run.path):
        return (
            f"{DISK_FULL_MESSAGE}: {run.path.name} could not be written.",
            TRAINING_DISK_FULL_HINT,
        )
    return text.splitlines()[0], "log.txt in the run directory has the rest."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
