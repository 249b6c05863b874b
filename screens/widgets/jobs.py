"""What the engine is doing: its events on their way to the screens, names of stages, the bottom line of screens.

A job runs stages, such as `read` and `fit`; several stages belong to one work, such as scoring. A fact is a few words
about a job, such as `40%` or `3 min left`. Widths are cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual import events
from textual.app import App, RenderResult
from textual.content import Content
from textual.message import Message
from textual.signal import Signal
from textual.widget import Widget

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.events import Event, JobEnded, JobProgress, JobStarted
from engine.base.text import NOTICE_LIMIT, one_line
from engine.opener.jobs import JobService
from engine.project.records import RunRow

if TYPE_CHECKING:
    from engine.training.records import TrainingRun


_STAGE_NAMES = {
    "import": "import",
    "complete": "scoring",
    "read": "scoring",
    "fit": "scoring",
    "remaining": "remaining tasks",
    "embed": "embedding",
    "summarize": "goal summaries",
    "cluster": "clustering",
    "label": "labeling",
    "propose": "merge proposals",
    "decide": "merge decisions",
    "name": "naming groups",
    "assign": "assignment",
    "stability": "stability",
    "trees": "response trees",
    "simulate": "simulation",
    "watch": "watching logs",
    "tune": "finding the model's fastest format",
}
"""Stages of jobs in plain words."""
_WORKS = {
    **dict.fromkeys(("complete", "read", "fit", "remaining"), "scoring"),
    **dict.fromkeys(("embed", "summarize", "cluster", "label", "propose", "decide"), "clustering"),
}
"""The work that a stage is part of; any other stage is a work of its own."""
_OUTCOMES = {
    "done": ("✓", "$tone-complete"),
    "cancelled": ("–", "$tone-muted"),
    "failed": ("✗", "$tone-incomplete"),
}
"""Sign and color of how a job ended."""
CANCEL_WIDTH = len("x cancel") + 1
"""Width of the right end of the line of a job, where a click cancels the job."""
MIN_TITLE_WIDTH = 12
"""Width of a job's title that is always shown."""
MIN_WIDTH_WITH_BAR, MIN_WIDTH_WITH_LONG_BAR = 100, 110
"""Widths of the line from which it has a bar of progress, and a long one."""
SHORT_BAR, LONG_BAR = 8, 24
"""Widths of the short and of the long bar of progress, in cells."""
SEPARATOR = " · "
"""Stands between two facts in the line of a job."""


class EngineMessage(Message, bubble=False):
    """An engine event on its way to the UI thread."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event

    def can_replace(self, message: Message) -> bool:
        """Newer progress of a job replaces older progress that is still pending."""
        if not isinstance(message, EngineMessage):
            return False
        old, new = message.event, self.event
        return (
            isinstance(new, JobProgress)
            and isinstance(old, JobProgress)
            and new.job_id == old.job_id
        )


class EngineFeed:
    """The events of the engine as a signal of the app, and the training run that is active.

    Events arrive on any thread: `receive` only posts a message, which is harmless after the app has quit. The app
    passes each message to `publish`, which sends it to the subscribers of `signal`, in inactive modes too. Training
    runs send no events: `training` is the state of the one that is active when it was read last.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.signal: Signal[Event] = Signal(app, "engine events")
        self.last_ended: JobEnded | None = None
        self.training: TrainingRun | None = None
        self.training_signal: Signal[TrainingRun | None] = Signal(app, "training")

    def receive(self, event: Event) -> None:
        """Posts an event to the UI thread; the listener for the engine. May be called from any thread."""
        self._app.post_message(EngineMessage(event))

    def publish(self, event: Event) -> None:
        """Passes an event to the subscribers; call it on the UI thread."""
        if isinstance(event, JobEnded):
            self.last_ended = event
        self.signal.publish(event)

    def publish_training(self, run: TrainingRun | None) -> None:
        """Publishes the training run that is active and its progress, or None; call it on the UI thread."""
        if run != self.training:
            self.training = run
            self.training_signal.publish(run)


