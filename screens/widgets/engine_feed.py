"""Passes engine events to the screens: events arrive on any thread and are published on the UI thread.

`EngineFeed.receive` only posts a message, which is safe from any thread and harmless after the app has quit.
The app passes each message to `publish`, which sends it to the subscribers of `signal`, in inactive modes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.message import Message
from textual.signal import Signal

from engine.base.events import Event, JobEnded, JobProgress

if TYPE_CHECKING:
    from engine.model.service.records import PullRow
    from engine.training.records import TrainingRun


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
    """The events of the engine as a signal of the app, and the training run and the pulls that are active.

    Those send no events: `training` and `pulls` are their states when they were read last.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.signal: Signal[Event] = Signal(app, "engine events")
        self.last_ended: JobEnded | None = None
        self.training: TrainingRun | None = None
        self.training_signal: Signal[TrainingRun | None] = Signal(app, "training")
        self.pulls: Sequence[PullRow] = ()
        self.pulls_signal: Signal[Sequence[PullRow]] = Signal(app, "pulls")

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

    def publish_pulls(self, pulls: Sequence[PullRow]) -> None:
        """Publishes the active pulls and their progress; call it on the UI thread."""
        if pulls != self.pulls:
            self.pulls = pulls
            self.pulls_signal.publish(pulls)
