"""The history of decisions on goal groups: who decided what and when, and undo of any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.goals.records import GoalDecision
from engine.opener.open_project import OpenProject
from screens.shell.goal_dialogs import DecisionScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import date_and_minute
from screens.widgets.groups import GLYPHS, decision_text
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

AUTHOR_LABELS = {"human": "you", "auto": "rule", "llm": "model"}
"""Who decided, as it is shown; a decision does not say which person."""
NOTHING_DECIDED = EmptyState(
    message="Nothing was decided yet. Every decision is kept here.",
    enter_label="goes back to the pairs that wait for a decision",
    action="close",
)
"""What is shown before the first decision."""


class MergeHistoryScreen(DecisionScreen):
    """Lists the decisions, newest first; several decisions may be one act, which is undone as a whole."""

    PLACE = "history"
    AUTO_FOCUS = "#decisions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo", tooltip="Undo the decision under the cursor"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        """Shows nothing yet; `mode` names the main screen from which this one is opened."""
        super().__init__(services, feed, mode)
        self.table = ItemTable(
            [
                Column("at", "when", 16, _time_cell, keep=3),
                Column("who", "who", 5, _author_cell, keep=4),
                Column("kind", "", 1, _kind_cell),
                Column("text", "what", 24, _text_cell, flexible=True),
                Column("p", "p", 4, _p_cell, right=True, keep=5),
            ],
            lambda decision: decision.id,
            id="decisions",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the counts and the decisions."""
        yield Static(id="summary")
        yield self.table
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the decisions again."""
        review = self.services.merge_review

        def read() -> tuple[list[GoalDecision], int, int]:
            """Returns the decisions, and the numbers of groups and of decisions to review."""
            groups = len(review.goals.groups())
            return review.history(), groups, review.progress().to_review

        self.in_background(read, lambda parts: self._show(*parts), group="history")

    def _show(self, decisions: list[GoalDecision], groups: int, to_review: int) -> None:
        """Shows the decisions, newest first, and a summary: of the acts that they belong to, and of the groups now."""
        self.set_class(not decisions, "-empty")
        if not decisions:
            self.show_empty(NOTHING_DECIDED)
        acts = {decision.act for decision in decisions}
        undone_acts = acts - {decision.act for decision in decisions if decision.active}
        transferred_acts = {decision.act for decision in decisions if decision.transferred}
        parts: list[tuple[str, str]] = [(number_format.counted(len(acts), "act"), "bold")]
        if undone_acts:
            parts.append((f" · {len(undone_acts):,} undone", "$tone-muted"))
        if to_review:
            parts.append((f" · {to_review:,} of a model to review", "$tone-muted"))
        if transferred_acts:
            carried = f" · {len(transferred_acts):,} carried over from an earlier clustering"
            parts.append((carried, "$tone-muted"))
        parts.append((f" · {number_format.counted(groups, 'group')} now", "$tone-muted"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))
        self.table.show_items(decisions)

    # Keys

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members of the first group that the decision made, or else of the first it was about."""
        decision = self.table.cursor_item
        groups = () if decision is None else (*decision.made_groups, *decision.sides)
        if groups:
            self.app.push_screen(self.routes.members(groups[0], self.MODE))

    def action_undo(self) -> None:
        """Undoes the act of the decision under the cursor, whoever made it."""
        if self.table.cursor_item is not None:
            self.undo_act(self.table.cursor_item.act, "It is undone already.")


def _time_cell(decision: GoalDecision) -> Sequence[Piece]:
    """Returns when it was decided."""
    return [(date_and_minute(decision.given_at), "tone--muted")]


def _author_cell(decision: GoalDecision) -> Sequence[Piece]:
    """Returns who decided."""
    return [(AUTHOR_LABELS[decision.decided_by], "tone--muted")]


def _kind_cell(decision: GoalDecision) -> Sequence[Piece]:
    """Returns the sign of the kind."""
    return [(GLYPHS[decision.kind], "tone--accent" if decision.active else "tone--muted")]


def _text_cell(decision: GoalDecision) -> Sequence[Piece]:
    """Returns what the decision did, and that it was undone: in front, because the end of a long text is cut."""
    if decision.active:
        return [(decision_text(decision), "")]
    return [(f"undone: {decision_text(decision)}", "tone--muted")]


def _p_cell(decision: GoalDecision) -> Sequence[Piece]:
    """Returns the merge probability when it was decided."""
    return [(number_format.estimate(decision.probability), "tone--muted")]
