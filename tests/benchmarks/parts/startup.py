"""Measures how long the program takes to start: its help, its import, its first frame."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import WorkbenchError
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.benchmarks.parts.terminal import Terminal, drawn, plain
from tests.benchmarks.rounds import rounds

PAINT_SECONDS = 60.0


BARE_APP = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("one line")
Bare().run()
"""
"""The least that Textual draws, which is what the first frame is compared with."""


def bench_startup(
    progress: Callable[[str], None], *, most: int = 5, seconds: float = math.inf
) -> dict[str, Any]:
    """Starts the program again and again, by turns with a Textual app that shows one line.

    Args:
        most, seconds: Rounds, and time for them.

    Returns:
        Seconds, best, median and of each round: `help_s`, `help_median_s` and `help_rounds_s` of `workbench --help`;
        with `app_import` in front those of importing the app, with `first_paint` those from the start of the process
        to the end of the first frame with something in it on a terminal, with `bare_paint` those of the app with one
        line; `paint_over_bare` (median of the ratios of neighbouring rounds) and `paint_ratios`.
    """
    found: dict[str, Any] = {}
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        project = Path(name) / "first-paint.wb"
        make_project(project)
        kinds: dict[str, Callable[[], float]] = {
            "help": lambda: _seconds([sys.executable, "-m", "workbench", "--help"]),
            "app_import": lambda: _seconds([sys.executable, "-c", "import workbench.app"]),
            "first_paint": lambda: first_paint([sys.executable, "-m", "workbench", str(project)]),
            "bare_paint": lambda: first_paint([sys.executable, "-c", BARE_APP]),
        }
        for number in rounds(most, seconds):
            progress(f"starting the program, round {number + 1} of at most {most}")
            for key, work in kinds.items():
                measured.setdefault(key, []).append(work())
    for key, times in measured.items():
        found[f"{key}_s"] = min(times)
        found[f"{key}_median_s"] = statistics.median(times)
        found[f"{key}_rounds_s"] = times
    pairs = zip(measured["first_paint"], measured["bare_paint"], strict=True)
    found["paint_ratios"] = [ours / bare for ours, bare in pairs]
    found["paint_over_bare"] = statistics.median(found["paint_ratios"])
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
