"""Measures how long the program takes to start: its help, its import, its first frame."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import WorkbenchError
from engine.jobs.runner import JobRunner
from engine.simulate.samples import sample_conversations, write_jsonl
from engine.stages.importing import ImportStage
from engine.store.project import Project
from workbench.bench.terminal import Terminal, drawn, plain

PAINT_SECONDS = 60.0


def bench_startup(progress: Callable[[str], None], *, rounds: int = 5) -> dict[str, Any]:
    """Starts the program again and again.

    Returns:
        Seconds, best, median and of each round: `help_s`, `help_median_s` and `help_rounds_s` of `workbench --help`;
        with `app_import` in front those of importing the app, and with `first_paint` those from the start of the
        process to the end of the first frame with something in it on a terminal.
    """
    progress("starting --help")
    helps = [_seconds([sys.executable, "-m", "workbench", "--help"]) for _ in range(rounds)]
    progress("importing the app")
    imports = [_seconds([sys.executable, "-c", "import workbench.app"]) for _ in range(rounds)]
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        project = Path(name) / "first-paint.wb"
        make_project(project)
        progress("opening a project in a terminal")
        command = [sys.executable, "-m", "workbench", str(project)]
        paints = [first_paint(command) for _ in range(rounds)]
    found: dict[str, Any] = {}
    for key, seconds in (("help", helps), ("app_import", imports), ("first_paint", paints)):
        found[f"{key}_s"] = min(seconds)
        found[f"{key}_median_s"] = statistics.median(seconds)
        found[f"{key}_rounds_s"] = seconds
    return found


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise WorkbenchError(f"`{' '.join(command[1:])}` failed: {last}")
    return seconds


def make_project(path: Path, count: int = 120) -> None:
    """A project of so many sample conversations, not scored."""
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        source = Path(name) / "samples.jsonl"
        write_jsonl(sample_conversations(count), source)
        with Project.open(path, create=True) as project:
            JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))


def first_paint(command: Sequence[str]) -> float:
    """Seconds from the start of a full-screen program to the end of its first frame with something in it.

    Raises:
        WorkbenchError: It drew nothing.
    """
    with Terminal(command) as terminal:
        if not terminal.until(drawn, PAINT_SECONDS):
            last = plain(bytes(terminal.output)).decode("utf-8", "replace").strip()[-300:]
            raise WorkbenchError(f"The program did not draw anything: {last!r}")
        return terminal.last - terminal.started
