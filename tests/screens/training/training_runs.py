"""Run directories for the tests of the training screen, with the files that a trainer writes."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.training.config import TrainConfig
from engine.training.events import Event
from engine.training.process import Trainers
from engine.training.run_directory import RunDirectory, lock_run
from engine.training.run_files import machine_name, runs_folder

STEPS = 640
PLACES = (
    ("May I have your order number?", False, 0.01, 0.6, "TURN 2, STEP 3, user"),
    ("Your order is confirmed.", True, 0.02, 0.64, "TURN 5, STEP 9, user"),
)
"""Text, whether it ends there, probabilities and reply before training."""

LATER = ((0.001, 0.9, "TURN 2, STEP 3"), (0.93, 0.04, ""))
"""The same after training."""


class HeldTrainers(Trainers):
    """Starts no process: holds the lock of a run in its place until `end`.

    Attributes:
        started: Names of the runs that were started.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: list[str] = []
        self._held: dict[str, contextlib.ExitStack] = {}

    def hold(self, run: RunDirectory) -> None:
        """Makes a run look as if a process works on it."""
        stack = contextlib.ExitStack()
        assert stack.enter_context(lock_run(run))
        self._held[run.path.name] = stack

    def end(self, name: str) -> None:
        """Ends the process of a run."""
        self._held.pop(name).close()

    def end_all(self) -> None:
        """Ends all of them."""
        for name in list(self._held):
            self.end(name)

    def start(self, run: RunDirectory) -> int:
        self.started.append(run.path.name)
        self.hold(run)
        return 0

    def stop(self, run: RunDirectory) -> None:
        run.stop_file.touch()


def write_run(
    project: Path,
    name: str,
    last: int = STEPS,
    *,
    created_at: str = "2026-10-30T09:12:00+00:00",
    best: tuple[float, float] = (0.981, 0.94),
    **config: Any,
) -> RunDirectory:
    """A run that took steps until the last one and wrote nothing since."""
    run = RunDirectory(runs_folder(project) / name)
    run.path.mkdir(parents=True)
    TrainConfig(**{"base": "base.gguf", "base_name": "SmolLM2-135M-Instruct", **config}).save(
        run.config
    )
    held_out = [f"support/{number:04d}" for number in range(1, 19)]
    manifest = {
        "created_at": created_at, "machine": machine_name(), "filter": "turns>2", "held_out": held_out,
        "valid": held_out[:6], "test": held_out[6:],
        "counts": {"train": 18, "valid": 6, "test": 12, "held_out": 18},
    }  # fmt: skip
    run.manifest.write_text(json.dumps(manifest))
    log = f"loading SmolLM2-135M-Instruct\nstep {last}: loss .041\n"
    run.log.write_text(log)
    begin = datetime.fromisoformat(created_at).timestamp()
    events: list[Event] = [_started(0), *(_sample(0, at) for at in range(2))]
    for step in range(1, last + 1):
        if step == 121:
            events.append(_started(120))
        if step % 3 == 1 or step == last:
            events.append(step_event(step))
        if step % 25 == 0:
            events.append(_valid(step, best))
        if step == 400:
            events += [_sample(400, at) for at in range(2)]
    events.append(
        {
            "event": "warning",
            "message": "2 conversations were longer than 2,048 tokens; their beginning was cut.",
        }
    )
    at = 0.0
    for event in events:
        at = event.get("step", at)
        event["time"] = begin + at * 412 / STEPS
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


def finish(run: RunDirectory) -> RunDirectory:
    """Ends a run as a trainer does."""
    run.adapter_gguf.write_bytes(b"GGUF")
    add(run, "done", step=STEPS, reason="finished", best_step=400)
    return run


def fail(run: RunDirectory, message: str, hint: str) -> RunDirectory:
    """Ends a run with an error."""
    add(run, "error", message=message, hint=hint)
    return run


def add(run: RunDirectory, event: str, **fields: Any) -> None:
    """Appends an event at the time of the last one."""
    last = json.loads(run.events.read_text().splitlines()[-1])
    with run.events.open("a") as file:
        file.write(json.dumps({"event": event, "time": last["time"], **fields}) + "\n")


def step_event(step: int, seconds_left: float = 360.0) -> Event:
    """One step."""
    return {
        "event": "step", "step": step, "epoch": 3 * step / STEPS,
        "loss": 0.041 if step == STEPS else 2.3 / (1 + step / 12) + 0.03 + (step * 7 % 5) / 90,
        "tokens_per_s": 1840.0, "seconds_left": seconds_left, "memory": 7_100_000_000,
    }  # fmt: skip


def _started(step: int) -> Event:
    return {
        "event": "started", "step": step, "steps": STEPS, "examples": 18, "tokens": 48_200, "valid": 18,
    }  # fmt: skip


def _valid(step: int, best: tuple[float, float]) -> Event:
    return {
        "event": "valid", "step": step, "loss": 0.5 / (1 + step / 60) + 0.03,
        "auroc": min(best[0], 0.6 + step / 900), "f1": min(best[1], step / 420), "n": 18, "best": step <= 400,
    }  # fmt: skip


def _sample(step: int, at: int) -> Event:
    text, ends, p_end, p_continue, says = PLACES[at]
    if step:
        p_end, p_continue, says = LATER[at]
    return {
        "event": "sample", "step": step, "id": "tau-0132", "text": text, "ends": ends, "p_end": p_end,
        "p_continue": p_continue, "generated": says,
    }  # fmt: skip
