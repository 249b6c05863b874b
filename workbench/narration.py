"""Prints the results of commands on standard output, and narration and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from engine.base import folders
from engine.base.errors import Cancelled, UsageError
from engine.base.events import Event, JobEnded, JobProgress, JobStarted, ModelRestarted
from engine.base.number_format import duration
from engine.base.text import as_json, display_safe, message_safe, one_line
from engine.jobs.contract import Stage
from engine.jobs.progress import TimeLeft, time_left_text
from engine.opener.open_project import OpenProject
from workbench.command_result import CommandResult

LINE_SECONDS = 10.0
"""Seconds between two progress lines when standard error is not a terminal."""

BAR_WIDTH = 24
"""Width of the progress bar, in columns."""

PLAN_TITLE_WIDTH = 22
"""Width of the title of a stage beside the bar and the time left of a plan, in columns."""


def narrate(*lines: str) -> None:
    """Prints lines of narration on standard error."""
    sys.stderr.writelines(f"{message_safe(line)}\n" for line in lines)
    sys.stderr.flush()


def print_json(result: Any) -> None:
    """Prints one JSON document on standard output."""
    print(as_json(result, indent=1))


def print_text(text: str) -> None:
    """Prints a result as text on standard output; programs read the result of `--json` instead."""
    print(display_safe(text))


def print_result(result: CommandResult, json: bool) -> None:
    """Prints a result as text or as JSON, and its notes and hints on standard error."""
    if json:
        print_json(result.json)
    elif result.drawing is not None:
        Console(highlight=False).print(result.drawing)
    elif result.lines:
        print_text("\n".join(result.lines))
    narrate(*(() if json else result.hints), *result.notes)


def ask_first(what: str, sure: bool) -> None:
    """Asks on the terminal whether to do something that cannot be undone.

    Args:
        what: What would be done, such as `remove the model NAME`.
        sure: Whether the person has agreed already, so that nothing is asked.

    Raises:
        UsageError: There is no terminal.
        Cancelled: The answer is not yes.
    """
    if sure:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"This would {what}.", "Add --yes to do it.")
    narrate(f"This will {what}. Go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Cancelled("Nothing was changed.")


class Narrator:
    """Shows the progress of jobs on standard error: as a bar on a terminal, else as a line every `LINE_SECONDS`."""

    def __init__(self, time_left: TimeLeft | None = None) -> None:
        """Shows nothing yet.

        Args:
            time_left: Estimates the time left of a plan of stages; the bar is then that of the plan, not of one stage.
        """
        self._time_left = time_left
        self._start = time.monotonic()  # seconds
        self._share_shown = 0.0  # share of the plan that the bar shows
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=BAR_WIDTH),
                TextColumn("{task.fields[state]}", markup=False),
                console=console,
                transient=True,
            )
        self._task: TaskID | None = None
        # time of the last line, in seconds, where standard error is no terminal
        self._last_line_at = 0.0

    def __call__(self, event: Event) -> None:
        """Shows an event of the engine."""
        if isinstance(event, JobStarted):
            self._begin(event)
        elif isinstance(event, JobProgress):
            self._progress(event)
        elif isinstance(event, JobEnded):
            self._end(event)
        elif isinstance(event, ModelRestarted):
            narrate(f"{event.reason} It was started anew.")

    def _begin(self, event: JobStarted) -> None:
        """Shows the title of a job and, on a terminal, its bar."""
        self._last_line_at = time.monotonic()
        if self._time_left:
            self._time_left.begin(event.stage)
        if self._bar:
            self._bar.start()
            title = one_line(event.title, PLAN_TITLE_WIDTH) if self._time_left else event.title
            self._task = self._bar.add_task(display_safe(title), total=None, state="")
            if self._time_left:
                self._draw(time_left_text(self._time_left.seconds_left()))
        else:
            narrate(event.title)

    def _end(self, event: JobEnded) -> None:
        """Removes the bar and prints the result; the command itself reports a failure."""
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)
            self._bar.stop()
            self._task = None
        if event.outcome != "failed":
            narrate(f"{event.title}: {event.message}")

    def _progress(self, event: JobProgress) -> None:
        """Shows the progress of a job in the bar, or in a line if the last line is old enough."""
        if event.result:
            self._say(event.result)
        state = f"{event.done:,}"
        if event.total is not None:
            state += f" of {event.total:,}"
        state += f" {event.unit}"
        if self._time_left:
            share = event.done / event.total if event.share is None and event.total else event.share
            if share is not None:
                self._time_left.mark(event.stage, share, time.monotonic())
            time_left = time_left_text(self._time_left.seconds_left())
            state = f"{time_left} · {state}" if time_left else state
        elif event.eta_seconds is not None and event.done != event.total:
            state += f" · {duration(event.eta_seconds)} left"
        if event.note:
            state += f" · {event.note}"
        state = display_safe(state)
        if self._bar and self._task is not None:
            if self._time_left:
                self._draw(state)
            else:
                self._bar.update(self._task, completed=event.done, total=event.total, state=state)
        elif time.monotonic() - self._last_line_at >= LINE_SECONDS:
            self._last_line_at = time.monotonic()
            narrate(f"  {state}")

    def _say(self, result: str) -> None:
        """Prints an intermediate result, above the bar if there is one."""
        if self._bar and self._task is not None:
            self._bar.console.print(display_safe(result), markup=False, highlight=False)
        else:
            narrate(result)

    def _draw(self, state: str) -> None:
        """Draws the bar of the whole plan, which never becomes shorter."""
        seconds_left = self._time_left.seconds_left() if self._time_left else None
        if self._bar is None or self._task is None:
            return
        if seconds_left is not None:
            # if more time is left than was estimated before, the bar stands still
            spent = time.monotonic() - self._start
            share = spent / (spent + seconds_left) if spent + seconds_left else 1.0
            self._share_shown = max(self._share_shown, share)
        total = None if seconds_left is None else 1.0
        self._bar.update(self._task, completed=self._share_shown, total=total, state=state)


def run_stages(
    workspace: OpenProject, stages: Sequence[Stage], narrator: Narrator | None = None
) -> None:
    """Runs stages one after another with narration.

    Args:
        narrator: Shows the progress, for stages that share one narrator with others; None for a new one.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    folders.log_to_file()
    workspace.run(stages, narrator or Narrator())
