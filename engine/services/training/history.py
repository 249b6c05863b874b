"""What the events of a run come to: curves, the state, and why it failed. Reads only what was written since."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from engine.run_directory.config import RETIRED_RECIPE, ConfigError, TrainConfig
from engine.run_directory.events import (
    Event,
    RunDirectory,
    State,
    is_out_of_memory,
    read_events,
    state_of,
)
from engine.services.training import process
from engine.services.training.records import (
    LossPoint,
    Parity,
    RunDetail,
    SampleRow,
    Setting,
    TrainingRun,
    ValidPoint,
)
from engine.services.training.run_files import about_data

CURVE_POINTS = 1000
TAIL_BYTES = 64 << 10
LOG_BYTES = 1 << 20
LAST_LINES = 12

LOWER_MEMORY = (
    "Lower rows or max_tokens, set recompute=true, or take a smaller base; then start or resume it."
)
GO_ON = "Resume it: it goes on at its last checkpoint."
_KILLED = -9
_ENDED = (-15, 143)
"""SIGTERM, as the process tells it or the system."""


@dataclass(slots=True)
class _Read:
    """Everything that was read of the event file so far."""

    offset: int = 0
    file: tuple[int, int] | None = None
    loss: dict[int, float] = field(default_factory=dict)
    valid: dict[int, ValidPoint] = field(default_factory=dict)
    samples: dict[tuple[int, str, str], SampleRow] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    parity: Parity | None = None
    started: Event | None = None
    newest: Event | None = None
    validating: Event | None = None
    ending: Event | None = None
    decisive: Event | None = None
    best: ValidPoint | None = None
    past_seconds: float = 0.0
    began: float | None = None
    last: float = 0.0


class RunHistory:
    """One run; ask it again and it takes in what was written since."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._read = _Read()
        self._config: TrainConfig | None = None

    @property
    def config(self) -> TrainConfig | None:
        """What the run was told; None where that cannot be read."""
        with contextlib.suppress(ConfigError):
            self._config = TrainConfig.load(self.run.config)
        return self._config

    def row(self, in_use: bool = False) -> TrainingRun:
        """The run as it stands."""
        # In this order: a process that ends between the two has written its last event.
        works = process.works(self.run)
        read = self._refresh()
        state = self._state(works)
        problem, hint = self._problem(state)
        pid = process.pid_of(self.run) if works else None
        config, manifest = self.config, about_data(self.run)
        counts = manifest.get("counts", {})
        newest = read.newest or {}
        validating = read.validating or {} if works else {}
        done = read.ending if read.ending and read.ending["event"] == "done" else {}
        started = read.started or {}
        return TrainingRun(
            name=self.run.path.name,
            state=state,
            recipe=config.recipe if config else "",
            base=config.base_name or config.base if config else "",
            conversations=int(counts.get("train", started.get("examples", 0))),
            held_out=int(counts.get("held_out", started.get("valid", 0))),
            created_at=str(manifest.get("created_at") or self._created()),
            seconds=self._seconds(pid),
            step=newest.get("step", done.get("step", started.get("step") if works else None)),
            steps=started.get("steps"),
            epoch=newest.get("epoch"),
            epochs=config.epochs if config else None,
            loss=newest.get("loss"),
            tokens_per_s=newest.get("tokens_per_s"),
            seconds_left={**newest, **validating}.get("seconds_left") if works else None,
            validated=validating.get("done"),
            to_validate=validating.get("of"),
            memory=newest.get("memory"),
            auroc=read.best.auroc if read.best else None,
            f1=read.best.f1 if read.best else None,
            best_step=read.best.step if read.best else None,
            pid=pid,
            stopping=works and self.run.stop.exists(),
            problem=problem,
            hint=hint,
            # One that llama.cpp reads otherwise than it was trained is there too, and its run failed.
            adapter=self.run.adapter_gguf.exists() and state not in ("running", "failed"),
            in_use=in_use,
        )

    def detail(self, in_use: bool = False) -> RunDetail:
        """The run with its curves, samples and settings."""
        row = self.row(in_use)
        read = self._read
        manifest = about_data(self.run)
        return RunDetail(
            run=row,
            loss=_thinned([LossPoint(step, loss) for step, loss in sorted(read.loss.items())]),
            valid=tuple(point for _, point in sorted(read.valid.items())),
            resumed=tuple(read.resumed),
            samples=tuple(sorted(read.samples.values(), key=lambda sample: sample.step)),
            warnings=(*retired_warning(self.config), *read.warnings),
            parity=read.parity,
            last_lines=tuple(self.log(TAIL_BYTES).splitlines()[-LAST_LINES:]),
            config=settings_of(self.config),
            filter=str(manifest.get("filter", "")),
            folder=str(self.run.path),
        )

    def log(self, most: int = LOG_BYTES) -> str:
        """The end of what the processes of the run wrote, at most so many bytes; may hold anything."""
        try:
            with self.run.log.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - most))
                data = file.read()
        except OSError:
            return ""
        # Progress bars draw over their line; what they drew last is what they say.
        lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)

    def speed(self) -> float | None:
        """Tokens a second that training reached; None before the first step."""
        newest = self._refresh().newest or {}
        speed = newest.get("tokens_per_s")
        return float(speed) if speed else None

    def tokens(self) -> int | None:
        """Tokens of one epoch as the trainer counted them; None before it began."""
        started = self._refresh().started or {}
        count = started.get("tokens")
        return int(count) if count else None

    def _refresh(self) -> _Read:
        file: tuple[int, int] | None = None
        with contextlib.suppress(OSError):
            status = self.run.events.stat()
            file = (status.st_dev, status.st_ino)
        if file != self._read.file:
            # Deleted, and perhaps begun again under the same name.
            self._read = _Read(file=file)
        events, self._read.offset = read_events(self.run.events, self._read.offset)
        for event in events:
            # A line that is an event but not one of ours says nothing.
            with contextlib.suppress(KeyError, TypeError, ValueError):
                _take(self._read, event)
        return self._read

    def _state(self, works: bool) -> State:
        decisive = self._read.decisive
        if works:
            return "running"
        if decisive is None:
            return "failed" if process.was_started(self.run) else "new"
        return state_of([decisive], running=False)

    def _problem(self, state: State) -> tuple[str, str]:
        """Why a run did not come to its end, and what to do."""
        if state == "failed" and self._read.ending is not None:
            message = str(self._read.ending.get("message", ""))
            hint = str(self._read.ending.get("hint", ""))
            return message, LOWER_MEMORY if not hint and is_out_of_memory(message) else hint
        if state not in ("failed", "interrupted"):
            return "", ""
        code = process.exit_code(self.run)
        tail = self.log(TAIL_BYTES)
        if is_out_of_memory(tail):
            return "The memory did not suffice.", LOWER_MEMORY
        if code == _KILLED:
            return (
                "The process was killed from outside: by someone, or by the system for want of memory.",
                f"Resume it. If memory was short: {LOWER_MEMORY[0].lower()}{LOWER_MEMORY[1:]}",
            )
        if code in _ENDED:
            return "The process was asked to end at once.", GO_ON
        last = next((line for line in reversed(tail.splitlines()) if line.strip()), "")
        if state == "failed" or code:
            return last or "The process ended before it began.", "The log says more."
        return (
            "The process ended without a word: it was killed, or the machine went down.",
            GO_ON,
        )

    def _seconds(self, pid: int | None) -> float:
        read = self._read
        if read.began is None or read.started is None:
            return 0.0
        # A process that goes on with a run says so only once it has read its weights.
        working = pid is not None and read.started.get("pid") == pid
        until = datetime.now(UTC).timestamp() if working else read.last
        return read.past_seconds + max(0.0, until - read.began)

    def _created(self) -> str:
        try:
            time = self.run.config.stat().st_mtime
        except OSError:
            return ""
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def retired_warning(config: TrainConfig | None) -> tuple[str, ...]:
    """Says of a run whose recipe this version no longer trains that it is so; empty for every other run."""
    if config is None or config.recipe != RETIRED_RECIPE:
        return ()
    return (f"The recipe {RETIRED_RECIPE} is no longer trained; this run can only be read.",)


