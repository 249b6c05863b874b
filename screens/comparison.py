"""The screen that compares two parts of a project, or the share that ended between the values of a field."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.conversations.filters import Filter, parse_filter
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Split
from engine.results.comparison.formatting import (
    breakdown_lines,
    breakdown_notes,
    comparison_lines,
    comparison_notes,
    completion_cells,
    difference_cells,
    entropy_cells,
    has_trees,
    side_text,
)
from engine.results.comparison.records import Breakdown, Comparison, Difference, Part
from screens.shell.dialogs import ChoiceDialog
from screens.shell.exporting import copy
from screens.shell.result_screen import ResultScreen
from screens.shell.workbench_screen import ask_sides
from screens.widgets.empty_state import EmptyState
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

MAX_FIELD_CHARS = 60
"""Most characters of the name of a field in the list of what can be compared by."""

FILTERS = ""
"""The choice of two filters, among fields."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        values: Texts of the columns, by key.
        filter: The filter of the conversations behind it; None where no filter selects them.
        bright: Whether its difference is significant.
        faint: Keys of the figures that are of few conversations.
    """

    values: dict[str, str]
    filter: str | None
    bright: bool
    faint: Collection[str]


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
        """See `WorkbenchScreen`."""
        super().__init__(services, feed, mode)
        # A field or two filters, of which `result` is the comparison.
        self._request: str | tuple[Filter, Filter] | None = None
        # Rows have no key of their own, so each object is told apart by its identity.
        self.table = ItemTable(_COMPARED, id, id="rows")

    def on_mount(self) -> None:
        """Asks what to compare."""
        super().on_mount()
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
            *((field, f"by {one_line(field, MAX_FIELD_CHARS)}") for field in fields),
        ]

        def compare_by(field: str | None) -> None:
            """Compares by a field, or asks for filters; nothing where the person left the dialog."""
            if field == FILTERS:
                ask_sides(self, lambda first, second: self._compare((first, second)))
            elif field is not None:
                self._compare(field)

        self.app.push_screen(ChoiceDialog("Compare", choices), compare_by)

    def sides(self) -> Split | None:
        """Returns both sides that are compared, or the value under the cursor and all others."""
        if isinstance(self._request, tuple):
            return Split(*self._request)
        row = self.table.here
        return (
            None if row is None or row.filter is None else Split(parse_filter(row.filter), Filter())
        )

    def action_again(self) -> None:
        """Compares the same again."""
        if self._request is not None:
            self._compare(self._request)

    def _compare(self, request: str | tuple[Filter, Filter]) -> None:
        """Compares by a field, or by two filters, in the background."""
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
            sides = (
                Content.styled(
                    f"{letter}  {side_text(side)}",
                    "$tone-muted" if number_format.is_few(side.rate.scored) else "",
                )
                for letter, side in zip("AB", result.sides, strict=True)
            )
            summary, notes = Content("\n").join(sides), comparison_notes(result)
            rows = [_difference_row(difference, result) for difference in result.differences]
            columns = _COMPARED
        else:
            summary, notes = Content.styled(f"by {result.field}", "bold"), breakdown_notes(result)
            rows = [_part_row(part) for part in result.parts]
            columns = _BY_FIELD + (_ENTROPY if has_trees(result) else [])
        self.show_result(result, summary, notes)
        self.table.show_columns(columns)
        self.table.show_items(rows)

    def action_copy(self) -> None:
        """Copies everything as text."""
        if self.result is not None:
            lines = (
                comparison_lines(self.result)
                if isinstance(self.result, Comparison)
                else breakdown_lines(self.result)
            )
            copy(self, "\n".join(lines), "the comparison")

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Lists the conversations behind a line."""
        row = self.table.item(message.row_id)
        if row is None or row.filter is None:
            self.notify("No filter selects these conversations.", markup=False)
        else:
            self.open_conversations(parse_filter(row.filter))


def _difference_row(difference: Difference, comparison: Comparison) -> Row:
    """Returns a difference as a line of the table."""
    filter = comparison.sides[difference.examples_in].filter
    if filter is not None and difference.goal is not None:
        goal = Filter().with_choice("goal", difference.goal)
        filter = str(Filter((*parse_filter(filter).terms, *goal.terms)))
    keys = ("name", "first", "second", "change", "p", "needed")
    values = dict(zip(keys, difference_cells(difference), strict=True))
    faint = [
        key
        for key, cases in zip(("first", "second"), difference.cases, strict=True)
        if number_format.is_few(cases)
    ]
    return Row(values, filter, difference.significant, faint)


def _part_row(part: Part) -> Row:
    """Returns the conversations with one value of a field as a line of the table."""
    keys = ("name", "count", "scored", "ended", "corrected", "change", "p")
    values = dict(zip(keys, completion_cells(part), strict=True))
    _, _, *entropies = entropy_cells(part)
    values |= zip(("entropy", "entropy_change", "entropy_p"), entropies, strict=True)
    changes = (part.change, part.entropy_change)
    bright = any(change is not None and change.significant for change in changes)
    faint = ["ended"] if number_format.is_few(part.rate.scored) else []
    return Row(values, part.filter, bright, faint)


def _column(key: str, title: str, width: int, keep: int = 9, *, right: bool = True) -> Column[Row]:
    """Returns a column of texts; the column with the least `keep` is the first to go in a narrow terminal."""

    def cell(row: Row) -> Sequence[Piece]:
        """Returns the text of a row's cell."""
        if key in row.faint:
            return [(row.values[key], "tone--muted")]
        return [(row.values[key], "tone--bright" if row.bright else "")]

    return Column(key, title, width, cell, flexible=key == "name", right=right, keep=keep)


_COMPARED = [
    _column("name", "what", 20, right=False),
    _column("first", "A", 8),
    _column("second", "B", 8),
    _column("change", "change (95%)", 26, keep=7),
    _column("p", "p", 6),
    _column("needed", "needs", 7, keep=3),
]
"""Columns of the differences between two parts."""

_BY_FIELD = [
    _column("name", "value", 10, right=False),
    _column("count", "conv.", 8),
    _column("scored", "scored", 8, keep=3),
    _column("ended", "ended", number_format.RATE_WIDTH),
    _column("corrected", "corrected", 17, keep=4),
    _column("change", "change (95%)", 24, keep=7),
    _column("p", "p", 6),
]
"""Columns of the share that ended by the values of a field."""

_ENTROPY = [
    _column("entropy", "entropy", 7, keep=6),
    _column("entropy_change", "change in bits (95%)", 24, keep=2),
    _column("entropy_p", "p", 6, keep=2),
]
"""Further columns where there are response trees."""
