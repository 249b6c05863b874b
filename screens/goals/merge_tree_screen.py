"""What became of what: each group with those that decisions made it of."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from engine import number_format
from engine.records.goals import GoalDecision, GoalGroup
from engine.services.services import Services
from screens.goals import formatting
from screens.goals.columns import rate_of
from screens.goals.members_screen import GoalMembersScreen
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.row_table import Column, Piece, RowTable

MOST_LINES = 20_000
"""Groups that are looked up; a desk of ten thousand decisions has fewer."""


@dataclass(frozen=True, slots=True)
class Line:
    """A group in the tree of merges.

    Attributes:
        at: Its place in the tree.
        rails: What leads to it from the group that it is a part of.
        act: The decision that made it; None for a cluster.
    """

    at: int
    rails: str
    group: GoalGroup
    act: GoalDecision | None


def tree_lines(
    groups: Sequence[GoalGroup],
    found: Callable[[str], GoalGroup | None],
    acts: dict[int, GoalDecision],
) -> list[Line]:
    """The groups that stand, those made of several first, each followed by its parts."""
    lines: list[Line] = []
    left = [
        ("", "", group)
        for group in sorted(groups, key=lambda group: (not group.made_of, -group.size))[::-1]
    ]
    while left and len(lines) < MOST_LINES:
        rails, below, group = left.pop()
        act = acts.get(group.made_by) if group.made_by is not None else None
        lines.append(Line(len(lines), rails, group, act))
        parts = [part for name in group.made_of if (part := found(name)) is not None]
        for at, part in enumerate(reversed(parts)):
            last = at == 0
            left.append((below + ("└ " if last else "├ "), below + ("  " if last else "│ "), part))
    return lines


class GoalTreeScreen(WorkbenchScreen[None]):
    """Groups with their parts, and who made them when; enter opens the members."""

    PLACE = "merges"
    CSS_PATH = "goals.tcss"
    AUTO_FOCUS = "#lines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: Services, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._lines: list[Line] = []
        self.table = RowTable[Line](
            [
                Column("label", "goal and what it was made of", 24, _label_cell, flexible=True),
                Column("size", "size", 8, lambda r: [(f"{r.group.size:,}", "")], right=True),
                Column("rate", "complete", 9, _rate_cell, right=True, keep=5),
                Column("act", "made by", 28, _act_cell, keep=4),
            ],
            lambda ids: [self._lines[at] for at in ids if at < len(self._lines)],
            lambda row: row.at,
            id="lines",
        )

    def compose_body(self) -> ComposeResult:
        """Summary and tree."""
        yield Static(id="summary")
        yield self.table

    def refresh_data(self) -> None:
        """Reads the groups, their parts and the acts."""
        goals = self.services.goals

        def read() -> list[Line]:
            acts = {act.id: act for act in goals.history() if act.stands}
            return tree_lines(goals.groups(), goals.group, acts)

        self.in_background(read, self._show, group="merges")

    def _show(self, lines: list[Line]) -> None:
        self._lines = lines
        roots = sum(not line.rails for line in lines)
        made = sum(bool(line.group.made_of) for line in lines if not line.rails)
        told = f"{number_format.counted(roots, 'group')} · {made:,} made by decisions"
        self.query_one("#summary", Static).update(told)
        self.table.show(array("q", range(len(lines))))

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members, also of a group that was merged away."""
        group = self._lines[message.row_id].group
        self.app.push_screen(GoalMembersScreen(self.services, self.feed, group.id, self.MODE))

    def action_close(self) -> None:
        """Goes back."""
        if self.is_attached and not self._pruning:  # not a second key while it closes
            self.dismiss(None)


def _label_cell(row: Line) -> Sequence[Piece]:
    tone = "tone--muted" if row.rails else "tone--bright"
    return [(row.rails, "tone--muted"), (formatting.label_of(row.group, 200), tone)]


def _rate_cell(row: Line) -> Sequence[Piece]:
    rate = rate_of(row.group)
    if rate is None:
        return [("–", "tone--muted")]
    return [
        (number_format.rate(row.group.states.complete, formatting.scored(row.group.states)), "")
    ]


def _act_cell(row: Line) -> Sequence[Piece]:
    if row.act is None:
        return [("the clustering", "tone--muted")] if not row.group.made_of else []
    who = {"human": "you", "auto": "the rule", "llm": "the model"}[row.act.author]
    when = row.act.given_at[:16].replace("T", " ")
    return [
        (f"{formatting.GLYPHS[row.act.kind]} ", "tone--accent"),
        (f"{who}, {when}", "tone--muted"),
    ]
