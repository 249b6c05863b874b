"""Output of the commands: results on standard output, narration and progress on standard error."""

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
from engine.base.text import as_json, display_safe, one_line
from engine.jobs.contract import Stage
from engine.jobs.progress import TimeLeft, time_left_text
from engine.opener.open_project import OpenProject
from workbench.command_result import CommandResult

LINE_SECONDS = 10.0
"""Seconds between two progress lines when standard error is not a terminal."""

BAR_WIDTH = 24
"""Columns of the bar."""

PLAN_TITLE = 22
"""Columns for the title of a stage beside the bar and the time left of a plan."""


def narrate(text: str) -> None:
    """Prints one line of narration on standard error."""
    sys.stderr.write(display_safe(text) + "\n")
    sys.stderr.flush()


def print_json(result: Any) -> None:
    """Prints one JSON document on standard output."""
    print(as_json(result, indent=1))


def print_text(text: str) -> None:
    """Prints a result as text on standard output; programs read the result of `--json` instead."""
    print(display_safe(text))


def print_result(result: CommandResult, json: bool) -> None:
    """Prints a result, as text or as JSON, and what is to be said beside it on standard error."""
    if json:
        print_json(result.json)
    elif result.drawing is not None:
        Console(highlight=False).print(result.drawing)
    elif result.lines:
        print_text("\n".join(result.lines))
    for sentence in (*(() if json else result.hints), *result.notes):
        narrate(sentence)


def ask_first(what: str, sure: bool) -> None:
    """Asks on the terminal whether to remove something for good.

    Args:
        what: What would be done, such as `remove the model NAME`.
        sure: Skips the question.

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
        raise Cancelled("Nothing was removed.")


class Narrator:
    """Draws the progress of jobs on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, time_left: TimeLeft | None = None) -> None:
        """With the time left of a plan of stages, the bar and the time left are those of the plan, not of one stage."""
        self._time_left = time_left
        self._start = time.monotonic()  # seconds
        self._share_shown = 0.0  # of the plan, by the bar
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
        self._last_line_at = 0.0  # seconds, when standard error is no terminal

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
            title = one_line(event.title, PLAN_TITLE) if self._time_left else event.title
            self._task = self._bar.add_task(display_safe(title), total=None, state="")
            if self._time_left:
                self._draw(time_left_text(self._time_left.seconds_left()))
        else:
            narrate(event.title)

    def _end(self, event: JobEnded) -> None:
        """Removes the bar and says what was done; of a failure the command tells."""
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)
            self._bar.stop()
            self._task = None
        if event.outcome != "failed":
            narrate(f"{event.title}: {event.message}")

    def _progress(self, event: JobProgress) -> None:
        """Shows how far a job is: in the bar, elsewhere in a line if the last one was long enough ago."""
        if event.result:
            self._say(event.result)
        state = f"{event.done:,}"
        if event.total is not None:
            state += f" of {event.total:,}"
        state += f" {event.unit}"
        if self._time_left:
            self._note_share(self._time_left, event)
            state = f"{time_left_text(self._time_left.seconds_left())} · {state}"
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
        """Prints what was reached on the way; a bar that is drawn goes below it."""
        if self._bar and self._task is not None:
            self._bar.console.print(display_safe(result), markup=False, highlight=False)
        else:
            narrate(result)

    @staticmethod
    def _note_share(time_left: TimeLeft, event: JobProgress) -> None:
        """Tells the plan which share of its present stage is done, if that is known."""
        share = event.share
        if share is None and event.total:
            share = event.done / event.total
        if share is not None:
            time_left.mark(event.stage, share, time.monotonic())

    def _draw(self, state: str) -> None:
        """Draws the bar of the whole plan, which never goes back."""
        seconds_left = self._time_left.seconds_left() if self._time_left else None
        if self._bar is None or self._task is None:
            return
        if seconds_left is not None:
            # Where more time is left than was thought, the bar stands still.
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
        narrator: Draws the progress, if it also draws that of other stages; None for one of its own.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    folders.log_to_file()
    workspace.run(stages, narrator or Narrator())
