"""The tree of merges: each group with the groups that decisions made it of."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from engine.base import number_format
from engine.goals.records import GoalDecision, GoalGroup
from engine.opener.open_project import OpenProject
from screens.goals.columns import rate_of
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.formatting import date_and_minute
from screens.widgets.groups import GLYPHS, label_of
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, Piece, RowTable

MOST_LINES = 20_000
"""Lines that the tree has at most; ten thousand decisions make fewer."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A group in the tree of merges.

    Attributes:
        at: Its line in the tree, from 0.
        rails: The lines drawn from the group that it is a part of; empty for one that exists now.
        decision: What made it; None for a cluster.
    """

    at: int
    rails: str
    group: GoalGroup
    decision: GoalDecision | None


def tree_lines(
    groups: Sequence[GoalGroup],
    found: Callable[[str], GoalGroup | None],
    decisions: dict[int, GoalDecision],
) -> list[TreeLine]:
    """Returns the lines of the tree: the groups that exist now, those made by decisions first, each followed by its
    parts.

    Args:
        found: Gives a group by id, also one that was merged away.
        decisions: By id.
    """
    lines: list[TreeLine] = []
    roots = [
        ("", "", group)
        for group in sorted(groups, key=lambda group: (not group.made_of, -group.size))[::-1]
    ]
    while roots and len(lines) < MOST_LINES:
        rails, below, group = roots.pop()
        decision = decisions.get(group.made_by) if group.made_by is not None else None
        lines.append(TreeLine(len(lines), rails, group, decision))
        parts = [part for name in group.made_of if (part := found(name)) is not None]
        for index, part in enumerate(reversed(parts)):
            last = index == 0
            roots.append((below + ("└ " if last else "├ "), below + ("  " if last else "│ "), part))
    return lines


class GoalTreeScreen(WorkbenchScreen[None]):
    """Lists groups with their parts, and who made them when; enter opens the members."""

    PLACE = "merges"
    CSS_PATH = "goals.tcss"
    AUTO_FOCUS = "#lines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._lines: list[TreeLine] = []
        self.table = RowTable[TreeLine](
            [
                Column("label", "goal and what it was made of", 24, _label_cell, flexible=True),
                Column("size", "size", 8, lambda r: [(f"{r.group.size:,}", "")], right=True),
                Column(
                    "rate", "complete", number_format.RATE_WIDTH, _rate_cell, right=True, keep=5
                ),
                Column("act", "made by", 28, _act_cell, keep=4),
            ],
            lambda ids: [self._lines[index] for index in ids if index < len(self._lines)],
            lambda row: row.at,
            id="lines",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the summary and the tree."""
        yield Static(id="summary")
        yield self.table

    def refresh_data(self) -> None:
        """Reads the groups, their parts and the decisions again."""
        goals, review = self.services.goals, self.services.merge_review

        def read() -> list[TreeLine]:
            decisions = {given.id: given for given in review.history() if given.active}
            return tree_lines(goals.groups(), goals.group, decisions)

        self.in_background(read, self._show, group="merges")

    def _show(self, lines: list[TreeLine]) -> None:
        self._lines = lines
        roots = sum(not line.rails for line in lines)
        made = sum(bool(line.group.made_of) for line in lines if not line.rails)
        summary = f"{number_format.counted(roots, 'group')} · {made:,} made by decisions"
        self.query_one("#summary", Static).update(summary)
        self.table.show(array("q", range(len(lines))))

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members, also of a group that was merged away."""
        group = self._lines[message.row_id].group
        self.app.push_screen(self.routes.members(group.id, self.MODE))


def _label_cell(row: TreeLine) -> Sequence[Piece]:
    tone = "tone--muted" if row.rails else "tone--bright"
    return [(row.rails, "tone--muted"), (label_of(row.group, 200), tone)]


def _rate_cell(row: TreeLine) -> Sequence[Piece]:
    rate = rate_of(row.group)
    if rate is None:
        return [("–", "tone--muted")]
    return [(number_format.rate(row.group.states.above, row.group.states.scored), "")]


def _act_cell(row: TreeLine) -> Sequence[Piece]:
    if row.decision is None:
        return [("the clustering", "tone--muted")] if not row.group.made_of else []
    who = {"human": "you", "auto": "the rule", "llm": "the model"}[row.decision.author]
    return [
        (f"{GLYPHS[row.decision.kind]} ", "tone--accent"),
        (f"{who}, {date_and_minute(row.decision.given_at)}", "tone--muted"),
    ]
