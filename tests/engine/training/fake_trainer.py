"""A trainer for tests of errors and timing: writes a trainer's events, computes nothing. `FAKE_TRAINER` says what it
does: `obeys` (ends after its step when asked), `finishes`, `late` (ends on SIGTERM only), `deaf` (not even then),
`fails`, `no-memory`, `never` (crashes before it begins).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from engine.training.events import EventLog
from engine.training.run_directory import RunDirectory, lock_run

LOCK_SECONDS = 5.0
"""Whoever asks whether the run is running holds its lock for a moment."""

STEPS = int(os.environ.get("FAKE_STEPS", "400"))


def main() -> None:
    """Runs on the run directory in the last word of the command."""
    run, kind = RunDirectory(Path(sys.argv[-1])), os.environ["FAKE_TRAINER"]
    if kind == "never":
        sys.exit("ImportError: libsomething.so: no such file")
    until = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < until:
        with lock_run(run) as had:
            if had:
                run.lock_file.write_text(str(os.getpid()))
                return work(run, kind)
        time.sleep(0.02)
    raise AssertionError("another works on it")


def work(run: RunDirectory, kind: str) -> None:
    """Writes the events of one process."""
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "deaf" else end)
    events = EventLog(run.events)
    events.write(
        "started", step=0, steps=STEPS, examples=3, tokens=90, end_labels=3, other_labels=5, valid=2,
        pid=os.getpid(),
    )  # fmt: skip
    for step in range(1, STEPS + 1):
        events.write(
            "step", step=step, epoch=step / STEPS, loss=1 / step, learning_rate=1e-4, tokens=30 * step,
            tokens_per_s=300.0, seconds_left=1.0, memory=1 << 30,
        )  # fmt: skip
        if step == 2:
            events.write("valid", step=2, loss=0.5, auroc=0.75, f1=0.5, n=2, best=True)
            events.write("checkpoint", step=2, path="checkpoints/2", best=True)
        if kind == "fails":
            events.write("error", message="The base is broken.", hint="Get it again.")
            sys.exit(1)
        if kind == "no-memory":
            os.write(1, b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "finishes" and step == 3:
            return done(run, events, step, "finished")
        if ended or (kind == "obeys" and run.stop_file.exists()):
            events.write("validating", step=step)
            return done(run, events, step, "stopped")
        time.sleep(0.05)
    raise AssertionError("nobody stopped it")


def done(run: RunDirectory, events: EventLog, step: int, reason: str) -> None:
    """Writes the last events of a trainer with an adapter."""
    run.adapter_gguf.write_bytes(b"GGUF")
    events.write(
        "done", step=step, reason=reason, best_step=2, adapter=None, adapter_gguf="adapter.gguf"
    )


if __name__ == "__main__":
    main()
