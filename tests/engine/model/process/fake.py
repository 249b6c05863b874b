"""A scripted model process: speaks the protocol, records what it is sent, has no model. `python fake.py SCENARIO
HISTORY`; the scenario says how it answers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from engine.model.process.protocol import (
    Answer,
    Ask,
    Cancel,
    CancelDone,
    Failure,
    Frame,
    Hello,
    Working,
    decode,
    encode,
    read_frame,
    write_frame,
)


def send(frame: Frame) -> None:
    """Writes one frame."""
    write_frame(sys.stdout.buffer, frame)


def hold() -> None:
    """Does nothing until it is killed."""
    while True:
        time.sleep(60)


def answer(scenario: str, request: Ask | Cancel, first_life: bool) -> None:
    """Answers one request as the scenario says."""
    number = request.number
    if isinstance(request, Cancel):
        if scenario != "deaf":
            send(CancelDone(number))
        return
    result = encode({} if request.kind == "Load" else [[1]])
    if scenario == "error":
        send(Failure(number, "ModelFileError", "It is broken.", "Mend it."))
    elif scenario == "strange error":
        send(Failure(number, "Nonsense", "Odd.", ""))
    elif scenario == "garbage":
        sys.stdout.write("Segmentation fault, perhaps\n")
        sys.stdout.flush()
        hold()
    elif scenario == "late answers":
        send(Answer(number - 1, encode([99])))
        send(Working(number - 1, 99))
        send(Working(number, 3, "going"))
        send(Answer(number, result))
    elif scenario == "dies once" and first_life and request.kind != "Load":
        os.kill(os.getpid(), signal.SIGKILL)
    elif scenario == "exits":
        sys.exit(7)
    elif scenario not in ("deaf", "slow"):
        send(Answer(number, result))


def noted(frame: Ask | Cancel) -> dict[str, Any]:
    """What the history says of a frame."""
    if isinstance(frame, Cancel):
        return {"type": "cancel", "id": frame.number}
    return {"type": frame.kind, "id": frame.number, "request": decode(Any, frame.request)}


def main(scenario: str, history: str) -> None:
    """Serves until the input closes."""
    lives = Path(history + ".lives")
    first_life = not lives.exists()
    lives.touch()
    if scenario == "dies at start":
        sys.stderr.write("no such library\n")
        sys.exit(3)
    if scenario == "silent":
        hold()
    send(Hello())
    while isinstance(frame := read_frame(sys.stdin.buffer), Ask | Cancel):
        with Path(history).open("a") as file:
            file.write(json.dumps(noted(frame)) + "\n")
        answer(scenario, frame, first_life)


if __name__ == "__main__":
    main(*sys.argv[1:])
