"""The screen of a watch, which imports and scores what is new in logs as they grow, and the dialog that starts it.

An event is a new turn of a conversation, or that a conversation ended or a file could not be read.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.conversation import State
from engine.base.number_format import bar, counted, difference, probability
from engine.base.text import LINE_LIMIT, end_of_path, one_line
from engine.opener.open_project import OpenProject
from engine.results.watch.service import MAX_EVENTS, LiveEvent, WatchRequest
from screens.shell.dialogs import Dialog, TextDialog, ask, key_hints
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.controls import LineInput, titled
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import STATE_LOOKS
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

LARGE_CHANGE = 0.1
"""Change of the probability from which on it is drawn bright."""

LISTEN_SECONDS = 0.5
"""Seconds between two looks at the events."""

WAITING = EmptyState(
    "No event yet. The past conversations are read first; then what is new is listed here.",
    "goes back; the watch goes on",
    "close",
)
"""What is shown until the first event of a watch."""

NOTHING = EmptyState(
    "Nothing is watched.\n\nA watch imports and scores what is new in a file or a folder, and lists it here.\n"
    "It needs 20 past conversations in the project.",
    "watches a file or a folder",
    "watch",
)
"""What is shown while nothing is watched."""

MAX_PATH_CHARS = 40
"""Most characters of the path that is watched."""

MAX_FILTER_CHARS = 30
"""Most characters of the words of the filter in the summary."""

DEFAULT_IDLE_MINUTES = 10.0
"""Minutes without growth after which a conversation counts as quiet, unless others are typed."""

HELP = "New conversations of these logs, and new turns of old ones, are imported, scored and listed as they come."
"""What a watch does, for the dialog."""


def _time(row: LiveEvent) -> Sequence[Piece]:
    """Returns the time of an event, without its date."""
    _, _, time = str(row.values["at"]).partition("T")  # 2026-07-01T12:00:00Z
    return [(time[: len("12:00:00")], "tone--muted")]


def _name(row: LiveEvent) -> Sequence[Piece]:
    """Returns the name of the conversation, or why a file could not be read."""
    if row.conversation_id is None:
        return [(one_line(str(row.values["error"])), "tone--incomplete")]
    return [(one_line(str(row.values["conversation"])), "")]


def _turn(row: LiveEvent) -> Sequence[Piece]:
    """Returns the number of the turn; `end` where the conversation went quiet."""
    if row.values.get("ended"):
        return [("end", "tone--bright")]
    turn = row.values.get("turn")
    return [("" if turn is None else f"{turn}", "")]


def _p(row: LiveEvent) -> Sequence[Piece]:
    """Returns the probability that the conversation ends there."""
    return [] if row.conversation_id is None else [(probability(row.values["p"]), "")]


def _change(row: LiveEvent) -> Sequence[Piece]:
    """Returns the change of the probability since the turn before; a large one is bright."""
    change = row.values.get("change")
    if change is None:
        return []
    return [(difference(change), "tone--bright" if abs(change) >= LARGE_CHANGE else "tone--muted")]


def _state(row: LiveEvent) -> Sequence[Piece]:
    """Returns the state by the decision rule, as sign and word."""
    if row.conversation_id is None:
        return []
    look = STATE_LOOKS[State(row.values["state"])]
    return [(f"{look.glyph} {look.word}", look.tone_class)]


def _goal(row: LiveEvent) -> Sequence[Piece]:
    """Returns the goal; `novel` where the conversation is like none."""
    if row.values.get("novel"):
        return [("novel", "tone--borderline")]
    return [(one_line(str(row.values.get("goal") or "")), "")]


COLUMNS: list[Column[LiveEvent]] = [
    Column("time", "UTC", 8, _time, keep=4),
    Column("name", "conversation", 14, _name, flexible=True),
    Column("turn", "turn", 4, _turn, right=True),
    Column("p", "p", 4, _p, right=True),
    Column("change", "change", 6, _change, right=True),
    Column("state", "state", 12, _state),
    Column("goal", "goal", 24, _goal, keep=2),
]
"""Columns of the list of events."""


def searched_text(row: LiveEvent) -> str:
    """Returns the text of an event that a filter searches for its words, in lower case."""
    values = row.values
    kind = "end" if values.get("ended") else "turn"
    if row.conversation_id is None:
        kind = "error"
    novel = "novel" if values.get("novel") else ""
    state = State(values["state"]).word if "state" in values else ""
    parts = (
        kind, values.get("conversation"), values.get("source"), state, values.get("goal"), novel,
        values.get("error"),
    )  # fmt: skip
    return " ".join(str(part) for part in parts if part).lower()


def event_text(row: LiveEvent) -> Content:
    """Returns everything about one event, on a few lines."""
    values = row.values
    if row.conversation_id is None:
        return Content(f"{one_line(str(values['error']))}\n{one_line(str(values.get('hint', '')))}")
    goal = (
        "like no goal"
        if values.get("novel")
        else one_line(str(values.get("goal") or ""), LINE_LIMIT)
    )
    source = end_of_path(str(values["source"]), LINE_LIMIT)
    lines = [f"{bar(values['p'])} {probability(values['p'])}  {source}  {goal}"]
    if values.get("reason"):
        lines.append(one_line(str(values["reason"])))
    return Content("\n".join(lines))


class WatchScreen(WorkbenchScreen[None]):
    """Lists the events of a watch, the newest first; enter opens the conversation."""

    PLACE = "watch"
    FIRST_KEYS = ("watch.watch", "table.open", "watch.pause")
    AUTO_FOCUS = "#events"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "watch", "Watch", tooltip="Watch a file or a folder"),
        Binding("space", "pause", "Pause", tooltip="Hold the list as it is, or let it go on"),
        Binding("f", "filter", "Filter", tooltip="List only events with these words"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._events: deque[LiveEvent] = deque(maxlen=MAX_EVENTS)
        self._listed: list[LiveEvent] = []  # those with the words of the filter, newest first
        self._last_number = 0  # of the last event that was taken over
        self._is_paused = False
        self._filter = ""
        self._path = ""  # that is watched, or was last
        self.table = ItemTable(COLUMNS, lambda event: event.number, id="events")

    def compose_body(self) -> ComposeResult:
        """Yields what is watched, the events, and the one under the cursor."""
        yield Static(id="summary")
        yield self.table
        yield Static(classes="empty")
        yield Static(id="event")

    def on_mount(self) -> None:
        """Looks at the events every `LISTEN_SECONDS`."""
        self.set_interval(LISTEN_SECONDS, self.listen)
        self._show_events()
        self.listen()

    def refresh_data(self) -> None:
        """Does nothing, since events are asked for every `LISTEN_SECONDS`."""

    # Events

    def listen(self) -> None:
        """Takes over new events; while paused it only shows how many there are."""
        if not self.is_active:
            return
        new_events = self.services.watches.live.after(self._last_number)
        if new_events and not self._is_paused:
            self._last_number = new_events[-1].number
            self._events.extend(new_events)
            self._show_events()
        else:
            self._show_summary()

    def _show_events(self) -> None:
        """Lists the events with the words of the filter, the newest first."""
        words = self._filter.lower().split()
        self._listed = [
            event
            for event in reversed(self._events)
            if all(word in searched_text(event) for word in words)
        ]
        at_top = self.table.cursor_index == 0
        self.set_class(not self._listed, "-empty")
        self.table.show_items(self._listed)
        if at_top and self._listed:
            newest, *_ = self._listed
            self.table.move_to_key(newest.number)
        self._show_event()
        self._show_summary()

    def on_row_table_highlighted(self) -> None:
        """Shows the event under the cursor."""
        self._show_event()

    def _show_event(self) -> None:
        """Shows everything about the event under the cursor."""
        row = self.table.cursor_item
        self.query_one("#event", Static).update(Content("") if row is None else event_text(row))

    def _empty_reason(self) -> EmptyState:
        """Returns why no event is listed."""
        if self._events:
            message = f"No event of {len(self._events):,} has these words."
            return EmptyState(message, "changes the words", "filter")
        return WAITING if self._is_watching() else NOTHING

    def _show_summary(self) -> None:
        """Shows what is watched and how many events came, or why none is listed."""
        if not self._listed:
            self.show_empty(self._empty_reason())
        watched = "not watching"
        if self._is_watching():
            watched = f"watching {one_line(self._path, MAX_PATH_CHARS)}".strip()
        parts = [watched, counted(self._events[-1].number if self._events else 0, "event")]
        if self._filter:
            parts.append(f"“{one_line(self._filter, MAX_FILTER_CHARS)}”: {len(self._listed):,}")
        summary = Content(" · ".join(parts))
        if self._is_paused:
            held_back = len(self.services.watches.live.after(self._last_number))
            paused = Content.styled(f"paused, {held_back:,} new  ", "bold $tone-borderline")
            summary = paused + summary
        self.query_one("#summary", Static).update(summary)

    def _is_watching(self) -> bool:
        """Returns whether a watch runs."""
        return any(job.stage == "watch" for job in self.services.jobs.active())

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Opens the conversation of an event in the reader."""
        event = self.table.item(message.row_id)
        key = None if event is None else event.conversation_id
        if key is None:
            self.notify("This event is about a file that could not be read.", markup=False)
        else:
            self.open_reader(array("q", [key]), 0)

    # Keys

    def action_watch(self) -> None:
        """Asks what to watch, and starts."""
        if not self.may_write():
            return
        if self._is_watching():
            self.notify("A watch is running; x ends it.", markup=False)
            return

        def start(answer: tuple[str, WatchRequest]) -> None:
            """Starts the watch, and keeps its path for the next time."""
            self._path, request = answer
            path = self._path
            self.in_background(
                lambda: self.services.watches.start(path, request),
                lambda _: self._show_summary(),
                group="start",
            )

        ask(self, WatchDialog(self._path), start)

    def action_pause(self) -> None:
        """Holds the list, or lets it go on."""
        self._is_paused = not self._is_paused
        self.listen()

    def action_filter(self) -> None:
        """Asks for words; nothing lists all events."""

        def list_with(text: str) -> None:
            """Lists the events with these words."""
            self._filter = " ".join(text.split())
            self._show_events()

        title = "List events with these words, such as broken off, novel, end"
        ask(self, TextDialog(title, value=self._filter, placeholder="all events"), list_with)


