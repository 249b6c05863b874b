"""The screen that shows what goes with one of two sides: words, tools, signs, goals, metadata.

A side is the conversations that a filter matches. A feature goes with a side if more of its conversations have it than
of those of the other side.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from engine.conversations.filters import Filter
from engine.opener.open_project import OpenProject
from engine.results.associations.formatting import (
    association_cells,
    association_lines,
    conclusion,
    feature_text,
    marked_words,
    near_equal_text,
    notes,
    side_lines,
)
from engine.results.associations.records import Association, Associations, Split
from screens.shell.exporting import copy
from screens.shell.figures import ask_sides
from screens.shell.result_screen import ResultScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.evidence import Preview
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable


class AssociationScreen(ResultScreen[Associations]):
    """Lists what goes with one of two sides, the clearest first; enter reads the conversations with it on that side."""

    PLACE = "associations"
    NO_RESULT = EmptyState("No sides are compared yet.", "names two filters", "sides")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "sides", "Sides", tooltip="Name the two sides by filters"),
        Binding("w", "within", "Within goals", tooltip="Compare within goals, or without regard to them"),
        Binding("r", "again", "Again", tooltip="Look again, with what came since"),
        Binding("J", "judge", "Judge", tooltip="Triage of just the conversations behind this line"),
        Binding("y", "copy", "Copy", tooltip="Copy the tables and how they are to be read"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]  # fmt: skip

    def __init__(
        self, services: OpenProject, feed: EngineFeed, split: Split | None, mode: str
    ) -> None:
        """Shows nothing before the sides are compared.

        Args:
            split: The two sides; None takes the sides of the outcome that is known best.
            mode: As in `WorkbenchScreen`.
        """
        super().__init__(services, feed, mode)
        self._split = split
        self._within_goals = True
        self.table = ItemTable(_COLUMNS, id, id="rows")

    def on_mount(self) -> None:
        """Looks for what goes with the sides."""
        self.action_again()

    def companions(self) -> Iterable[Widget]:
        """Yields a conversation that has the feature under the cursor."""
        yield Preview(self.services)

    def sides(self) -> Split | None:
        """Returns the sides that are shown."""
        return self._split if self.result is None else self.result.split

    def action_again(self) -> None:
        """Compares the sides again, in the background."""
        service, split, within_goals = self.services.associations, self._split, self._within_goals

        def work() -> Associations:
            """Reads the conversations, on another thread; ten thousand take seconds."""
            return service.associations(split or service.split(), within_goals=within_goals)

        self.work_out("Reading the conversations of both sides …", work, self._show)

    def _show(self, result: Associations) -> None:
        """Shows what goes with each side."""
        first, second = side_lines(result)
        summary = Content.assemble(f"{first}\n{second}\n", (conclusion(result), "bold"))
        self.show_result(result, summary, notes(result))
        self.table.show_items(result.rows)

    def action_within(self) -> None:
        """Compares conversations within goals, or without regard to goals."""
        self._within_goals = not self._within_goals
        self.action_again()

    def action_sides(self) -> None:
        """Asks for two filters, and compares their conversations."""

        def compare(first: Filter, second: Filter) -> None:
            self._split = Split(first, second) if first else None
            self.action_again()

        ask_sides(self, compare)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the first conversation behind the line under the cursor, with its words marked."""
        row = self.table.item(message.row_id)
        if row is not None and row.ids:
            self.query_one(Preview).follow(row.ids[0], marked_words(row))

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter reads the conversations of the side that have the feature, with its words marked."""
        row = self.table.item(message.row_id)
        if row is not None:
            self.open_reader(array("q", row.ids), 0, words=marked_words(row))

    def action_judge(self) -> None:
        """Goes to triage of the conversations behind the line under the cursor."""
        row = self.table.cursor_item
        if row is not None:
            self.triage_only(feature_text(row.feature), row.ids)

    def action_copy(self) -> None:
        """Copies the tables and notes as text."""
        if self.result is not None:
            copy(self, "\n".join(association_lines(self.result)), "what goes with each side")


def _cell(
    index: int, key: str, title: str, width: int, *, right: bool = False
) -> Column[Association]:
    """Returns the column of one of `association_cells`."""

    def pieces(row: Association) -> Sequence[Piece]:
        """Returns the text of a row's cell."""
        return [(association_cells(row)[index], "")]

    return Column(key, title, width, pieces, flexible=index == 0, right=right)


_COLUMNS = [
    Column[Association]("side", "with", 4, lambda row: [("AB"[row.side], "tone--bright")]),
    _cell(0, "what", "what", 24),
    _cell(1, "first", "A", 5, right=True),
    _cell(2, "second", "B", 5, right=True),
    _cell(3, "odds", "odds (range)", 20),
    Column[Association](
        "near",
        "and in nearly the same conversations",
        50,
        lambda row: [(near_equal_text(row), "tone--muted")],
        flexible=True,
        keep=3,
    ),
]