class JobsBar(Widget):
    """Progress, rate, time left and the key that cancels, on one line."""

    DEFAULT_CSS = "JobsBar { height: 1; padding: 0 1; }"

    def __init__(self, jobs: JobService, feed: EngineFeed) -> None:
        super().__init__()
        self._jobs = jobs
        self._feed = feed
        self._live: dict[int, JobProgress] = {}  # the last progress of each job, by its id

    def on_mount(self) -> None:
        """Shows the jobs that run already, then follows events."""
        self._live = {job.job_id: job for job in self._jobs.active()}
        self._feed.signal.subscribe(self, self._handle_event)
        self._feed.training_signal.subscribe(self, lambda run: self.refresh())

    def _handle_event(self, event: Event) -> None:
        """Follows the jobs that run."""
        if isinstance(event, JobStarted):
            beginning = JobProgress(event.job_id, event.stage, event.title)
            self._live.setdefault(event.job_id, beginning)
        elif isinstance(event, JobProgress):
            self._live[event.job_id] = event
        elif isinstance(event, JobEnded):
            self._live.pop(event.job_id, None)
        else:
            return
        self.refresh()

    async def on_click(self, event: events.Click) -> None:
        """A click on the key at the end cancels the job; a click elsewhere shows the whole text of the line."""
        if self._live and event.x >= self.size.width - CANCEL_WIDTH:
            await self.app.run_action("cancel_job")
            return
        for job in self._live.values():
            count = f"{_done_of_total(job)} {one_line(job.unit)}"
            note = f"\n{one_line(job.note)}" if job.note else ""
            text = f"{count}, {number_format.duration(job.eta_seconds)} left{note}"
            self.notify(text, title=one_line(job.title), markup=False)
        ended = self._feed.last_ended
        if not self._live and ended is not None:
            text = f"{one_line(ended.message, NOTICE_LIMIT)} {one_line(ended.hint)}".rstrip()
            self.notify(text, title=one_line(ended.title), markup=False)

    def render(self) -> RenderResult:
        """Returns the line."""
        width = self.size.width
        if self._live:
            return _running_line(list(self._live.values()), width)
        if self._feed.training is not None:
            return _training_line(self._feed.training).truncate(width, ellipsis=True)
        ended = self._feed.last_ended
        if ended is not None:
            glyph, color = _OUTCOMES[ended.outcome]
            text = f" {one_line(ended.title)}: {one_line(ended.message)}"
            line = Content.assemble((glyph, color), (text, "$tone-muted"))
        else:
            line = self._idle_line()
        return line.truncate(width, ellipsis=True)

    def _idle_line(self) -> Content:
        """Returns the line while no job runs and none has ended: the newest interrupted run, if there is one."""
        try:
            runs = self._jobs.interrupted()
        except WorkbenchError as error:  # an error while a widget is drawn would end the app
            return Content.assemble(
                ("✗ ", "$tone-incomplete"), (one_line(error.message), "$tone-muted")
            )
        if not runs:
            return Content.styled("no job is running", "$tone-muted")
        text = f"{interruption(runs[0])}: {one_line(stage_name(runs[0].stage))}; 1 offers to resume"
        return Content.assemble(("◌ ", "$tone-borderline"), (text, "$tone-muted"))


def stage_name(stage: str) -> str:
    """Returns the name of a stage in plain words; a stage without one keeps its own."""
    return _STAGE_NAMES.get(stage, stage)


def work_of(stage: str) -> str:
    """Returns the work that a stage is part of: `scoring`, `clustering`, or else the stage itself."""
    return _WORKS.get(stage, stage)


def interruption(run: RunRow) -> str:
    """Returns that a run was interrupted and where, if it had done anything: `interrupted at 40 of 200`."""
    return f"interrupted at {_done_of_total(run)}" if run.done else "interrupted"


