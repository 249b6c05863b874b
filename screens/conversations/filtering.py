"""Asking a list differently: the filter line, saved filters, the order, the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.binding import Binding, BindingType

from engine.filters import Filter, FilterError, ListQuery, parse_filter
from engine.services.services import Services
from engine.text import display_safe, one_line
from screens.conversations.columns import COLUMN_TITLES, DEFAULT_COLUMNS, FIXED
from screens.conversations.marking import MarkingScreen
from screens.conversations.query import SORT_TITLES, next_state, sort_of_column, toggle_sort
from screens.conversations.saved_filters import SavedFiltersDialog
from screens.shell.dialogs import TextDialog, TicksDialog, ask_order
from screens.shell.filter_editing import edit_filter
from screens.widgets.background import write_in_order
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.filter_line import FilterLine
from screens.widgets.row_table import RowTable

ASKING_KEYS: tuple[BindingType, ...] = (
    Binding("f", "edit_filter", "Filter", tooltip="Write a filter"),
    Binding("slash", "search", "Find", key_display="/", tooltip="Find words in the messages"),
    Binding("F", "next_state", "State", tooltip="Next state filter", show=False),
    Binding("s", "sort", "Sort", tooltip="Sort by a column"),
    Binding("S", "reverse", "Reverse", tooltip="Reverse the order", show=False),
    Binding("C", "columns", "Columns", tooltip="Choose the columns", show=False),
    Binding("w", "save_filter", "Save", tooltip="Save this filter under a name", show=False),
    Binding("W", "saved_filters", "Saved", tooltip="Saved filters", show=False),
    Binding("escape", "clear", "Clear", tooltip="Clear the filter, then the marks", show=False),
)


class AskingScreen(MarkingScreen):
    """A list with a filter line.

    Attributes:
        query_shown: What is listed; changed through `ask` only.
        columns_shown: Keys of the columns; changed through `show_columns` only.
    """

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.query_shown = ListQuery()
        self.columns_shown: Sequence[str] = DEFAULT_COLUMNS

    def ask(self, query: ListQuery) -> None:
        """Lists something else."""
        raise NotImplementedError

    def show_columns(self, columns: Sequence[str]) -> None:
        """Shows other columns."""
        raise NotImplementedError

    def on_filter_line_asked(self, message: FilterLine.Asked) -> None:
        """What is written in the filter line is listed."""
        self.ask(replace(self.query_shown, filter=message.filter))

    def on_filter_line_left(self) -> None:
        """Back to the list."""
        self.table.focus()

    def filter_by(self, wanted: Filter) -> None:
        """Lists what a filter matches."""
        self.query_one(FilterLine).put(wanted)
        self.ask(replace(self.query_shown, filter=wanted))

    def action_edit_filter(self) -> None:
        """Goes into the filter line."""
        edit_filter(self)

    def action_search(self) -> None:
        """Goes into the filter line to write words behind what stands there."""
        edit_filter(self, words=True)

    def action_next_state(self) -> None:
        """Steps through the state filters."""
        self.filter_by(next_state(self.query_shown).filter)

    def action_clear(self) -> None:
        """Takes the filter away, and when there is none the marks."""
        if self.query_shown.filter:
            self.filter_by(Filter())
        elif self.marks:
            self.action_mark_none()

    def action_reverse(self) -> None:
        """Turns the order round."""
        self.ask(replace(self.query_shown, descending=not self.query_shown.descending))

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """A click on a column's title sorts by it."""
        key = sort_of_column(message.key)
        if key is not None:
            self.ask(toggle_sort(self.query_shown, key))

    def action_sort(self) -> None:
        """Asks for the column to sort by."""
        ask_order(
            self,
            list(SORT_TITLES.items()),
            self.query_shown.sort,
            lambda key: self.ask(toggle_sort(self.query_shown, key)),
        )

    def action_columns(self) -> None:
        """Asks which columns are shown."""

        def chosen(keys: list[str] | None) -> None:
            if keys is None:
                return
            self.show_columns([*keys, FIXED])
            if self.services.project.read_only is None:
                saved, columns = self.services.saved, [*keys, FIXED]
                write_in_order(
                    self, lambda: saved.save_columns(columns), lambda _: None, self.show_error
                )
            else:
                self.notify("Read-only: the columns are not remembered.", markup=False)

        choices = [(key, title) for key, title in COLUMN_TITLES.items() if key != FIXED]
        self.app.push_screen(TicksDialog("Columns", choices, self.columns_shown), chosen)

    # Saved filters

    def action_save_filter(self) -> None:
        """Asks for a name and saves the filter under it."""
        text = str(self.query_shown.filter)
        if not text:
            self.notify("There is no filter to save; f writes one.", markup=False)
            return
        if not self.may_write():
            return

        def chosen(name: str | None) -> None:
            name = one_line(name or "", 60)
            if name:
                write_in_order(
                    self,
                    lambda: self.services.saved.save_filter(name, text),
                    lambda _: self.notify(f"Saved as {name}; W lists it.", markup=False),
                    self.show_error,
                )

        self.app.push_screen(TextDialog("Save this filter as", placeholder="a name"), chosen)

    def action_saved_filters(self) -> None:
        """Lists the saved filters, to apply or delete one."""

        def chosen(text: str | None) -> None:
            if text is None:
                return
            try:
                wanted = parse_filter(display_safe(text))
            except FilterError as error:
                self.show_error(error)
            else:
                self.filter_by(wanted)

        def show(filters: dict[str, str]) -> None:
            dialog = SavedFiltersDialog(self.services.saved, self.services.project, filters)
            self.app.push_screen(dialog, chosen)

        self.in_background(self.services.saved.filters, show, group="saved")
