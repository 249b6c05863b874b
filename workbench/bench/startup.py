"""How long a person waits for the first thing to happen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import WorkbenchError
from engine.jobs import JobRunner
from engine.simulate.samples import sample_conversations, write_jsonl
from engine.stages.importing import ImportStage
from engine.store.project import Project

PAINT_SECONDS = 60.0
ROWS, COLUMNS = 40, 120
_PROJECT = "first-paint"
_ESCAPES = re.compile(
    rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_].*?\x1b\\|[@-Z\\-_])"
)


def bench_startup(progress: Callable[[str], None], *, rounds: int = 5) -> dict[str, Any]:
    """Starts the program again and again.

    Returns:
        Seconds, best and median: `help_s` and `help_median_s` of `workbench --help`, `app_import_s` and
        `app_import_median_s` of importing the app, `first_paint_s` and `first_paint_median_s` from the start of
        the process to the project's name on the screen of a terminal.
    """
    progress("starting --help")
    helps = [_seconds([sys.executable, "-m", "workbench", "--help"]) for _ in range(rounds)]
    progress("importing the app")
    imports = [_seconds([sys.executable, "-c", "import workbench.app"]) for _ in range(rounds)]
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        project = Path(name) / f"{_PROJECT}.wb"
        _make_project(project)
        progress("opening a project in a terminal")
        paints = [_first_paint(project) for _ in range(rounds)]
    found: dict[str, Any] = {}
    for key, seconds in (("help", helps), ("app_import", imports), ("first_paint", paints)):
        found[f"{key}_s"] = min(seconds)
        found[f"{key}_median_s"] = statistics.median(seconds)
    return found


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise WorkbenchError(f"`{' '.join(command[1:])}` failed: {last}")
    return seconds


def _make_project(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        source = Path(name) / "samples.jsonl"
        write_jsonl(sample_conversations(), source)
        with Project.open(path, create=True) as project:
            JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))


def _first_paint(project: Path) -> float:
    """Runs the program in a terminal of its own until it has drawn the project's name."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", str(project)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    try:
        drawn = b""
        while _PROJECT.encode() not in _ESCAPES.sub(b"", drawn):
            left = start + PAINT_SECONDS - time.perf_counter()
            ready = left > 0 and select.select([ours], [], [], left)[0]
            more = _read(ours) if ready else b""
            if not more:
                last = _ESCAPES.sub(b"", drawn).decode("utf-8", "replace").strip()[-300:]
                raise WorkbenchError(f"The app did not draw the project: {last!r}")
            drawn += more
        return time.perf_counter() - start
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how a terminal ends whose other side is closed
        return b""