def _done_of_total(progress: JobProgress | RunRow) -> str:
    """Returns how much is done, and of how much where that is known: `40 of 200`."""
    total = "" if progress.total is None else f" of {progress.total:,}"
    return f"{progress.done:,}{total}"


def _training_line(run: TrainingRun) -> Content:
    """Returns the name of a training run, and its phase, or else its step and the time left."""
    facts = [run.phase] if run.phase else []
    if not facts and run.step is not None and run.steps:
        facts.append(f"step {run.step:,} of {run.steps:,}")
        if run.seconds_left is not None:
            facts.append(f"{number_format.duration(run.seconds_left)} left")
    return Content.assemble(
        (f"▸ Training {one_line(run.name)} ", "bold"),
        SEPARATOR.join([*facts, "it goes on when you quit"]),
    )


def _running_line(jobs: list[JobProgress], width: int) -> Content:
    """Returns the line while jobs run: the title and the progress of the first one, and the key that cancels it.

    The title is cut to make room for the bar and the facts on the progress. Further facts come where cells are left.
    """
    job, *waiting_jobs = jobs
    cancel_hint = Content.assemble(("x", "bold $tone-accent"), (" cancel", "$tone-muted"))
    room = max(0, width - cancel_hint.cell_length - 2)
    bar = _progress_bar(job, width)
    facts = _progress_facts(job, with_unit=width >= MIN_WIDTH_WITH_BAR or not job.note)
    title, _, model = one_line(job.title).partition(" with ")
    # The sign before the title, the space after it, and one cell that stays free.
    needed = len("▸   ") + cell_len(bar + SEPARATOR.join(facts))
    title = one_line(title, max(MIN_TITLE_WIDTH, room - needed))
    cells_left = room - len("▸  ") - cell_len(title + bar + SEPARATOR.join(facts))
    for fact in _further_facts(job, model, len(waiting_jobs)):  # each whole or not at all
        cells = cell_len(SEPARATOR + fact)
        if cells <= cells_left:
            facts.append(fact)
            cells_left -= cells
    line = Content.assemble(
        (f"▸ {title} ", "bold"), (bar, "$tone-accent"), SEPARATOR.join(facts)
    ).truncate(room, ellipsis=True)
    padding = " " * (width - line.cell_length - cancel_hint.cell_length)
    return Content.assemble(line, padding, cancel_hint)


def _progress_bar(job: JobProgress, width: int) -> str:
    """Returns the bar of progress with a space after it, for a line of `width` cells; empty where there is none."""
    share = job.share
    if share is None and job.total:
        share = job.done / job.total
    if share is None or width < MIN_WIDTH_WITH_BAR:
        return ""
    return (
        number_format.bar(share, LONG_BAR if width >= MIN_WIDTH_WITH_LONG_BAR else SHORT_BAR) + " "
    )


def _progress_facts(job: JobProgress, *, with_unit: bool) -> list[str]:
    """Returns the time left, the share and the count of a job, as far as they are known."""
    facts = []
    if job.eta_seconds is not None:
        facts.append(f"{number_format.duration(job.eta_seconds)} left")
    if job.share is not None:  # moves inside a batch, where the count stands still
        facts.append(f"{job.share:.0%}")
    unit = one_line(job.unit) if with_unit else ""
    return [*facts, f"{_done_of_total(job)} {unit}".rstrip()]


def _further_facts(job: JobProgress, model: str, waiting: int) -> list[str]:
    """Returns what a job works on, its rate, its model, and how many jobs wait; the most important fact first."""
    facts = [one_line(job.note)] if job.note else []
    if job.rate is not None:
        a_second, a_minute = job.rate, job.rate * 60
        facts.append(
            f"{number_format.amount(a_second)}/s" if a_second >= 1 else f"{a_minute:.0f}/min"
        )
    if model:
        facts.append(model)
    if waiting:
        facts.append(f"{waiting} more waiting")
    return facts