def settings_of(config: TrainConfig | None) -> tuple[Setting, ...]:
    """A config in words, in the order of its fields."""
    if config is None:
        return ()
    return tuple(
        Setting(one.name, shown(getattr(config, one.name)), str(one.metadata.get("help", "")))
        for one in fields(config)
    )


def shown(value: Any) -> str:
    """A value of a setting as a person would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _take(read: _Read, event: Event) -> None:
    kind = event["event"]
    time = float(event.get("time", read.last))
    if kind == "started":
        if read.began is not None:
            read.past_seconds += max(0.0, read.last - read.began)
            read.resumed.append(int(event["step"]))
            _undo_after(read, int(event["step"]))
        read.began, read.started, read.ending = time, event, None
    elif kind == "step":
        read.loss[int(event["step"])] = float(event["loss"])
        read.newest = event
    elif kind == "valid":
        point = _valid(event)
        read.valid[point.step] = point
        read.best = point if point.best or read.best is None else read.best
    elif kind == "sample":
        sample = _sample(event)
        read.samples[sample.step, sample.id, sample.text] = sample
    elif kind == "warning":
        read.warnings.append(str(event["message"]))
    elif kind == "parity":
        read.parity = _parity(event)
    elif kind in ("done", "error"):
        read.ending = event
    if kind in ("started", "step", "checkpoint", "done", "error"):
        read.decisive = event
    if kind in ("started", "step", "valid", "validating", "done", "error"):
        read.validating = event if kind == "validating" else None
    read.last = max(read.last, time)


def _undo_after(read: _Read, step: int) -> None:
    """Forgets what a later process does again."""
    read.loss = {at: loss for at, loss in read.loss.items() if at <= step}
    read.valid = {at: point for at, point in read.valid.items() if at <= step}
    read.samples = {key: one for key, one in read.samples.items() if one.step <= step}
    read.best = None
    for _, point in sorted(read.valid.items()):
        if point.best or read.best is None:
            read.best = point


def _valid(event: Event) -> ValidPoint:
    return ValidPoint(
        step=int(event["step"]),
        loss=event.get("loss"),
        auroc=event.get("auroc"),
        f1=event.get("f1"),
        n=int(event.get("n", 0)),
        best=bool(event.get("best")),
    )


def _sample(event: Event) -> SampleRow:
    return SampleRow(
        step=int(event["step"]),
        id=str(event["id"]),
        text=str(event["text"]),
        ends=bool(event["ends"]),
        p_end=float(event["p_end"]),
        p_continue=float(event["p_continue"]),
        says=str(event["says"]),
    )


def _parity(event: Event) -> Parity:
    if event.get("skipped"):
        return Parity(None, None, int(event.get("tokens", 0)), str(event["skipped"]))
    return Parity(float(event["top1"]), float(event["max_dp"]), int(event["tokens"]))


def _thinned(points: list[LossPoint]) -> tuple[LossPoint, ...]:
    """At most about `CURVE_POINTS` points: means over equal numbers of neighbours."""
    size = -(-len(points) // CURVE_POINTS)
    if size <= 1:
        return tuple(points)
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    return tuple(LossPoint(p[-1].step, sum(one.loss for one in p) / len(p)) for p in parts)