class WatchDialog(Dialog[tuple[str, WatchRequest]]):
    """Asks what to watch; answers with the path and the request. A field that cannot be understood stays open."""

    PLACE = "watch-dialog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Field before", show=False),
    ]

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self._path = path

    def compose(self) -> ComposeResult:
        """Yields two fields, what a watch does or what is wrong with a field, and the keys."""
        with titled(Vertical(classes="dialog"), "Watch logs as they grow"):
            yield Static("File or folder", classes="field")
            yield LineInput(self._path, placeholder="logs/", id="path")
            yield Static(
                "A conversation is quiet after so many minutes without growth", classes="field"
            )
            yield LineInput(f"{DEFAULT_IDLE_MINUTES:g}", id="idle")
            yield Static(Content.styled(HELP, "$tone-muted"), id="problem")
            yield key_hints(("enter", "starts"), ("↑↓", "field"), ("escape", "cancels"))

    def on_input_submitted(self) -> None:
        """Answers if both fields can be understood."""
        path = self.query_one("#path", Input).value.strip()
        idle_minutes = _number_in(self.query_one("#idle", Input).value)
        if not path or not os.path.exists(os.path.expanduser(path)):
            self._show_problem("There is no such file or folder. Make it first; it may be empty.")
        elif idle_minutes is None or idle_minutes <= 0:
            self._show_problem("The minutes are a number above 0.")
        else:
            self.dismiss((path, WatchRequest(idle=60 * idle_minutes)))

    def _show_problem(self, problem: str) -> None:
        """Shows what is wrong with a field."""
        self.query_one("#problem", Static).update(Content.styled(problem, "$tone-incomplete"))


def _number_in(text: str) -> float | None:
    """Returns the number that a text is; None if it is no number."""
    try:
        return float(text)
    except ValueError:
        return None
