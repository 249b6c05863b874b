"""Writes and reads the events of a training run.

The event file has the whole state of a run, with one JSON object a line, appended and flushed at once, so a reader may
start at any time. Every event has `event`, its kind, and `time` (seconds since the epoch). The other fields, by kind:

started     step (after which the process begins: 0, or that of a checkpoint), steps (in all), examples,
            tokens (of one epoch), end_labels, other_labels, valid (conversations of the validation), pid
step        step, epoch, loss (mean of -log p over the labels since the last event), learning_rate, tokens (trained on
            by this process), tokens_per_s, seconds_left, memory (bytes, peak so far)
validating  step (a validation begins)
valid       step, loss, auroc, f1 (at .5 on p_end / (p_end + p_continue)), n (pairs), best (whether it is the best so
            far, see `training.validation`)
sample      step (0: before training), id, text (the last words before the boundary), ends (whether the log ends
            there), p_end, p_continue, generated (text that the model writes there)
checkpoint  step, path (relative), best
warning     message
done        step, reason (finished, stopped), best_step, adapter, adapter_gguf (relative; null: none)
error       message, hint
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from engine.base.files import create_private_file
from engine.training.config import NUMBER_LIMIT

Event = dict[str, Any]
"""One event, as JSON values."""

_WHOLE_NUMBERS = {
    "step", "steps", "examples", "tokens", "end_labels", "other_labels", "valid", "pid", "memory", "n", "best_step",
}  # fmt: skip
"""Fields of events that are whole numbers."""

_NUMBERS = {
    "time", "epoch", "loss", "learning_rate", "tokens_per_s", "seconds_left", "auroc", "f1", "p_end", "p_continue",
}  # fmt: skip
"""Fields of events that may be fractions."""

_OUT_OF_MEMORY = (
    "out of memory",
    "outofmemory",
    "cannot allocate memory",
    "can't allocate memory",
    "memoryerror",
    "bad_alloc",
)
"""Parts, in small letters, of error messages about a lack of memory."""


class EventLog:
    """Appends events to a file; each is flushed at once."""

    def __init__(self, path: Path) -> None:
        """Opens the file, and creates it if there is none."""
        # a process that was killed may have left half a line
        _end_line(path)
        create_private_file(path)
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def write(self, event: str, **fields: Any) -> None:
        """Appends one event."""
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Returns the events from a byte offset on, and the offset after them.

    An incomplete last line is left for the next call. Lines that are no events, or have no number where one belongs,
    are skipped: a killed process may have left one, and the folder may come from a stranger.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    complete_lines = data[: data.rfind(b"\n") + 1]
    events = []
    for line in complete_lines.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            event = json.loads(line)
            if _is_event(event):
                events.append(event)
    return events, offset + len(complete_lines)


def is_out_of_memory(text: str) -> bool:
    """Returns whether a text, such as the message of an `error`, is about a lack of memory."""
    lower_text = text.lower()
    return any(words in lower_text for words in _OUT_OF_MEMORY)


def _is_event(event: Any) -> bool:
    """Returns whether a value is an event in whose fields numbers stand where numbers belong.

    Figures may be NaN or infinite, as the loss of a run that diverged is; whole numbers and the time are within
    `NUMBER_LIMIT`.
    """
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return False
    counts = (event[name] for name in _WHOLE_NUMBERS & event.keys())
    figures = (event[name] for name in _NUMBERS & event.keys())
    event_time = event.get("time")
    return (
        all(value is None or _is_count(value) for value in counts)
        and all(value is None or isinstance(value, float) or _is_count(value) for value in figures)
        and (event_time is None or abs(event_time) < NUMBER_LIMIT)  # a time that is NaN is none
    )


def _is_count(value: Any) -> bool:
    """Returns whether a value is a whole number that a run can have."""
    return type(value) is int and abs(value) < NUMBER_LIMIT  # a truth value is no number


def _end_line(path: Path) -> None:
    """Adds a line break to a file if its last line has none."""
    with contextlib.suppress(FileNotFoundError), path.open("rb+") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            file.write(b"\n")
