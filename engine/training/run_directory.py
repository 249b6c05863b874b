"""The directory of a training run: its files, and the lock that a process holds on it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class _File:
    """The path of a file of a run, as an attribute of its `RunDirectory`."""

    def __init__(self, name: str) -> None:
        """Takes the name of the file in the directory."""
        self._name = name

    def __get__(self, run: RunDirectory, _kind: object) -> Path:
        return run.path / self._name


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run.

    A data file has one conversation a line: `{"id": str, "texts": [str], "boundaries": [int], "kept": int}`. These are
    the pieces of the log as scoring reads them, the indices of the pieces after which the conversation could end, and
    the number of leading pieces that every window keeps.

    Attributes:
        path: The directory.
        config: The settings of the run.
        train: The conversations to train on.
        valid: The conversations by which a checkpoint is selected.
        manifest: Says from what the data was made; see `engine.training.run_files`.
        events: The events of the run, one a line.
        log: Standard output and error of the process.
        stop_file: Its existence makes the run end after its current step, with a checkpoint.
        checkpoints: The folder of the checkpoints.
        adapter: The adapter as PEFT writes it.
        adapter_gguf: The adapter as llama.cpp reads it.
        card: The card of the adapter: from what it was made, and its figures, as JSON.
        lock_file: Has the id of the process, which holds a lock (flock) on it while it is alive.
    """

    path: Path

    config = _File("config.json")
    train = _File("train.jsonl")
    valid = _File("valid.jsonl")
    manifest = _File("manifest.json")
    events = _File("events.jsonl")
    log = _File("log.txt")
    stop_file = _File("STOP")
    checkpoints = _File("checkpoints")
    adapter = _File("adapter")
    adapter_gguf = _File("adapter.gguf")
    card = _File("card.json")
    lock_file = _File("lock")


@contextlib.contextmanager
def lock_run(run: RunDirectory) -> Iterator[bool]:
    """Holds the lock of a run for the block if the lock is free; yields whether it is held."""
    with run.lock_file.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def is_running(run: RunDirectory) -> bool:
    """Returns whether a process holds the lock of a run."""
    try:
        with run.lock_file.open("rb") as file:
            # a shared lock: two readers at the same time must not take each other for the trainer
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
