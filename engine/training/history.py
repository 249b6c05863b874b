"""Reads the state of a training run, its curves, and the cause of a failure, from the files of its directory.

Each read continues after the last one. A run may have several processes, one after another, because it can be resumed.
The *manifest* is the file with what the run was made of: when, from which filter, and how many conversations each part
has.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec import convert
from msgspec.structs import asdict

from engine.base.files import DISK_FULL_MESSAGE, TRAINING_DISK_FULL_HINT, is_disk_full
from engine.training import process
from engine.training.config import ConfigError, TrainConfig
from engine.training.events import Event, is_out_of_memory, read_events
from engine.training.records import (
    LossPoint,
    RunDetail,
    RunState,
    SampleRow,
    Setting,
    TrainingRun,
    ValidPoint,
)
from engine.training.run_directory import RunDirectory, is_running
from engine.training.run_files import manifest_summary

TAIL_BYTES = 64 << 10
"""Bytes at the end of the log in which the cause of a failure is looked for."""

LAST_LINES = 12
"""Number of last lines of the log that are shown with a run."""

LOWER_MEMORY_HINT = (
    "Lower rows or max_tokens, set recompute=true, or use a smaller base; then start or resume it."
)
"""Hint about a run that ran out of memory."""

RESUME_HINT = "Resume it: it continues at its last checkpoint."
"""Hint about a run that someone or the system ended."""

LOG_HINT = "log.txt in the run directory has the rest."
"""Hint about a run that ended with another error."""

_KILLED = -9
"""Exit code of a process after SIGKILL."""

_TERMINATED = (-15, 143)
"""Exit codes of a process after SIGTERM: the one of the system, and the one of the trainer."""


@dataclass(slots=True)
class _Events:
    """The content of the events that were read so far.

    Attributes:
        offset: Number of bytes that were read.
        file: The file that they are from, as (device, inode).
        loss: The training loss of each event `step`, by step.
        valid: The figures of each validation, by step.
        samples: The samples by step, conversation and text before the boundary.
        warnings: The messages of the events `warning`.
        resumed: Steps at which the run was resumed.
        started: The last event `started`.
        last_step: The last event `step`; None if a resumed process repeats it.
        validating: Whether a validation has begun and not ended.
        ending: The event `done` or `error` after the last event `started`; None if there is none.
        decisive: The newest event `started`, `step`, `checkpoint`, `done` or `error`: if no process is alive, the state
            of the run follows from it.
        best: The last validation that is marked as best; the first one if none is.
        past_seconds: Running time of earlier processes.
        began: Time of `started`, in seconds since the epoch.
        last_time: Time of the newest event that is no warning, in seconds since the epoch.
    """

    offset: int = 0
    file: tuple[int, int] | None = None
    loss: dict[int, float] = field(default_factory=dict)
    valid: dict[int, ValidPoint] = field(default_factory=dict)
    samples: dict[tuple[int, str, str], SampleRow] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    started: Event | None = None
    last_step: Event | None = None
    validating: bool = False
    ending: Event | None = None
    decisive: Event | None = None
    best: ValidPoint | None = None
    past_seconds: float = 0.0
    began: float | None = None
    last_time: float = 0.0


class RunHistory:
    """Reads the history of one run; each call reads only the events that were written since the last call."""

    def __init__(self, run: RunDirectory) -> None:
        """Reads nothing yet."""
        self.run = run
        self._events = _Events()
        self._config: TrainConfig | None = None

    @property
    def config(self) -> TrainConfig | None:
        """The config of the run, read anew each time; where it cannot be read, the last one that could, else None."""
        with contextlib.suppress(ConfigError):
            self._config = TrainConfig.load(self.run.config)
        return self._config

    def row(self, in_use: bool = False) -> TrainingRun:
        """Returns the current state of the run; `in_use` is whether scoring uses its adapter."""
        # the process is checked first: if it ends right after that, its last event is still read
        alive = is_running(self.run)
        events = self._refresh()
        state = self._state(alive)
        problem, hint = self._problem(state)
        pid = process.pid_of(self.run) if alive else None
        config, manifest = self.config, manifest_summary(self.run)
        counts = manifest.get("counts")
        counts = counts if isinstance(counts, dict) else {}
        last_step, started = events.last_step or {}, events.started or {}
        done = events.ending if events.ending and events.ending["event"] == "done" else {}
        first_step = started.get("step") if alive else None
        return TrainingRun(
            name=self.run.path.name,
            state=state,
            recipe=config.recipe if config else "",
            base=config.base_name or config.base if config else "",
            conversations=_first_number(counts.get("train"), started.get("examples")),
            # "valid" selects the checkpoint and "test" tests it; without a manifest only the first is known
            held_out=_first_number(counts.get("held_out"), started.get("valid")),
            selection=_first_number(counts.get("valid")),
            test=_first_number(counts.get("test")),
            created_at=str(manifest.get("created_at", "")),
            seconds=self._seconds(pid),
            step=last_step.get("step", done.get("step", first_step)),
            steps=started.get("steps"),
            epoch=last_step.get("epoch"),
            epochs=config.epochs if config else None,
            loss=last_step.get("loss"),
            tokens_per_s=last_step.get("tokens_per_s"),
            seconds_left=self._seconds_left(pid) if alive else None,
            validating=alive and events.validating,
            memory=last_step.get("memory"),
            auroc=events.best.auroc if events.best else None,
            f1=events.best.f1 if events.best else None,
            best_step=events.best.step if events.best else None,
            pid=pid,
            stopping=alive and self.run.stop_file.exists(),
            problem=problem,
            hint=hint,
            # a failed run may have an adapter whose weights are not numbers
            adapter=self.run.adapter_gguf.exists() and state not in ("running", "failed"),
            in_use=in_use,
        )

    def detail(self, in_use: bool = False) -> RunDetail:
        """Returns the state, curves, samples and config of the run; `in_use` is whether scoring uses its adapter."""
        row = self.row(in_use)
        events, config = self._events, self.config
        manifest = manifest_summary(self.run)
        return RunDetail(
            run=row,
            loss=tuple(LossPoint(step, loss) for step, loss in sorted(events.loss.items())),
            valid=tuple(point for _, point in sorted(events.valid.items())),
            resumed=tuple(events.resumed),
            samples=tuple(sorted(events.samples.values(), key=lambda sample: sample.step)),
            warnings=tuple(events.warnings),
            last_lines=tuple(self._log_end().splitlines()[-LAST_LINES:]),
            config=tuple(
                Setting(name, _as_typed(value))
                for name, value in (asdict(config) if config else {}).items()
            ),
            filter=str(manifest.get("filter", "")),
            folder=str(self.run.path),
        )

    def _log_end(self) -> str:
        """Returns the last `TAIL_BYTES` of the log of the run, as untrusted text; "" if it cannot be read."""
        try:
            with self.run.log.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def speed(self) -> float | None:
        """Returns the training speed in tokens a second; None before the first step."""
        last_step = self._refresh().last_step or {}
        speed = last_step.get("tokens_per_s")
        return float(speed) if speed else None

    def _refresh(self) -> _Events:
        """Reads the events that were written since the last call, and returns the content of all."""
        file: tuple[int, int] | None = None
        with contextlib.suppress(OSError):
            status = self.run.events.stat()
            file = (status.st_dev, status.st_ino)
        if file != self._events.file:
            # the run was deleted, and perhaps another one created under the same name
            self._events = _Events(file=file)
        events, self._events.offset = read_events(self.run.events, self._events.offset)
        for event in events:
            # events with missing or wrong fields are skipped
            with contextlib.suppress(KeyError, TypeError, ValueError):
                _add_event(self._events, event)
        return self._events

    def _state(self, alive: bool) -> RunState:
        """Returns the state of the run; `alive` is whether it has a process."""
        decisive = self._events.decisive
        if alive:
            return "running"
        if decisive is None:
            return "failed" if self.run.log.exists() else "new"
        if decisive["event"] == "done":
            return "stopped" if decisive.get("reason") == "stopped" else "finished"
        return "failed" if decisive["event"] == "error" else "interrupted"

    def _problem(self, state: RunState) -> tuple[str, str]:
        """Returns why the run failed or was interrupted, and a hint; two empty texts in any other state."""
        if state == "failed" and self._events.ending is not None:
            message = str(self._events.ending.get("message", ""))
            hint = str(self._events.ending.get("hint", ""))
            return message, LOWER_MEMORY_HINT if not hint and is_out_of_memory(message) else hint
        if state not in ("failed", "interrupted"):
            return "", ""
        code = process.exit_code(self.run)
        tail = self._log_end()
        if is_out_of_memory(tail):
            return "Out of memory.", LOWER_MEMORY_HINT
        if is_disk_full(tail, self.run.path):
            return (
                f"{DISK_FULL_MESSAGE}: {self.run.path.name} could not be written.",
                TRAINING_DISK_FULL_HINT,
            )
        if code == _KILLED:
            return (
                "The process was killed: by someone, or by the system because memory ran out.",
                f"Resume it. If memory ran out: {LOWER_MEMORY_HINT[:1].lower()}{LOWER_MEMORY_HINT[1:]}",
            )
        if code in _TERMINATED:
            return "The process was terminated.", RESUME_HINT
        last = next((line for line in reversed(tail.splitlines()) if line.strip()), "")
        if state == "failed" or code:
            return last or "The process ended before training started.", LOG_HINT
        return (
            "The process ended without an error: it was killed, or the machine went down.",
            RESUME_HINT,
        )

    def _seconds(self, pid: int | None) -> float:
        """Returns the running time of all processes together, in seconds; `pid` is the id of the running one, or
        None."""
        events = self._events
        if events.began is None or events.started is None:
            return 0.0
        # a process that resumes a run writes `started` only after it has loaded the weights
        has_started = pid is not None and events.started.get("pid") == pid
        until = datetime.now(UTC).timestamp() if has_started else events.last_time
        return events.past_seconds + max(0.0, until - events.began)

    def _seconds_left(self, pid: int | None) -> float | None:
        """Returns the seconds left by the last step; None where the running process, `pid`, has done no step yet."""
        events, last_step = self._events, self._events.last_step or {}
        seconds_left = last_step.get("seconds_left")
        if seconds_left is None or not math.isfinite(seconds_left):
            return None
        # a process that resumes the run has first no `started` of its own, and then no step after that
        is_own_start = pid is None or (events.started or {}).get("pid", pid) == pid
        step_time = last_step.get("time", events.last_time)
        is_of_earlier_process = events.began is not None and step_time < events.began
        return float(seconds_left) if is_own_start and not is_of_earlier_process else None


def _as_typed(value: Any) -> str:
    """Formats the value of a setting as it is typed on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _add_event(events: _Events, event: Event) -> None:
    """Adds the content of one event; raises KeyError, TypeError or ValueError if a field is missing or wrong."""
    kind = event["event"]
    time = float(event.get("time", events.last_time))
    if kind == "started":
        if events.began is not None:
            step = int(event["step"])  # raises before anything of a wrong event is added
            _drop_events_after(events, step)
            events.past_seconds += max(0.0, events.last_time - events.began)
            events.resumed.append(step)
        events.began, events.started, events.ending = time, event, None
    elif kind == "step":
        events.loss[int(event["step"])] = float(event["loss"])
        events.last_step = event
    elif kind == "valid":
        point = convert(event, ValidPoint)
        events.valid[point.step] = point
        events.best = point if point.best or events.best is None else events.best
    elif kind == "sample":
        sample = convert(event, SampleRow)
        events.samples[sample.step, sample.id, sample.text] = sample
    elif kind == "warning":
        events.warnings.append(str(event["message"]))
    elif kind in ("done", "error"):
        events.ending = event
    if kind in ("started", "step", "checkpoint", "done", "error"):
        events.decisive = event
    if kind in ("started", "step", "valid", "validating", "done", "error"):
        events.validating = kind == "validating"
    if kind != "warning":  # a process that resumes may warn before it has `started`
        events.last_time = max(events.last_time, time)


def _drop_events_after(events: _Events, step: int) -> None:
    """Drops what is known of the steps after a step, which a resumed process repeats."""
    if events.last_step is not None and events.last_step["step"] > step:
        events.last_step = None
    events.loss = {at_step: loss for at_step, loss in events.loss.items() if at_step <= step}
    events.valid = {at_step: point for at_step, point in events.valid.items() if at_step <= step}
    events.samples = {key: sample for key, sample in events.samples.items() if sample.step <= step}
    events.best = None
    for _, point in sorted(events.valid.items()):
        if point.best or events.best is None:
            events.best = point


def _first_number(*values: Any) -> int:
    """Returns the first value that is a whole number, 0 if none is; those of a damaged manifest need not be."""
    return next((value for value in values if isinstance(value, int)), 0)
