"""Makes and starts watches of one project, and keeps their events for the screens; see
`engine.results.watch.watching`."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from engine.base.errors import FormatError
from engine.base.request_options import Option, declare_option, switch
from engine.completeness.stages.reading_states import ReadingStage
from engine.formats.registry import reader_named
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.results.watch.watched_inputs import WatchedFiles
from engine.results.watch.watching import Event, WatchStage

if TYPE_CHECKING:
    from engine.completeness.service.runs import ScoringRuns
    from engine.goals.service.runs import GoalStages

MAX_EVENTS = 2_000
"""Most events that are kept; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event with its number.

    Attributes:
        number: Number of the event, 1 for the first one since the project was opened.
        conversation_id: Id of the conversation; None for the event of a file that could not be read.
        values: The event; its texts come from logs and are not display-safe.
    """

    number: int
    conversation_id: int | None
    values: Event


class LiveEvents:
    """Keeps the newest events of watches; threads may add and read at the same time."""

    def __init__(self) -> None:
        """Begins without events; `_count` is the number of the newest one."""
        self._guard = threading.Lock()
        self._events: deque[LiveEvent] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    def add(self, event: Event) -> None:
        """Adds an event."""
        name = event["event"]  # such as `17:3`, with the id of the conversation first
        conversation_id = None
        if name is not None:
            id_text, _, _ = name.partition(":")
            conversation_id = int(id_text)
        with self._guard:
            self._count += 1
            self._events.append(LiveEvent(self._count, conversation_id, event))

    def after(self, number: int) -> list[LiveEvent]:
        """Returns the events after the one with a number, oldest first; quick."""
        with self._guard:
            if self._count == number:
                return []
            return [event for event in self._events if event.number > number]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a person asks of a watch.

    Attributes:
        model: Name or path of the model; None for the one that the project uses for scoring.
        every: Seconds between two looks.
        idle: Seconds without growth after which a conversation counts as ended.
        once: Whether to look once, report what is new, and end.
    """

    model: str | None = declare_option(
        None, Option("name or path of the model", default="that of the project")
    )
    every: float = declare_option(
        2.0,
        Option(
            "seconds between two looks",
            metavar="SECONDS",
            convert=float,
            allowed=lambda value: 0 < value < math.inf,
            must="above 0",
        ),
    )
    idle: float = declare_option(
        600.0,
        Option(
            "a conversation that has not grown for so long is quiet",
            default="10",
            metavar="MINUTES",
            convert=lambda text: 60 * float(text),
            allowed=lambda value: 0 < value < math.inf,
            must="above 0",
        ),
    )
    once: bool = switch("report what is new now, and end")


class WatchService:
    """Makes and starts the watches of one project.

    Attributes:
        live: The events of the watches that `start` started.
    """

    def __init__(
        self,
        project: Project,
        runner: JobRunner,
        scoring: Callable[[], ScoringRuns],
        goals: Callable[[], GoalStages],
    ) -> None:
        """Holds what makes watches, and makes none yet.

        Args:
            scoring, goals: Return what makes scoring runs and stages of goals; they are called only when a watch is
                made, because their imports take long.
        """
        self._project, self._runner = project, runner
        self._scoring, self._goals = scoring, goals
        self.live = LiveEvents()

    def stage(
        self, request: WatchRequest, watched_files: WatchedFiles, emit: Callable[[Event], None]
    ) -> WatchStage:
        """Returns a watch, not started, that calls `emit` with each event."""
        from engine.completeness.scoring_request import ScoringRequest

        scoring = ScoringRequest(
            mode="probe", features="states", model=request.model, remaining=False, tune=False
        )
        reading = self._scoring().make_run(scoring).reading
        assert reading is not None
        return WatchStage(
            self._project,
            watched_files,
            cast(ReadingStage, reading.stage),
            lambda: self._goals().assign_stages(None),
            emit,
            every=request.every,
            idle=request.idle,
            once=request.once,
        )

    def start(self, path: str, request: WatchRequest) -> int:
        """Starts to watch a file or a folder in the background; returns the job id. The events go to `live`.

        Raises:
            UsageError: There is no such file or folder.
        """
        place = os.path.expanduser(path)
        return self._runner.start([self.stage(request, files_to_watch([place]), self.live.add)])


def files_to_watch(
    paths: list[str], format: str | None = None, most_unpacked: int | None = None
) -> WatchedFiles:
    """Returns the inputs of a watch on files and folders.

    Args:
        format: Name of the format; None to recognize it.
        most_unpacked: Bytes to which a file may unpack; None for the usual limit.

    Raises:
        FormatError: A file or a folder does not exist.
        NotFound: The format does not exist.
    """
    missing = next((path for path in paths if not os.path.exists(path)), None)
    if missing is not None:
        raise FormatError(f"There is no file or folder {missing}.", "Make one; it may be empty.")
    if format is not None:
        reader_named(format)
    return WatchedFiles(paths, format, most_unpacked)
