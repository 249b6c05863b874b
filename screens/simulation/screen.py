"""Simulation: conversations with known truth, played by models, and their results."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from engine.base import number_format
from engine.base.report_table import ReportRow, ReportTable, tab_separated
from engine.base.text import display_safe, one_line
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from engine.simulate.records import PlayItem, PlaySetting, SetResults, TranscriptLine
from engine.simulate.service.service import SimulationService
from engine.simulate.simulation_request import (
    BOTH,
    FIELDS,
    KINDS,
    OPTIONS,
    Kind,
    SimulationOffers,
    SimulationRequest,
    read_request,
)
from screens.shell.dialogs import ask, ask_column
from screens.shell.exporting import ask_file, copy
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.simulation import formatting
from screens.widgets.controls import LineInput
from screens.widgets.jobs import EngineFeed
from screens.widgets.report_columns import NO_COLUMNS, report_columns
from screens.widgets.row_table import ItemTable, RowTable
from screens.widgets.text_pane import TextPane

KIND_FIELDS = (
    "instructions", "conditions", "user_temperature", "forms", "variants", "profile", "free_replies",
    "tasks", "language", "turns",
)  # fmt: skip
"""Fields with a line of their own that only some kinds have; the lines of other kinds are hidden."""

PROFILES = {"question": FormChoice("another for each question"), "run": FormChoice("one for a run")}
"""For how long a user keeps a profile."""

REPLIES = {False: FormChoice("follow a JSON schema"), True: FormChoice("free, as in the source")}
"""Whether replies are free."""

KIND_HELP: dict[Kind, str] = {
    "sharded": "Instructions revealed piece by piece, under conditions; the answers are scored.",
    "forms": "Forms filled in conversation, by modules or by one prompt; what is filled is scored.",
    "recsim": "Users with profiles who plan something with an assistant.",
}
"""What each kind plays."""

_MAX_PLACEHOLDER_CHARS = 70
"""Most characters of a default that stands in an empty field."""

OTHER_LINES = 12
"""Lines of title, summary, note, footer, jobs bar and the shortest list of plays: the table gets the others."""

_MAX_NAME_CHARS = 100
"""Most characters of the name of the play."""

_MAX_RESULT_CHARS = 200
"""Most characters of the result, or of why the play broke off."""


class SimulationRunForm(RunForm[SimulationRequest, Estimate]):
    """Asks what to play; estimates the calls and the time as the fields change."""

    PLACE = "simulation-new"
    FORM_TITLE = "Simulate conversations"
    FIRST_FIELD = "kind"
    OPTIONS = OPTIONS
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, simulations: SimulationService, offers: SimulationOffers) -> None:
        super().__init__()
        self._simulations, self._offers = simulations, offers
        models = {name: FormChoice(name) for name in offers.models}
        self.choices = {
            "kind": {
                kind: FormChoice(formatting.KIND_NAMES[kind], KIND_HELP[kind]) for kind in KINDS
            },
            "model": {None: FormChoice(f"{offers.models[0]} (the project's)"), **models},
            "user_model": {None: FormChoice("the same"), **models},
            "judge_model": {None: FormChoice("the same"), **models},
            "variants": {name: FormChoice(name) for name in (BOTH, *offers.variants)},
            "profile": PROFILES,
            "free_replies": REPLIES,
            "language": {name: FormChoice(name) for name in offers.languages},
        }

    def compose_fields(self) -> ComposeResult:
        """Yields the fields of all kinds, filled with the last request."""
        offers, last = self._offers, self._offers.last or SimulationRequest(KINDS[0])
        variant = last.variants[0] if len(last.variants) == 1 else BOTH
        yield field_line("kind", self.choice_field("kind", last.kind))
        yield field_line("model", self.choice_field("model", last.model))
        yield field_line("user", self.choice_field("user_model", last.user_model))
        yield field_line("judge", self.choice_field("judge_model", last.judge_model))
        yield field_line("runs", _input(last, "runs"), _input(last, "limit"), "limit")
        yield field_line("seed", _input(last, "seed"), _input(last, "temperature"), "temperature")
        yield field_line("instructions", _input(last, "instructions"))
        yield field_line("conditions", _input(last, "conditions", offers.usual_conditions))
        yield field_line("user temp.", _input(last, "user_temperature"))
        yield field_line("forms", _input(last, "forms", [name for name, _ in offers.forms]))
        yield field_line("variant", self.choice_field("variants", variant))
        yield field_line("user is", self.choice_field("profile", last.profile))
        yield field_line("replies", self.choice_field("free_replies", last.free_replies))
        yield field_line("tasks", _input(last, "tasks", offers.tasks))
        yield field_line("language", self.choice_field("language", last.language))
        yield field_line("turns", _input(last, "turns"))

    def update_lines(self) -> None:
        """Shows the lines of the kind that is chosen."""
        kind: Kind = self.chosen("kind")
        for name in KIND_FIELDS:
            self.query_one(f"#field-{name}").display = name in FIELDS[kind]
        self.query_one("#field-judge_model").display = kind == "sharded"

    def request(self) -> SimulationRequest:
        """Returns the request that the fields describe.

        Raises:
            WorkbenchError: A field cannot be used.
        """
        kind: Kind = self.chosen("kind")
        texts = {box.id: self.text(box.id) for box in self.query(Input) if box.id}
        # A choice of None, the usual one, is an empty text for `read_request`.
        for name in ("model", "user_model", "judge_model", "variants", "profile", "language"):
            texts[name] = self.chosen(name) or ""
        request = read_request(kind, texts)
        return replace(request, free_replies=kind == "forms" and self.chosen("free_replies"))

    def estimate(self, request: SimulationRequest) -> Estimate:
        """Returns how many plays are left, and what they take."""
        return self._simulations.estimate(request)

    def field_help(self, field: str) -> str:
        """Returns the help of a field, and for the forms their names and subjects."""
        if field == "forms":
            return (
                "; ".join(f"{name}: {topic}" for name, topic in self._offers.forms)
                + "; or JSON files."
            )
        return super().field_help(field)


def _input(last: SimulationRequest, name: str, usual: Sequence[str] = ()) -> Input:
    """Returns a field with its value in a request, and the default in it where it is empty.

    Args:
        usual: The default of a field for several names.
    """
    value = getattr(last, name)
    placeholder = "all" if name == "limit" else "usual"
    if isinstance(value, tuple):
        text = ", ".join(value)
        placeholder = one_line(", ".join(usual), _MAX_PLACEHOLDER_CHARS)
    elif value is None:
        text = ""
    elif isinstance(value, float):
        text = f"{value:g}"
    else:
        text = str(value)
    return LineInput(display_safe(text), id=name, placeholder=placeholder)


class SimulationScreen(WorkbenchScreen[None]):
    """Shows the results of sets of simulations, and their plays."""

    PLACE = "simulation"
    MODE = "simulation"
    FIRST_KEYS = ("simulation.new", "simulation.conversation", "simulation.export")
    AUTO_FOCUS = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", tooltip="Choose what to play, with its cost first"),
        Binding(
            "right_square_bracket", "other_set(1)", "Set", key_display="[ ]",
            tooltip="Next set", priority=True,
        ),
        Binding(
            "left_square_bracket", "other_set(-1)", "Set before", show=False, priority=True
        ),
        Binding("right", "turn(1)", "Table", key_display="← →", tooltip="Next table of this set"),
        Binding("left", "turn(-1)", "Table before", show=False),
        Binding("s", "sort", "Sort", show=False, tooltip="Sort by a column; the same one again reverses it"),
        Binding("o", "conversation", "Read", tooltip="Read the conversation of a play"),
        Binding("y", "copy", "Copy", show=False, tooltip="Copy the table"),
        Binding("X", "export", "Export", show=False, tooltip="Write tables and plays to a file"),
        Binding("escape", "leave", "Back", show=False, tooltip="From the plays to the table"),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self._sets: list[PlaySetting] = []
        self._shown = ""  # key of the set that is shown
        self._results = SetResults((), ())
        self._page = 0
        self._plays: dict[int, PlayItem] = {}
        self.table = ItemTable(NO_COLUMNS, self._row_key, id="rows")
        self.plays = ItemTable(formatting.play_columns(), lambda play: play.id, id="plays")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, the table and the plays."""
        yield Static(id="summary")
        yield self.table
        yield Static(id="note")
        yield Static(classes="empty")
        yield self.plays

    # Reading

    def refresh_data(self) -> None:
        """Reads the sets again, and the one that is shown."""
        simulations, shown = self.services.simulations, self._shown
        before = {played.config_hash for played in self._sets}

        def read() -> tuple[list[PlaySetting], str, SetResults]:
            sets = simulations.sets()
            keys = [played.config_hash for played in sets]
            # a new set is the one that was just begun
            key = shown if shown in keys and keys[0] in before else keys[0] if keys else ""
            return sets, key, simulations.results(key) if key else SetResults((), ())

        self.in_background(read, lambda results: self._show(*results), group="sets")

    def _show(self, sets: list[PlaySetting], key: str, results: SetResults) -> None:
        """Shows the sets and the results of one of them."""
        if key != self._shown:
            self._page, self.table.sort = 0, None
        self._sets, self._shown, self._results = sets, key, results
        self._page = min(self._page, max(0, len(results.tables) - 1))
        self._plays = {item.id: item for item in results.plays}
        self.set_class(not sets, "-empty")
        if not sets:
            self.show_empty(formatting.NOTHING_PLAYED)
        self._show_table()

    @property
    def _at(self) -> int:
        """Index of the set that is shown."""
        keys = [played.config_hash for played in self._sets]
        return keys.index(self._shown) if self._shown in keys else 0

    @property
    def _table_here(self) -> ReportTable | None:
        """The table that is shown; None where nothing has ended yet."""
        tables = self._results.tables
        return tables[self._page] if self._page < len(tables) else None

    def _show_table(self) -> None:
        """Shows the table with its note, and the plays of its row."""
        if not self._sets:
            return
        table = self._table_here
        many = len(self._results.tables)
        page = f"({self._page + 1} of {many})" if many > 1 else ""
        self.query_one("#summary", Static).update(
            formatting.set_line(self._sets, self._at, table, page, self.size.width)
        )
        if table is None:
            self.table.show_columns(NO_COLUMNS)
            self.query_one("#note", Static).update(
                f"No play of this set has ended yet; {self._key_of('simulation.new')} goes on with it."
            )
        else:
            self.table.show_columns(report_columns(table))
            by = None if self.table.sort is None else int(self.table.sort[0])
            self.query_one("#note", Static).update(formatting.reading_note(table, by))
        self.table.show_items([] if table is None else self.table.ordered(table.rows))
        self._fit()
        self._show_plays()

    def _fit(self) -> None:
        """Gives the table as many lines as it has rows, and leaves room for the plays."""
        room = max(4, (self.size.height - OTHER_LINES) // 2 + 2)
        self.table.styles.height = min(len(self.table.ids) + 1, room)

    def on_resize(self) -> None:
        """Fits the table to the room that there is."""
        self._fit()

    def _row_key(self, row: ReportRow) -> tuple[str, ...]:
        """Returns what tells a row from those of other tables and sets: its names."""
        table = self._table_here
        columns = () if table is None else table.columns
        names = [nth for nth, column in enumerate(columns) if column.kind == "text"] or [0]
        title = "" if table is None else table.title
        return (self._shown, title, *(str(row.cells[nth]) for nth in names))

    def _show_plays(self) -> None:
        """Lists the plays of the row under the cursor; those that broke off stand in no row and come last."""
        row = self.table.here
        listed = list(self._plays) if row is None else [*row.plays]
        if row is not None:
            listed += [item.id for item in self._results.plays if item.reason is not None]
        self.plays.show_items(self._plays[key] for key in listed if key in self._plays)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Lists the plays of another row."""
        if message.table is self.table:
            self._show_plays()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Goes from a row to its plays, and from a play to its transcript."""
        if message.table is self.table:
            self.plays.focus()
        elif (item := self.plays.item(message.row_id)) is not None:
            self.app.push_screen(PlayScreen(self.services, self.feed, item, self.MODE))

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """Sorts by the column whose title was clicked."""
        self.table.sort_by(message.key)
        self._show_table()

    # Another set, table or order

    def action_other_set(self, by: int) -> None:
        """Shows another set."""
        if self._sets:
            index = (self._at + by) % len(self._sets)
            key, simulations = self._sets[index].config_hash, self.services.simulations
            sets = self._sets
            self.in_background(
                lambda: simulations.results(key),
                lambda results: self._show(sets, key, results),
                group="sets",
            )

    def action_turn(self, by: int) -> None:
        """Shows another table of the set."""
        if self._results.tables:
            self._page = (self._page + by) % len(self._results.tables)
            self.table.sort = None
            self._show_table()

    def action_sort(self) -> None:
        """Asks for the column to sort by."""
        if self._table_here is not None:
            ask_column(self, self.table, self._show_table)

    def action_leave(self) -> None:
        """From the plays to the table."""
        self.table.focus()

    # Runs

    def action_new(self) -> None:
        """Asks what to play, and starts it."""
        if not self.may_write():
            return
        simulations = self.services.simulations

        def on_choice(request: SimulationRequest) -> None:
            self.in_background(lambda: simulations.start(request), lambda job: None, group="start")

        def show(offers: SimulationOffers) -> None:
            ask(self, SimulationRunForm(simulations, offers), on_choice)

        self.in_background(simulations.offers, show, group="offers")

    # Other screens

    @property
    def _item(self) -> PlayItem | None:
        """The play under the cursor."""
        return self.plays.here

    def action_conversation(self) -> None:
        """Opens the conversation of the play under the cursor, among those of its row."""
        item = self._item
        if item is None or item.conversation_id is None:
            self.notify("There is no conversation to read here.", markup=False)
            return
        keys = [self._plays[key].conversation_id for key in self.plays.ids if key in self._plays]
        order = array("q", dict.fromkeys(key for key in keys if key is not None))
        index = order.index(item.conversation_id)
        self.open_reader(order, index)

    # Copy and export

    def action_copy(self) -> None:
        """Copies the table as it is shown."""
        if (table := self._table_here) is not None:
            copy(self, tab_separated(table, self.table.items), "the table")

    def action_export(self) -> None:
        """Asks for a file and writes the set to it."""
        if not self._sets:
            return
        simulations, key = self.services.simulations, self._shown

        name = f"{self._sets[self._at].source}.json"
        ask_file(self, "Write this set to", name, lambda path: simulations.export(key, path))


class PlayScreen(WorkbenchScreen[None]):
    """Goes through the calls of one play."""

    PLACE = "play"
    AUTO_FOCUS = "#calls"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "conversation", "Conversation", tooltip="Read the conversation it became"),
        Binding("y", "copy", "Copy", tooltip="Copy the call under the cursor with its reply"),
        Binding("escape", "leave", "Back", tooltip="From the text to the calls, or back"),
        Binding("q", "close", "Close", show=False, tooltip="Go back"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, item: PlayItem, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._item = item
        self._lines: list[TranscriptLine] = []
        self.table = ItemTable(formatting.call_columns(), lambda call: call.place, id="calls")

    def compose_body(self) -> ComposeResult:
        """Yields the result, calls, and the call under the cursor."""
        yield Static(id="result")
        yield self.table
        yield TextPane(id="call")

    def on_mount(self) -> None:
        """Sets the title."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Transcript", "bold"))

    def refresh_data(self) -> None:
        """Reads the transcript; it never changes."""
        simulations, play = self.services.simulations, self._item.id
        if not self._lines:
            self.in_background(lambda: simulations.transcript(play), self._show, group="calls")

    def _show(self, lines: list[TranscriptLine]) -> None:
        """Lists the calls."""
        self._lines = lines
        item = self._item
        result = item.summary if item.reason is None else f"broke off: {item.reason}"
        self.query_one("#result", Static).update(
            Content.assemble(
                (one_line(item.name, _MAX_NAME_CHARS), "bold"),
                f" · {number_format.counted(len(lines), 'call')}",
                (f" · {one_line(result, _MAX_RESULT_CHARS)}" if result else "", "$tone-muted"),
            )
        )
        self.table.show_items(
            formatting.PlacedCall(place, line) for place, line in enumerate(lines)
        )
        self._show_call()

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the call under the cursor."""
        self._show_call()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Goes to the text of the call."""
        self.query_one(TextPane).focus()

    @property
    def _line(self) -> TranscriptLine | None:
        """The call under the cursor."""
        return None if self.table.here is None else self.table.here.line

    def _show_call(self) -> None:
        """Shows the call under the cursor whole."""
        line = self._line
        pane = self.query_one(TextPane)
        text = (
            "No call: it asked no model for anything."
            if line is None
            else formatting.call_text(line)
        )
        if text != pane.text:
            pane.show(text)

    def action_conversation(self) -> None:
        """Opens the conversation that came of the play."""
        key = self._item.conversation_id
        if key is None:
            self.notify("No conversation came of this play.", markup=False)
            return
        self.open_reader(array("q", [key]), 0)

    def action_copy(self) -> None:
        """Copies the call."""
        if (line := self._line) is not None:
            copy(self, formatting.call_text(line), "the call")

    def action_leave(self) -> None:
        """Goes from the text to the calls; from them back to the screen before."""
        if self.query_one(TextPane).has_focus:
            self.table.focus()
        else:
            self.dismiss(None)
