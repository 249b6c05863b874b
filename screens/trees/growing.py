"""Grows a tree further: the dialog, the jobs and the line with their progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from engine.base import number_format
from engine.base.events import Event, JobEnded, JobProgress
from engine.base.text import one_line
from engine.opener.jobs import JobService
from engine.trees.records import OpenTree
from screens.shell.dialogs import TextDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.layout import Segment
from screens.widgets.jobs import EngineFeed

ALPHA_DIVISOR = 4.0
"""The dialog for growing on proposes the present alpha divided by this."""


class TreeGrower:
    """Starts the jobs that grow the trees of a screen, one at a time; its `GrowthLine` follows them."""

    def __init__(self, screen: WorkbenchScreen[Any]) -> None:
        self._screen = screen
        self._trees = screen.services.trees
        self._alphas: dict[tuple[str, int, int], float] = {}
        """The alphas to which nodes were grown, by configuration, step and node."""

    def grow_below(self, opened: OpenTree, segment: Segment) -> None:
        """Asks for a lower alpha and grows on below a segment."""
        if not self._may_grow():
            return
        row, node = opened.item.row, segment.nodes[0]
        key = (row.config_hash, row.step, node)
        current_alpha = self._alphas.get(key, row.alpha)

        def chosen(text: str | None) -> None:
            if text is None:
                return
            alpha = parse_alpha(text, row.alpha)
            if alpha is None:
                self._notify(f"Alpha is above 0 and at most {row.alpha:g}.")
                return
            self._alphas[key] = alpha
            self._start(lambda: self._trees.grow_on(opened.item, node, alpha))

        title = f"Grow on below “{one_line(segment.text, 30)}” to alpha"
        self._screen.app.push_screen(
            TextDialog(title, value=f"{current_alpha / ALPHA_DIVISOR:.4g}"), chosen
        )

    def grow_unread(self, opened: OpenTree) -> None:
        """Grows on the nodes that were not read because a budget was used up or a job was stopped."""
        if not self._may_grow():
            return
        if not opened.item.row.unexpanded:
            self._notify("Everything above alpha has been read; g lowers alpha here.")
            return
        self._start(lambda: self._trees.grow_on(opened.item, None, None))

    def _may_grow(self) -> bool:
        """Returns whether a tree may grow now; says why not."""
        growing = self._screen.query_one(GrowthLine).is_growing
        if growing:
            self._notify("A tree is growing; escape stops it.")
        return not growing and self._screen.may_write()

    def _start(self, start: Callable[[], int]) -> None:
        """Starts a job and shows its progress."""
        self._screen.in_background(start, self._screen.query_one(GrowthLine).follow, group="grow")

    def _notify(self, text: str) -> None:
        """Shows a message whose text is taken literally."""
        self._screen.notify(text, markup=False)


class GrowthLine(Static):
    """Shows the progress of one job and the key that stops it; hidden while there is no job."""

    DEFAULT_CSS = """
    GrowthLine { display: none; height: 1; padding: 0 1; }
    GrowthLine.-growing { display: block; }
    """

    class Ended(Message):
        """The job has ended, or had ended before it could be followed."""

    def __init__(self, jobs: JobService, feed: EngineFeed) -> None:
        super().__init__()
        self._jobs, self._feed = jobs, feed
        self._job: int | None = None

    def on_mount(self) -> None:
        """Listens to the engine."""
        self._feed.signal.subscribe(self, self._handle_event)

    @property
    def is_growing(self) -> bool:
        """Whether a job is followed."""
        return self._job is not None

    def follow(self, job: int) -> None:
        """Follows a job that was started."""
        if job in [active.job_id for active in self._jobs.active()]:
            self._job = job
            self._show_progress("waiting for the model")
        else:  # the job ended before its id was returned
            self.post_message(self.Ended())

    def stop(self) -> None:
        """Asks the job to stop."""
        if self._job is not None:
            self._jobs.cancel(self._job)

    def _handle_event(self, event: Event) -> None:
        """Shows the progress of the job, and hides the line at its end."""
        if self._job is None or getattr(event, "job_id", None) != self._job:
            return
        if isinstance(event, JobProgress):
            parts = [one_line(event.note, 40)] if event.note else []
            if event.unit == "nodes":
                parts.insert(0, f"{number_format.counted(event.done, 'node')} read")
                if event.rate:
                    parts.insert(1, f"{event.rate:,.0f} nodes/s")
            self._show_progress(" · ".join(parts))
        elif isinstance(event, JobEnded):
            self._job = None
            self.remove_class("-growing")
            self.post_message(self.Ended())

    def _show_progress(self, words: str) -> None:
        """Shows these words and the key that stops the job."""
        self.add_class("-growing")
        self.update(
            Content.assemble(
                ("▸ growing ", "bold $tone-accent"),
                words,
                ("   esc", "bold $tone-accent"),
                (" stops it; what has grown is kept", "$tone-muted"),
            )
        )


def parse_alpha(text: str, maximum: float = 1.0) -> float | None:
    """Returns the alpha that a text says; None if the text is not a number above 0 and at most `maximum`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= maximum else None
