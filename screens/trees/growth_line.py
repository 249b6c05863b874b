"""The line that shows the progress of a job that grows a tree."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from engine.base import number_format
from engine.base.events import Event, JobEnded, JobProgress, JobStarted
from engine.base.text import one_line
from engine.opener.jobs import JobService
from screens.widgets.jobs import EngineFeed


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
        self._last, self._kept = "", ""
        self._between = False

    def on_mount(self) -> None:
        """Listens to the engine."""
        self._feed.signal.subscribe(self, self._handle_event)

    @property
    def is_growing(self) -> bool:
        """Whether a job is followed."""
        return self._job is not None

    def follow(self, job: int, last: str, kept: str) -> None:
        """Follows a job that was started.

        Args:
            last: Its last stage; others, such as tuning, may come before it.
            kept: What stays when it is stopped.
        """
        self._last, self._kept, self._between = last, kept, False
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
        if self._between and isinstance(event, JobStarted) and event.stage == self._last:
            self._job, self._between = event.job_id, False
        if self._job is None or getattr(event, "job_id", None) != self._job:
            return
        if isinstance(event, JobProgress):
            parts = [one_line(event.note, 40)] if event.note else []
            if event.unit == "nodes":
                parts.insert(0, f"{number_format.counted(event.done, 'node')} read")
                if event.rate:
                    parts.insert(1, f"{event.rate:,.0f} nodes/s")
            self._show_progress(" · ".join(parts))
        elif isinstance(event, JobEnded) and event.stage != self._last and event.outcome == "done":
            self._between = True
        elif isinstance(event, JobEnded):
            self._job = None
            self.remove_class("-growing")
            self.post_message(self.Ended())

    def _show_progress(self, words: str) -> None:
        self.add_class("-growing")
        self.update(
            Content.assemble(
                ("▸ growing ", "bold $tone-accent"),
                words,
                ("   esc", "bold $tone-accent"),
                (f" stops it; {self._kept}", "$tone-muted"),
            )
        )
