"""How long from a key to its paint while a scoring job runs, measured from a terminal on the real model.

    python -m tests.benchmarks.key_to_paint

Opens a project of sample conversations, starts scoring by keys, then walks up and down the list at an uneven pace. A
key counts as painted at the end of the first frame that touches the list; frames that only move the job's progress do
not count. Scoring goes on meanwhile and its speed is taken too, from the scores in the file.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.benchmarks.parts.startup import make_project
from tests.benchmarks.parts.terminal import FRAME_END
from tests.terminal.pty import Session

ROWS, COLUMNS = 40, 120
LIST = range(5, ROWS - 2)
"""Lines of the screen on which rows of the list stand."""
KEY_SECONDS = 5.0
_MOVES = re.compile(rb"\x1b\[(\d+);\d+H")


def painted(output: bytes) -> bool:
    """Whether a finished frame in this output touches the list."""
    whole = output[: output.rfind(FRAME_END) + 1]
    return any(int(row) in LIST for row in _MOVES.findall(whole))


def key_seconds(session: Session, key: str) -> float:
    """Seconds from a key to the end of the frame that shows its effect."""
    session.settle()
    terminal = session.terminal
    before = len(terminal.output)
    start = time.perf_counter()
    terminal.press(key)
    if not terminal.until(lambda output: painted(output[before:]), KEY_SECONDS):
        raise SystemExit(f"{key!r} was not painted:\n{session.screen.text()}")
    seconds = terminal.last - start
    session.screen.feed(bytes(terminal.output[before:]))
    return seconds


def scored(path: Path) -> int:
    """Conversations that have a score by now."""
    with Project.open(path, read_only=True) as project:
        return ConversationService(project).counts().scored


def measure(path: Path, keys: int, idle: bool) -> None:
    """Walks the list and prints what it took; `idle` leaves scoring out."""
    pace = random.Random(7)
    with Session(str(path), rows=ROWS, columns=COLUMNS) as session:
        session.wait("Conversations")
        session.press("2")
        session.wait("of 1,000")
        if not idle:
            session.press("r")
            session.wait("enter starts")
            session.press("\r")
            session.wait(lambda seen: re.search(r"[1-9]\d* of 1,000 conv", seen) is not None)
        done, start = scored(path), time.perf_counter()
        found = []
        for number in range(keys):
            found.append(key_seconds(session, "j" if number % 40 < 20 else "k"))
            time.sleep(pace.uniform(0.0, 0.1))
        seconds, more = time.perf_counter() - start, scored(path) - done
    found.sort()
    sys.stdout.write(
        f"{'idle' if idle else 'scoring':<8} {keys} keys: p50 {statistics.median(found) * 1e3:.1f} ms,"
        f" p95 {found[int(keys * 0.95)] * 1e3:.1f} ms, worst {found[-1] * 1e3:.1f} ms;"
        f" {more} conversations scored in {seconds:.1f} s, {more / seconds:.2f} a second\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Measures without and with a scoring job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="key-to-paint-") as name:
        path = Path(name) / "thousand.wb"
        make_project(path, 1000)
        for idle in (True, False):
            measure(path, arguments.keys, idle)


if __name__ == "__main__":
    main()
