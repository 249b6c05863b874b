"""The history of decisions on goal groups, with the groups after each decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import GoalDecision, GoalGroup
from engine.opener.open_project import OpenProject
from screens.shell.exporting import copy
from screens.shell.goal_dialogs import DecisionScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import date_and_minute
from screens.widgets.groups import GLYPHS, decision_text, folded
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

MOST_GROUPS = 400
"""Most groups that are listed beside a decision; the count above the list is of all groups."""
AUTHORS = {"human": "you", "auto": "rule", "llm": "model"}
"""Who decided, as it is shown."""
NOTHING_DECIDED = EmptyState(
    "Nothing was decided yet. Every decision is kept here; ← and → go through them.",
    "goes back to the pairs that wait for a decision",
    "close",
)
"""What is shown before the first decision."""


class MergeHistoryScreen(DecisionScreen):
    """Lists the decisions, newest first, beside the groups after the decision under the cursor."""

    PLACE = "history"
    AUTO_FOCUS = "#decisions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(1)", "Earlier", key_display="← →", tooltip="The decision before"),
        Binding("right", "step(-1)", "Later", show=False, tooltip="The decision after"),
        Binding("u", "undo", "Undo", tooltip="Undo the decision under the cursor"),
        Binding("U", "redo", "Redo", tooltip="Redo what was undone"),
        Binding("v", "view", "Groups", tooltip="Decisions or groups, on a narrow terminal"),
        Binding("y", "copy_history", "Copy", tooltip="Copy the history as text"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._decisions: list[GoalDecision] = []
        self._states: list[ReplayedState] = []
        self._sizes: dict[str, int] = {}
        self.table = ItemTable(
            [
                Column(
                    "at",
                    "when",
                    16,
                    lambda decision: [(date_and_minute(decision.given_at), "tone--muted")],
                    keep=3,
                ),
                Column(
                    "who",
                    "who",
                    5,
                    lambda decision: [(AUTHORS[decision.decided_by], "tone--muted")],
                    keep=4,
                ),
                Column("kind", "", 1, _kind_cell),
                Column("text", "what", 24, _text_cell, flexible=True),
                Column("p", "p", 4, _p_cell, right=True, keep=5),
            ],
            lambda decision: decision.id,
            id="decisions",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the counts, the decisions, the groups after the one under the cursor."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield self.table
            with VerticalScroll(id="after", classes="section") as after:
                after.border_title = "Groups after it"
                yield Static(id="groups")
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the decisions and the groups again."""
        review = self.services.merge_review
        goals = review.goals

        def read() -> tuple[list[GoalDecision], list[GoalGroup], dict[str, int], int]:
            decisions, groups = folded(review.history()), goals.groups()
            sizes = {group.id: group.size for group in groups}
            involved = {key for decision in decisions for key in (*decision.sides, *decision.made)}
            for key in involved - sizes.keys():
                former = goals.group(key)
                if former is not None:
                    sizes[key] = former.size
            return decisions, groups, sizes, review.progress().to_review

        self.in_background(read, lambda parts: self._show(*parts), group="history")

    def _show(
        self,
        decisions: list[GoalDecision],
        groups: list[GoalGroup],
        sizes: dict[str, int],
        to_review: int,
    ) -> None:
        """Shows the decisions, newest first, beside the groups after the one under the cursor."""
        self._decisions, self._sizes = decisions, sizes
        self._states = replay(groups, decisions)
        self.set_class(not decisions, "-empty")
        if not decisions:
            self.show_empty(NOTHING_DECIDED)
        undone = sum(not decision.active for decision in decisions)
        transferred = sum(decision.transferred for decision in decisions)
        parts: list[tuple[str, str]] = [(number_format.counted(len(decisions), "act"), "bold")]
        if undone:
            parts.append((f" · {undone:,} undone", "$tone-muted"))
        if to_review:
            parts.append((f" · {to_review:,} of a model to review", "$tone-muted"))
        if transferred:
            parts.append(
                (f" · {transferred:,} carried over from an earlier clustering", "$tone-muted")
            )
        parts.append((f" · {number_format.counted(len(groups), 'group')} now", "$tone-muted"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))
        self.table.show_items(decisions)
        self._show_groups()

    def on_row_table_highlighted(self) -> None:
        """Shows the groups after the decision under the cursor."""
        self._show_groups()

    def _show_groups(self) -> None:
        """Lists the groups after the decision under the cursor, those that it made or changed first."""
        index = self.table.cursor_index
        if index >= len(self._states):
            return
        decision, state = self._decisions[index], self._states[index]
        ids = sorted(
            state.labels, key=lambda key: (key not in state.touched, -self._sizes.get(key, 0), key)
        )
        lines = [Content.assemble((decision_text(decision), "bold"))]
        notes = [one_line(decision.model, 40)] if decision.model else []
        notes += ["carried over"] if decision.transferred else []
        notes += [] if decision.active else ["undone since: the groups are as if it had not been"]
        if notes:
            lines.append(Content.styled(" · ".join(notes), "$tone-muted"))
        count = number_format.counted(len(ids), "group")
        lines.append(Content.styled(f"\n{count} after it", "$tone-muted"))
        for key in ids[:MOST_GROUPS]:
            sign = GLYPHS[decision.kind] if key in state.touched else " "
            label = one_line(state.labels[key], 80) or key
            lines.append(
                Content.assemble(
                    (f"{sign} ", "bold $tone-accent"),
                    (f"{self._sizes.get(key, 0):>7,}  ", "$tone-muted"),
                    (label, "bold" if key in state.touched else ""),
                )
            )
        self.query_one("#groups", Static).update(Content("\n").join(lines))
        self.query_one("#after", VerticalScroll).scroll_home(animate=False)

    # Keys

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members of the first group that the decision made, or changed where it made none."""
        decision = self.table.here
        groups = () if decision is None else (*decision.made, *decision.sides)
        if groups:
            self.app.push_screen(self.routes.members(groups[0], self.MODE))

    def action_step(self, by: int) -> None:
        """Steps to the decision before or after."""
        self.table.action_move(by)

    def action_undo(self) -> None:
        """Undoes the act of the decision under the cursor, whoever made it."""
        if self.table.here is not None:
            self.undo_act(self.table.here.act, "It is undone already.")

    def action_view(self) -> None:
        """Changes between decisions and groups on a terminal too narrow for both."""
        self.toggle_class("-groups")

    def action_copy_history(self) -> None:
        """Copies the decisions, oldest first, a line each."""
        lines = [
            "\t".join(
                (
                    decision.given_at,
                    AUTHORS[decision.decided_by],
                    decision_text(decision),
                    number_format.estimate(decision.probability),
                    "" if decision.active else "undone",
                )
            ).rstrip()
            for decision in reversed(self._decisions)
        ]
        if lines:
            copy(self, "\n".join(lines), f"the history, {number_format.counted(len(lines), 'act')}")


def _kind_cell(decision: GoalDecision) -> Sequence[Piece]:
    return [(GLYPHS[decision.kind], "tone--accent" if decision.active else "tone--muted")]


def _text_cell(decision: GoalDecision) -> Sequence[Piece]:
    if decision.active:
        return [(decision_text(decision), "")]
    # first, because the end of a long text is cut
    return [(f"undone: {decision_text(decision)}", "tone--muted")]


def _p_cell(decision: GoalDecision) -> Sequence[Piece]:
    return [(number_format.estimate(decision.probability), "tone--muted")]


@dataclass(frozen=True, slots=True)
class ReplayedState:
    """The groups after a decision.

    Attributes:
        labels: By id, as they were then.
        touched: Ids of the groups that the decision made, or changed where it made none.
    """

    labels: Mapping[str, str]
    touched: frozenset[str]


def replay(groups: Sequence[GoalGroup], history: Sequence[GoalDecision]) -> list[ReplayedState]:
    """Returns the groups after each decision, in the order of `history`, which is newest first.

    Goes backwards from `groups`: removes what a decision made and restores what it was made of, with the labels that
    the decision stores. Decisions that were undone changed nothing.
    """
    labels = {group.id: group.label for group in groups}
    groups_after = []
    for decision in history:
        touched = frozenset(decision.made or decision.sides) & labels.keys()
        groups_after.append(
            ReplayedState(dict(labels), frozenset(touched) if decision.active else frozenset())
        )
        if decision.active and (decision.made or decision.kind == "rename"):
            for key in decision.made:
                labels.pop(key, None)
            labels |= dict(zip(decision.sides, decision.labels, strict=False))
    return groups_after
