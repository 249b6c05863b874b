"""Starts watches of one project, for commands and screens.

A *watch* is a stage that imports what is new in growing files and reports each new turn as an *event*; events may carry
*signals* that something goes wrong. See `engine.results.watch.watching`.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from engine.base.errors import NotFound
from engine.base.request_options import Option, declared, share, switch
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.tables import score_sets
from engine.conversations.tables import watched
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.results.watch.chart import Chart, Part, point_size, points
from engine.results.watch.signals import PRECISION, Rules
from engine.results.watch.watched_inputs import WatchedFiles, WatchedInput
from engine.results.watch.watching import Event, WatchStage

if TYPE_CHECKING:
    from engine.completeness.service.runs import ScoringRuns
    from engine.goals.service.runs import GoalStages

MAX_EVENTS = 2_000
"""Events that are kept; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event as it came.

    Attributes:
        number: 1 for the first since the project was opened.
        conversation_id: None for a file that could not be read.
        values: As docs/watch.md lists them; texts come from logs and are not display-safe.
    """

    number: int
    conversation_id: int | None
    values: Event


class LiveEvents:
    """Takes events from the thread of a watch and gives them to others."""

    def __init__(self) -> None:
        """Begins without events; `_count` is the number of the newest one."""
        self._guard = threading.Lock()
        self._events: deque[LiveEvent] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    def add(self, event: Event) -> None:
        """Takes an event."""
        name = event["event"]
        conversation_id = None
        if name is not None:
            conversation_text, _, _ = name.partition(":")
            conversation_id = int(conversation_text)
        with self._guard:
            self._count += 1
            self._events.append(LiveEvent(self._count, conversation_id, event))

    def after(self, number: int) -> list[LiveEvent]:
        """Returns the events that came after the one of this number, oldest first; takes no time."""
        with self._guard:
            if self._count == number:
                return []
            return [event for event in self._events if event.number > number]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch that is to be started.

    Attributes:
        model: Name or path; None is the one that the project uses for scoring.
        every: Seconds between two looks.
        idle: Seconds without growth after which a conversation is quiet.
        precision: Least precision of a signal, in [0, 1].
        once: Look once, report what is new, and end.
    """

    model: str | None = declared(
        None, Option("name or path of the model", default="that of the project")
    )
    every: float = declared(
        2.0,
        Option(
            "seconds between two looks",
            metavar="SECONDS",
            convert=float,
            allowed=lambda value: 0 < value < math.inf,
            must="above 0",
        ),
    )
    idle: float = declared(
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
    precision: float = share(
        PRECISION, "raise only signals that were right as often on past conversations", metavar="P"
    )
    once: bool = switch("report what is new now, and end")


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The signals of the newest watch, and the number of past conversations that they were chosen and tested on."""

    rules: Rules
    past: int


class WatchService:
    """Watches for one project.

    Attributes:
        live: The events of watches that were started here.
    """

    def __init__(
        self,
        project: Project,
        runner: JobRunner,
        scoring: Callable[[], ScoringRuns],
        goals: Callable[[], GoalStages],
    ) -> None:
        """`scoring` and `goals` are called when a watch is made: what they need takes long to import."""
        self._project, self._runner = project, runner
        self._scoring, self._goals = scoring, goals
        self.live = LiveEvents()
        self._rules: RulesInForce | None = None

    def stage(
        self,
        request: WatchRequest,
        watched_input: WatchedInput,
        emit: Callable[[Event], None],
        on_rules: Callable[[Rules, int], None],
    ) -> WatchStage:
        """Returns a watch, not started. See `WatchStage` for `emit` and `on_rules`."""
        from engine.completeness.scoring_request import ScoringRequest

        scoring = ScoringRequest(
            mode="probe", features="states", model=request.model, remaining=False, tune=False
        )
        reading = self._scoring().make_run(scoring).reading
        assert reading is not None
        return WatchStage(
            self._project,
            watched_input,
            cast(ReadingStage, reading.stage),
            lambda: self._goals().assign_stages(None),
            emit,
            on_rules=on_rules,
            every=request.every,
            idle=request.idle,
            precision=request.precision,
            once=request.once,
        )

    def start(self, path: str, request: WatchRequest) -> int:
        """Starts to watch a file or a folder in the background; returns the job id. Its events are in `live`.

        Raises:
            UsageError: There is no such file or folder.
        """
        place = os.path.expanduser(path)
        self._rules = None
        return self._runner.start(
            [self.stage(request, files_to_watch([place]), self.live.add, self._note_rules)]
        )

    def rules(self) -> RulesInForce | None:
        """Returns the signals of the newest watch; None until it has chosen them."""
        return self._rules

    def chart(self) -> Chart | None:
        """Returns how the conversations that were watched compare with the past ones; None before the first watch."""
        with self._project.reading() as conn:
            threshold = score_sets.rule(conn).threshold
            past_ids = watched.past_ids(conn)
            if not past_ids:
                return None
            past = Part(*watched.past_complete(conn, threshold))
            ended = [(time, p >= threshold) for time, p in watched.ended(conn)]
            running = len(watched.running_ids(conn))
        charted, waiting = points(past, ended)
        return Chart(
            past=past,
            size=point_size(past),
            points=charted,
            waiting=waiting,
            running=running,
        )

    def _note_rules(self, rules: Rules, past: int) -> None:
        """Takes the rules that the watch has chosen."""
        self._rules = RulesInForce(rules, past)


def files_to_watch(
    paths: list[str], format: str | None = None, most_unpacked: int | None = None
) -> WatchedFiles:
    """Returns the input of a watch on files and folders, of which each may unpack to `most_unpacked` bytes.

    None stands for the usual limit.

    Raises:
        UsageError: One of them does not exist.
    """
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        first, *_ = missing
        raise NotFound(f"There is no file or folder {first}.", "Make it first; it may be empty.")
    return WatchedFiles(paths, format, most_unpacked)
