"""How the shares of the groups changed, month by month. A period is a month; the drift is the change of a share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import short_name
from engine.completeness.records import StateCounts
from engine.conversations.filters import Filter, Term
from engine.goals.records import GoalGroup, GroupPeriod
from engine.opener.open_project import OpenProject
from engine.results.comparison.differences import p_of_share_differences
from screens.shell.figures import Figure, choose_figure
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import rate_piece
from screens.widgets.groups import LONG_LABEL_LIMIT, goal_value, label_of
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

LEVEL_BLOCKS = "▁▂▃▄▅▆▇█"
"""Blocks of growing height, for the line of a group."""
MAX_PERIODS = 24
"""Most periods that the line of a group shows, the latest ones."""
MAX_SURE_P = 0.05
"""The p-value of a change that counts as sure is below this; it is drawn bright."""
MIN_BRIGHT_CHANGE = 0.01
"""Change of a share, in [0, 1], from which on it is drawn bright."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The share of a group over the periods.

    Attributes:
        goal: The value of the filter field `goal` that selects the group.
        label: Label of the group.
        shares: Its share of the conversations of each period in [0, 1], oldest period first.
        first, last: States of its conversations in the first and in the last period.
        p: p-value of no change from the first period to the last, by Holm's method over all groups.
    """

    goal: str
    label: str
    shares: tuple[float, ...]
    first: StateCounts
    last: StateCounts
    p: float = 1.0

    @property
    def change(self) -> float:
        """The last share minus the first."""
        return self.shares[-1] - self.shares[0]


def drifts(
    periods: Sequence[GroupPeriod], groups: Sequence[GoalGroup]
) -> tuple[list[str], list[Drift]]:
    """Returns the names of the periods, oldest first, and the drift of each group.

    The surest change comes first, of equally sure ones the largest.
    """
    names = list(dict.fromkeys(period.period for period in periods))[-MAX_PERIODS:]
    if not names:
        return [], []
    row_by_key = {(row.period, row.group): row for row in periods}
    first_total, last_total = (
        sum(row.size for row in periods if row.period == name) for name in (names[0], names[-1])
    )
    untested: list[Drift] = []
    sizes: list[tuple[int, int, int, int]] = []
    for group in groups:
        rows = [row_by_key.get((name, group.id)) for name in names]
        first, last = rows[0], rows[-1]
        untested.append(
            Drift(
                goal=goal_value(group, groups),
                label=label_of(group, LONG_LABEL_LIMIT),
                shares=tuple(0.0 if row is None else row.share for row in rows),
                first=StateCounts() if first is None else first.states,
                last=StateCounts() if last is None else last.states,
            )
        )
        first_size, last_size = (0 if row is None else row.size for row in (first, last))
        sizes.append((first_size, first_total, last_size, last_total))
    p_values = p_of_share_differences(sizes)
    tested = [replace(drift, p=p) for drift, p in zip(untested, p_values, strict=True)]
    return names, sorted(tested, key=lambda drift: (drift.p, -abs(drift.change)))


def sparkline(values: Sequence[float]) -> str:
    """Returns a character for each value, its height relative to the largest value; a blank for 0."""
    largest = max(values, default=0.0)
    if not largest:
        return " " * len(values)
    return "".join(
        LEVEL_BLOCKS[min(int(value / largest * len(LEVEL_BLOCKS)), len(LEVEL_BLOCKS) - 1)]
        if value
        else " "
        for value in values
    )


class GoalDriftScreen(WorkbenchScreen[None]):
    """Lists the groups by how much their share changed from the first period to the last."""

    PLACE = "drift"
    AUTO_FOCUS = "#drifts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._names: list[str] = []
        self.table = ItemTable(
            [
                Column("label", "goal", 20, lambda r: [(r.label, "")], flexible=True),
                Column("line", "share over time", MAX_PERIODS, _line_cell, keep=6),
                Column("first", "first", 6, lambda r: [(f"{100 * r.shares[0]:.1f}%", "")], right=True),
                Column("last", "last", 6, lambda r: [(f"{100 * r.shares[-1]:.1f}%", "")], right=True),
                Column("change", "points", 7, _change_cell, right=True),
                Column("p", "p", 5, _p_cell, right=True),
                Column("rate-first", "ended, first", number_format.RATE_WIDTH, lambda r: _rate_cell(r.first),
                       right=True, keep=3),
                Column("rate-last", "ended, last", number_format.RATE_WIDTH, lambda r: _rate_cell(r.last),
                       right=True, keep=4),
            ],
            lambda drift: drift.goal,
            id="drifts",
        )  # fmt: skip

    def compose_body(self) -> ComposeResult:
        """Yields the summary and the table; or, where there are no periods, why."""
        yield Static(id="summary")
        yield self.table
        yield Static(classes="empty")

    def refresh_data(self) -> None:
        """Reads the shares again."""
        goals = self.services.merge_review.goals

        def read() -> tuple[list[str], list[Drift]]:
            return drifts(goals.periods(), goals.groups())

        self.in_background(read, lambda parts: self._show(*parts), group="drift")

    def _show(self, names: list[str], drifts: list[Drift]) -> None:
        """Shows the drift of each group over these periods, or why there is none."""
        self._names = names
        self.set_class(not names, "-empty")
        if not names:
            message = "Nothing to compare by month: it takes two that have conversations."
            self.show_empty(EmptyState(message, "imports more conversations", "import_files"))
        else:
            span = f"{short_name(names[0])} to {short_name(names[-1])}"
            count = number_format.counted(len(names), "month")
            summary = f"{count}, {span} · surest change first, p corrected for all goals"
            self.query_one("#summary", Static).update(summary)
        self.table.show_items(drifts)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter lists the periods of a group, and leads to the conversations of one."""
        drift = self.table.cursor_item
        if drift is None:
            return
        goal = Filter().with_choice("goal", drift.goal)
        choose_figure(
            self,
            drift.label,
            [
                Figure(
                    f"{name}, {100 * share:.1f}%", Filter((*goal.terms, Term("date", ":", (name,))))
                )
                for name, share in zip(self._names, drift.shares, strict=True)
                if share
            ],
        )


def _line_cell(row: Drift) -> Sequence[Piece]:
    """Returns the shares as a line of blocks."""
    return [(sparkline(row.shares), "tone--accent")]


def _change_cell(row: Drift) -> Sequence[Piece]:
    """Returns the change in percentage points with its sign; a large one is bright."""
    is_large = abs(row.change) >= MIN_BRIGHT_CHANGE
    return [(number_format.points(row.change), "tone--bright" if is_large else "")]


def _p_cell(row: Drift) -> Sequence[Piece]:
    """Returns the p-value; bright where the change is sure."""
    return [
        (
            number_format.small_probability(row.p),
            "tone--bright" if row.p < MAX_SURE_P else "tone--muted",
        )
    ]


def _rate_cell(states: StateCounts) -> Sequence[Piece]:
    """Returns the rate of ended conversations in a period."""
    return [rate_piece(states.above, states.scored, faint="tone--muted")]
