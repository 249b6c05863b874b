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


def send(frame: dict[str, Any]) -> None:
    """Writes one frame."""
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def hold() -> None:
    """Does nothing until it is killed."""
    while True:
        time.sleep(60)


def answer(scenario: str, request: dict[str, Any], first_life: bool) -> None:
    """Answers one request as the scenario says."""
    number = request["id"]
    if request["type"] == "cancel":
        if scenario != "deaf":
            send({"type": "cancelled", "id": number})
    elif scenario == "error":
        frame = {"kind": "ModelFileError", "message": "It is broken.", "hint": "Mend it."}
        send({"type": "error", "id": number, **frame})
    elif scenario == "strange error":
        send({"type": "error", "id": number, "kind": "Nonsense", "message": "Odd.", "hint": ""})
    elif scenario == "garbage":
        sys.stdout.write("Segmentation fault, perhaps\n")
        sys.stdout.flush()
        hold()
    elif scenario == "late answers":
        send({"type": "result", "id": number - 1, "result": [99]})
        send({"type": "progress", "id": number - 1, "done": 99})
        send({"type": "progress", "id": number, "done": 3, "note": "going"})
        send({"type": "result", "id": number, "result": [1]})
    elif scenario == "dies once" and first_life and request["type"] != "Load":
        os.kill(os.getpid(), signal.SIGKILL)
    elif scenario == "exits":
        sys.exit(7)
    elif scenario not in ("deaf", "slow"):
        send({"type": "result", "id": number, "result": [1]})


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
    send({"type": "hello", "id": 0, "version": 0 if scenario == "another version" else 2})
    for line in sys.stdin:
        with Path(history).open("a") as file:
            file.write(line)
        answer(scenario, json.loads(line), first_life)


if __name__ == "__main__":
    main(*sys.argv[1:])
