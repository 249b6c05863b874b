"""The screen that compares two parts of a project, or the share that ended between the values of a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from engine.base.number_format import interval, signed
from engine.base.report_table import (
    UNKNOWN,
    Cell,
    ReportRow,
    ReportTable,
    format_cell,
    tab_separated,
)
from engine.base.statistics.intervals import Interval
from engine.base.text import NAME_LIMIT, display_safe, one_line
from engine.conversations.filters import Filter, parse_filter
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Split
from engine.results.comparison.differences import Breakdown, Comparison
from engine.results.comparison.formatting import breakdown_table, comparison_table, side_sentences
from screens.shell.dialogs import ChoiceDialog, ask
from screens.shell.exporting import copy
from screens.shell.figures import ask_sides
from screens.shell.result_screen import ResultScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

NO_COLUMNS: list[Column[ReportRow]] = [Column("name", "", 20, lambda row: [], flexible=True)]
"""The columns before there is a result."""
_MIN_WIDTH, _MAX_WIDTH = 5, 30
"""Fewest and most cells of a column without intervals, which is as wide as its widest text."""
_INTERVAL_WIDTH, _SIGNED_WIDTH = 14, 19
"""Cells of a figure with its interval, without signs and with."""
_MOST_IMPORTANT = 100
"""`Column.keep` of the first column; each further one has one less."""

FILTERS = ""
"""Stands for two filters among the names of fields."""


def report_columns(table: ReportTable) -> list[Column[ReportRow]]:
    """Returns the columns of a table: the name, which takes the width that is left, and the figures.

    In a narrow terminal the last columns go first.
    """
    return [_column(table, index) for index in range(len(table.columns))]


def _column(table: ReportTable, index: int) -> Column[ReportRow]:
    """Returns a column of the table, by its index. A figure that has an interval is shown with it."""
    column = table.columns[index]
    title = one_line(column.title or table.title, NAME_LIMIT)
    keep = _MOST_IMPORTANT - index
    cells = [row.cells[index] for row in table.rows]
    if column.has_intervals:
        has_signs = any(isinstance(value, Interval) and value.low < 0 for value in cells)
        width = _SIGNED_WIDTH if has_signs else _INTERVAL_WIDTH
        return Column(str(index), title, width, lambda row: _interval(row.cells[index]), keep=keep)

    def cell(row: ReportRow) -> Sequence[Piece]:
        """Returns the text of the cell."""
        text = one_line(format_cell(column.kind, row.cells[index]), NAME_LIMIT)
        is_faint = text == UNKNOWN or index in row.faint
        return [(text, "tone--muted" if is_faint else "")]

    widest = max([len(title), *(len(format_cell(column.kind, value)) for value in cells)])
    width = min(max(widest, _MIN_WIDTH), _MAX_WIDTH)
    return Column(
        str(index),
        title,
        width,
        cell,
        flexible=index == 0,
        right=column.kind != "text" and index > 0,
        keep=keep,
    )


def _interval(cell: Cell) -> Sequence[Piece]:
    """Returns a figure and the ends of its interval."""
    if not isinstance(cell, Interval):
        return [(UNKNOWN, "tone--muted")]
    return [(signed(cell.value), ""), (f" {interval(cell.low, cell.high)}", "tone--muted")]


class ComparisonScreen(ResultScreen[Comparison | Breakdown]):
    """Asks what to compare, and lists what differs; enter lists the conversations behind a line."""

    PLACE = "comparison"
    NO_RESULT = EmptyState(
        "Nothing is compared yet.",
        "chooses a field whose values are compared, or two filters",
        "choose",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "choose", "Compare", tooltip="Choose a field, or two filters"),
        Binding("r", "again", "Again", tooltip="Compare again, with what came since"),
        Binding("y", "copy", "Copy", tooltip="Copy the table and how it is to be read"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        """Asks what to compare; `mode` is as in `WorkbenchScreen`."""
        super().__init__(services, feed, mode)
        # What `result` compares: the values of a field, or two filters.
        self._request: str | tuple[Filter, Filter] | None = None
        self._report: ReportTable | None = None
        # Rows have no key of their own, so each object is told apart by its identity.
        self.table = ItemTable(NO_COLUMNS, id, id="rows")

    def on_mount(self) -> None:
        """Asks what to compare."""
        self.set_class(True, "-empty")
        self.show_empty(self.NO_RESULT)
        self.call_after_refresh(self.action_choose)

    def action_choose(self) -> None:
        """Lists the fields that can be compared by, and two filters."""
        service = self.services.comparison
        self.in_background(service.fields, self._choose, group="fields")

    def _choose(self, fields: Sequence[str]) -> None:
        """Asks for a field or two filters."""
        choices = [
            (FILTERS, "two filters, or a filter and all others"),
            *((field, f"by {one_line(field, NAME_LIMIT)}") for field in fields),
        ]

        def compare_by(field: str) -> None:
            """Compares by a field, or asks for filters."""
            if field == FILTERS:
                ask_sides(self, lambda first, second: self._compare((first, second)))
            else:
                self._compare(field)

        ask(self, ChoiceDialog("Compare", choices), compare_by)

    def sides(self) -> Split | None:
        """Returns both sides that are compared, or the value under the cursor and all others."""
        if isinstance(self._request, tuple):
            return Split(*self._request)
        row = self.table.cursor_item
        filter = None if row is None else row.details["filter"]
        return None if filter is None else Split(parse_filter(filter), Filter())

    def action_again(self) -> None:
        """Compares the same again."""
        if self._request is not None:
            self._compare(self._request)

    def _compare(self, request: str | tuple[Filter, Filter]) -> None:
        """Compares the values of a field, or two filters, in the background."""
        service = self.services.comparison

        def work() -> Comparison | Breakdown:
            """Compares, on another thread."""
            return service.by(request) if isinstance(request, str) else service.compare(*request)

        def show(result: Comparison | Breakdown) -> None:
            """Shows the result, and keeps the request to ask for it again."""
            self._request = request
            self._show(result)

        # with a hundred thousand conversations it takes seconds
        self.work_out("Comparing …", work, show)

    def _show(self, result: Comparison | Breakdown) -> None:
        """Shows a result."""
        if isinstance(result, Comparison):
            lines, table = side_sentences(result), comparison_table(result)
        else:
            table = breakdown_table(result)
            lines = [table.title]
        self._report = table
        self.show_result(result, Content("\n".join(map(display_safe, lines))), table.notes)
        self.table.show_columns(report_columns(table))
        self.table.show_items(table.rows)
        self.call_after_refresh(self._show_notes, table.notes)  # once the table has its width

    def _show_notes(self, notes: Sequence[str]) -> None:
        """Shows notes, without those on columns for which there is no room; these begin with the title of theirs."""
        hidden = tuple(f"{title}:".capitalize() for title in self.table.hidden_titles if title)
        shown = [note for note in notes if not note.startswith(hidden)]
        self.query_one("#notes", Static).update(Content("\n".join(shown)))

    def action_copy(self) -> None:
        """Copies the table as text."""
        if self._report is not None:
            copy(self, tab_separated(self._report, self._report.rows), "the comparison")

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Lists the conversations behind a line."""
        row = self.table.item(message.row_id)
        filter = None if row is None else row.details["filter"]
        if filter is None:
            self.notify("No filter selects these conversations.", markup=False)
        else:
            self.open_conversations(parse_filter(filter))
