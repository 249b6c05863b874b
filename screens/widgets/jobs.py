"""What the engine is doing: its events on their way to the screens, names of stages, the bottom line of screens."""

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
from engine.base.events import Event, JobEnded, JobProgress, JobStarted
from engine.base.text import one_line
from engine.opener.jobs import JobService

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
    "grow": "growing a tree",
    "simulate": "simulation",
    "watch": "watching logs",
    "tune": "finding the model's fastest format",
}
"""Stages of jobs in plain words."""
_SCORING = ("complete", "read", "fit", "remaining")
_CLUSTERING = ("embed", "summarize", "cluster", "label", "propose", "decide")
"""Stages that are parts of a scoring or a clustering."""
_OUTCOMES = {
    "done": ("✓", "$tone-complete"),
    "cancelled": ("–", "$tone-muted"),
    "failed": ("✗", "$tone-incomplete"),
}
"""Sign and color of how a job ended."""
CANCEL_WIDTH = len("x cancel") + 1
"""Cells at the right end where a click cancels."""
LEAST_TITLE = 12
"""Cells of a job's title that are always shown."""
NARROW_LINE, WIDE_LINE = 100, 110
"""A line of fewer cells than the first has no bar; from the second on the bar is long."""
SHORT_BAR, LONG_BAR = 8, 24
"""Cells of the bar of progress."""


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
            self._live.setdefault(
                event.job_id,
                JobProgress(
                    job_id=event.job_id,
                    stage=event.stage,
                    title=event.title,
                    done=0,
                    total=None,
                    unit="",
                    rate=None,
                    eta_seconds=None,
                    note="",
                ),
            )
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
            done = f"{job.done:,}" if job.total is None else f"{job.done:,} of {job.total:,}"
            note = f"\n{one_line(job.note)}" if job.note else ""
            text = (
                f"{done} {one_line(job.unit)}, {number_format.duration(job.eta_seconds)} left{note}"
            )
            self.notify(text, title=one_line(job.title), markup=False)
        ended = self._feed.last_ended
        if not self._live and ended is not None:
            text = f"{one_line(ended.message, 400)} {one_line(ended.hint)}".rstrip()
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
        elif interrupted := self._jobs.interrupted():
            run, *_ = interrupted
            of = f" of {run.total:,}" if run.total is not None else ""
            progress = f" at {run.done:,}{of}" if run.done else ""
            line = Content.assemble(
                ("◌ ", "$tone-borderline"),
                (f"interrupted{progress}: {one_line(stage_name(run.stage))}; ", "$tone-muted"),
                ("1 offers to resume", "$tone-muted"),
            )
        else:
            line = Content.styled("no job is running", "$tone-muted")
        return line.truncate(width, ellipsis=True)


def stage_name(stage: str) -> str:
    """Returns the name of a stage in plain words; a stage without one keeps its own."""
    return _STAGE_NAMES.get(stage, stage)


def work_of(stage: str) -> str:
    """Returns the work that a stage is part of: `scoring`, `clustering`, or the stage itself where it is a work of its
    own.
    """
    if stage in _SCORING:
        return "scoring"
    return "clustering" if stage in _CLUSTERING else stage


def _training_line(run: TrainingRun) -> Content:
    """Returns the phase of a training run, or its step and the time left."""
    facts = [run.phase] if run.phase else []
    if not facts and run.step is not None and run.steps:
        facts.append(f"step {run.step:,} of {run.steps:,}")
        if run.seconds_left is not None:
            facts.append(f"{number_format.duration(run.seconds_left)} left")
    return Content.assemble(
        (f"▸ Training {one_line(run.name)} ", "bold"),
        " · ".join([*facts, "it goes on when you quit"]),
    )


def _running_line(jobs: list[JobProgress], width: int) -> Content:
    """Returns the job that runs: what it does, the time left and how far it is; the model and the rest where there is
    room.
    """
    job, *waiting_jobs = jobs
    hint = Content.assemble(("x", "bold $tone-accent"), (" cancel", "$tone-muted"))
    room = max(0, width - hint.cell_length - 2)
    is_narrow = width < NARROW_LINE
    bar = ""
    share = job.share
    if share is None and job.total:
        share = job.done / job.total
    if share is not None and not is_narrow:
        bar = number_format.bar(share, LONG_BAR if width >= WIDE_LINE else SHORT_BAR) + " "
    done = f"{job.done:,}" if job.total is None else f"{job.done:,} of {job.total:,}"
    unit = "" if is_narrow and job.note else one_line(job.unit)
    facts = [f"{done} {unit}".rstrip()]
    if job.share is not None:  # moves inside a batch, where the count stands still
        facts.insert(0, f"{job.share:.0%}")
    if job.eta_seconds is not None:
        facts.insert(0, f"{number_format.duration(job.eta_seconds)} left")
    title, _, model = one_line(job.title).partition(" with ")
    # The title gives way to the bar and the facts; what else there is to say comes only where cells are left.
    needed = len("▸   ") + cell_len(bar) + cell_len(" · ".join(facts))
    title = one_line(title, max(LEAST_TITLE, room - needed))
    more = [one_line(job.note)] if job.note else []
    if job.rate is not None:
        more.append(
            f"{number_format.amount(job.rate)}/s" if job.rate >= 1 else f"{job.rate * 60:.0f}/min"
        )
    if model:
        more.append(model)
    if waiting_jobs:
        more.append(f"{len(waiting_jobs)} more waiting")
    cells_left = room - len("▸  ") - cell_len(title + bar + " · ".join(facts))
    for fact in more:  # each whole or not at all
        if cell_len(f" · {fact}") <= cells_left:
            facts.append(fact)
            cells_left -= cell_len(f" · {fact}")
    line = Content.assemble((f"▸ {title} ", "bold"), (bar, "$tone-accent"), " · ".join(facts))
    line = line.truncate(room, ellipsis=True)
    return Content.assemble(line, " " * (width - line.cell_length - hint.cell_length), hint)
