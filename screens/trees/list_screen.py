"""The list of response trees: how sure the model was in each conversation.

A response tree has the answers that a model may give at one step of a conversation; each of its leaves is an answer or
the beginning of one. The figures of a tree tell how sure the model was: few leaves and a probable best answer are sure.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.request_options import Option, options_of
from engine.base.text import LINE_LIMIT, NAME_LIMIT, one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from engine.trees.measures import Deciles
from engine.trees.records import Growth, TreeItem, TreeOptions, TreePlace, TreeRequest, TreeRow
from engine.trees.service import TreeService
from screens.shell.dialogs import ask, ask_column
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.screen import TreeScreen, format_growth
from screens.widgets.empty_state import EmptyState
from screens.widgets.evidence import Preview
from screens.widgets.filter_line import FilterLine
from screens.widgets.formatting import fitting
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import NO_VALUE, Column, ItemTable, Piece, RowTable

NAME_WIDTH = 24
"""Least cells of the name of a conversation."""
GOAL_WIDTH = 24
"""Cells of a goal."""
UNUSUAL_SIGN = "▲"
"""The sign before a tree that stands out."""

TREE_PLACES: dict[TreePlace, FormChoice] = {
    "last-answer": FormChoice("at the last answer", "How sure was the model of it?"),
    "end": FormChoice("at the end", "What would come next?"),
    "every": FormChoice(
        "at every answer",
        "Where did the model become unsure? As many trees as there are answers.",
    ),
}
"""The places of a conversation where trees are grown; the help is the question that trees there answer."""

GROWTH_MODES: dict[Growth, FormChoice] = {
    "path": FormChoice(
        "every answer above alpha",
        "All continuations whose whole path is at least as probable as alpha.",
    ),
    "token": FormChoice(
        "token by token, as Soroka et al. do",
        "The best token is always followed; each other one with a probability above alpha is a branch.",
    ),
}
"""The rules by which a tree branches."""

ADAPTER_USES: dict[bool, FormChoice] = {
    False: FormChoice("as it is", "How sure is the model itself?"),
    True: FormChoice(
        "with the completion adapter",
        "The adapter that scores completeness; at the end of the log as in appendix C.2.2 of Soroka et al.",
    ),
}
"""Whether the model grows trees with the adapter that scores completeness."""

ANSWER_ENDS: dict[tuple[str, ...], FormChoice] = {
    TreeRequest().tree.stop: FormChoice("where the next step of the log begins"),
    ("\n",): FormChoice("at a line break"),
}
"""The texts that end an answer."""

REQUESTS = (TreeOptions, TreeRequest)
"""The dataclasses whose options are the fields of the form."""


class TreeRunForm(RunForm[TreeRequest, Estimate]):
    """Asks for the conversations, the place and how trees grow; their number is shown before anything starts."""

    PLACE = "tree-run"
    FORM_TITLE = "Grow response trees"
    FIRST_FIELD = "alpha"
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        name: option for request in REQUESTS for name, option in options_of(request).items()
    }
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, trees: TreeService, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query
        self.choices = {
            "at": TREE_PLACES,
            "mode": GROWTH_MODES,
            "tuned": ADAPTER_USES,
            "stop": ANSWER_ENDS,
        }

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each option; the filter is that of the list below the form."""
        yield field_line("weights", self.choice_field("tuned"))
        initial = {"filter": str(self._query.filter)}
        first = ("alpha", "at", "mode", "filter")
        yield from self.option_lines(*REQUESTS, first=first, initial=initial)

    def request(self) -> TreeRequest:
        """Returns the request that the fields describe.

        Raises:
            UsageError: A field cannot be understood, or a value is out of its bounds.
        """
        return TreeRequest(
            tree=TreeOptions(**self.values_of(TreeOptions)),
            tuned=self.chosen("tuned"),
            **self.values_of(TreeRequest),
        )

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._trees.estimate(request)


class TreeSetScreen(WorkbenchScreen[None]):
    """A table of trees; those in the top tenth by leaves or by log-probability are marked."""

    PLACE = "trees"
    MODE = "trees"
    FIRST_KEYS = ("table.open", "trees.sort", "trees.run-trees")
    AUTO_FOCUS = "#trees"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "edit_filter", "Filter", tooltip="Write a filter"),
        Binding("slash", "search", "Find", key_display="/", tooltip="Find words in the messages"),
        Binding("s", "sort", "Sort", tooltip="Sort by a column"),
        Binding("S", "reverse", "Reverse", tooltip="Reverse the order", show=False),
        Binding("o", "read", "Read", tooltip="Read the conversation of the tree", show=False),
        Binding("J", "judge", "Judge", tooltip="Triage of just the conversations listed", show=False),
        Binding("r", "run_trees", "Grow", tooltip="Grow trees; says first how many"),
        Binding("u", "unusual", "Unusual", tooltip="Only trees in the top tenth of both leaves and −log P", show=False),
        Binding("escape", "clear", "Clear", tooltip="Clear the filter", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self._query = ListQuery()
        self._items: Sequence[TreeItem] = ()
        self._unusual_only = False
        self._deciles = Deciles()
        self.table = ItemTable(
            columns(lambda: self._deciles),
            lambda item: item.id,
            sort=("leaves", True),
            id="trees",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the summary, filter line, table with the conversation beside it, and what its mark means, or what to
        do when there is no tree."""
        yield Static(id="summary")
        yield FilterLine(id="filter")
        with Horizontal(id="main"):
            yield self.table
            yield Preview(self.services, at_end=True)
        yield Static(id="legend")
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the trees of the query."""
        query, trees = self._query, self.services.trees
        complain = self.query_one(FilterLine).complain
        self.in_background(
            lambda: trees.items(query),
            self._show_items,
            group="listing",
            on_error=complain if query.filter else None,
        )

    def _show_items(self, items: list[TreeItem]) -> None:
        """Shows the trees that were read, or only the unusual ones of them."""
        self.query_one(FilterLine).complain(None)
        summary = _summary(items, self.size.width)
        self._deciles = Deciles.from_items(items)
        if self._unusual_only:
            items = [item for item in items if self._deciles.stands_out(item.row)]
            summary = Content.assemble(
                summary,
                (f" · only the {len(items):,} unusual ones ", "$tone-borderline"),
                ("u", "bold $tone-accent"),
            )
        self._items = items
        self._show_order()
        self.query_one("#legend", Static).update(_legend(self._deciles))
        self.query_one("#summary", Static).update(summary)
        self.set_class(not items, "-empty")
        if not items:
            self.show_empty(_empty_state(self._query))
        if self.focused is None and items:  # the table was hidden while it was empty
            self.table.focus()

    def _show_order(self) -> None:
        """Shows the trees in the present order."""
        self.table.show_items(self.table.ordered(self._items))

    def on_row_table_highlighted(self) -> None:
        """Shows the conversation of the tree under the cursor beside the list."""
        if self.table.cursor_item is not None:
            self.query_one(Preview).follow(self.table.cursor_item.row.conversation_id)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Opens the tree of a row, or notifies why there is none."""
        item = self.table.cursor_item
        if item is None:
            return
        if item.row.reason is not None:
            self.notify(one_line(item.row.reason), title="No tree", markup=False)
            return
        row = item.row
        self.app.push_screen(
            TreeScreen(self.services, self.feed, row.conversation_id, row.step, self.MODE)
        )

    def _conversations(self) -> array[int]:
        """Returns the conversations of the trees that are listed, in their order, each once."""
        return array("q", dict.fromkeys(item.row.conversation_id for item in self.table.items))

    def action_read(self) -> None:
        """Opens the conversation of the tree under the cursor in the reader."""
        if self.table.cursor_item is not None:
            order = self._conversations()
            self.open_reader(order, order.index(self.table.cursor_item.row.conversation_id))

    def action_judge(self) -> None:
        """Goes to triage of the conversations of the trees that are listed."""
        name = f"trees {self._query.filter}".rstrip()
        self.triage_only(one_line(name, NAME_LIMIT), self._conversations())

    # Changing the query

    def _list_query(self, query: ListQuery) -> None:
        """Lists the trees of another query."""
        if query != self._query:
            self._query = query
            self.refresh_data()

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        """Lists what matches the filter that was entered."""
        self._list_query(replace(self._query, filter=message.filter))

    def action_clear(self) -> None:
        """Clears the filter."""
        if self._query.filter:
            self.query_one(FilterLine).put(ListQuery().filter)
            self._list_query(ListQuery())

    def action_sort(self) -> None:
        """Asks for the order."""
        ask_column(self, self.table, self._show_order)

    def _sort_by(self, key: str) -> None:
        """Sorts by a column; where the trees are sorted by it already, reverses the order."""
        self.table.sort_by(key)
        self._show_order()

    def action_reverse(self) -> None:
        """Reverses the order."""
        if self.table.sort is not None:
            self._sort_by(self.table.sort[0])

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """Sorts by the column whose title is clicked."""
        self._sort_by(message.key)

    def action_unusual(self) -> None:
        """Switches between all trees and those that stand out by leaves and by log-probability."""
        if self._unusual_only or any(self._deciles.stands_out(item.row) for item in self._items):
            self._unusual_only = not self._unusual_only
            self.refresh_data()
        else:
            self.notify("No tree is in the top tenth of both.", markup=False)

    def action_run_trees(self) -> None:
        """Shows how many trees a run would grow, and starts it."""
        if not self.may_write():
            return
        trees = self.services.trees
        form = TreeRunForm(trees, self._query)
        ask(self, form, lambda request: self._start(lambda: trees.start(request)))


def columns(deciles: Callable[[], Deciles]) -> list[Column[TreeItem]]:
    """Returns the columns of the list.

    Args:
        deciles: Returns the limits from which on a tree is unusual.
    """

    def leaves(item: TreeItem) -> Sequence[Piece]:
        """Returns the number of leaves."""
        return _number(item, f"{item.row.leaves:,}", deciles().has_many_leaves(item.row))

    def best(item: TreeItem) -> Sequence[Piece]:
        """Returns the log-probability of the best answer."""
        return _number(
            item,
            number_format.log_probability(item.row.max_log_prob),
            deciles().is_unsure(item.row),
        )

    return [
        Column("name", "conversation", NAME_WIDTH, _name_cell, flexible=True,
               value=lambda item: item.name, order="name"),
        Column("step", "step", 5, lambda item: [(str(item.row.step), "tone--muted")], right=True,
               value=lambda item: item.row.step, keep=9),
        Column("leaves", "leaves", 8, leaves, right=True,
               value=lambda item: _grown(item.row, item.row.leaves), descending=True),
        Column("best", "log P", 9, best, right=True,
               value=lambda item: item.row.max_log_prob, order="best log-probability, least sure first"),
        Column("covered", "covered", number_format.BAR_WIDTH + 4, _covered_cell,
               value=lambda item: _grown(item.row, item.row.covered), keep=6),
        Column("entropy", "entropy", 9, _entropy_cell, right=True,
               value=lambda item: _grown(item.row, item.row.entropy), descending=True, keep=7),
        Column("completed", "state", 10, _state_cell,
               value=lambda item: item.completed.word, order="did the conversation end", keep=3),
        Column("goal", "goal", GOAL_WIDTH, _goal_cell, value=lambda item: item.goal or None, keep=2),
        Column("said", "said", 9, _answer_cell, right=True,
               value=lambda item: item.row.answer_log_prob, order="log-probability of the recorded answer", keep=5),
    ]  # fmt: skip


def _name_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the name of the conversation, and why there is no tree."""
    text = one_line(item.name)
    if len(text) > NAME_WIDTH:  # long names of one source begin alike
        text = "…" + text[1 - NAME_WIDTH :]
    reason = item.row.reason
    note = f"  {one_line(reason, LINE_LIMIT)}" if reason else ""
    return [(text, ""), (note, "tone--muted")]


def _covered_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the mass of the leaves as a bar and a number."""
    if item.row.reason is not None:
        return NO_VALUE
    p = item.row.covered
    return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p)}", "")]


def _entropy_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the entropy in bits."""
    return NO_VALUE if item.row.reason is not None else [(f"{item.row.entropy:.1f}", "")]


def _answer_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the log-probability of the recorded answer."""
    return [(number_format.log_probability(item.row.answer_log_prob), "tone--muted")]


def _state_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the state of the conversation."""
    return [(item.completed.word, "tone--muted")]


def _goal_cell(item: TreeItem) -> Sequence[Piece]:
    """Returns the goal of the conversation."""
    return [(one_line(item.goal, GOAL_WIDTH), "tone--muted")] if item.goal else NO_VALUE


def _number(item: TreeItem, text: str, stands_out: bool) -> Sequence[Piece]:
    """Returns the cell of a figure, with a sign if the tree is unusual by it."""
    if item.row.reason is not None:
        return NO_VALUE
    return [(f"{UNUSUAL_SIGN} ", "tone--borderline"), (text, "")] if stands_out else [(text, "")]


def _grown(row: TreeRow, value: float) -> float | None:
    """Returns a figure of a tree; None where there is no tree."""
    return None if row.reason is not None else value


def _summary(items: Sequence[TreeItem], cells: int) -> Content:
    """Returns the number of trees and of their leaves, and how they grew, as far as that fits into `cells` cells."""
    leaves = sorted(item.row.leaves for item in items if item.row.reason is None)
    count = len(leaves)
    parts = [number_format.counted(count, "tree")]
    if leaves:
        median = number_format.counted(leaves[count // 2], "leaf", "leaves")
        parts.append(f"half have {median} or more")
    if len(items) > count:
        parts.append(f"{len(items) - count:,} without")
    text = Content(" · ".join(parts))
    if not items:
        return text
    row = items[0].row
    places = [choice.name for place, choice in TREE_PLACES.items() if place == row.place]
    growth = [*format_growth(row).split(" · "), *places]
    room = max(1, cells - text.cell_length - len("     "))
    return Content.assemble(text, (f"   {fitting(growth, room)}", "$tone-muted"))


def _legend(deciles: Deciles) -> Content:
    """Returns what the sign before a figure means; nothing where too few trees are listed for it."""
    if deciles == Deciles():
        return Content("")
    return Content.assemble(
        (UNUSUAL_SIGN, "$tone-borderline"),
        (
            f" top decile: {deciles.leaves:,.0f} leaves or more, or best at −{deciles.surprise:.2f} or below",
            "$tone-muted",
        ),
    )


def _empty_state(query: ListQuery) -> EmptyState:
    """Returns what to do where no tree is listed."""
    enter_label = "grows them, and says first for how many conversations"
    if not query.filter:
        message = (
            "No response trees yet: all answers that a model may give, with their probabilities."
        )
        return EmptyState(message, enter_label, "run_trees")
    message = f"No tree of a conversation that matches {one_line(str(query.filter), LINE_LIMIT)}."
    others = (("trees.clear", "clears the filter"),)
    return EmptyState(message, enter_label, "run_trees", others=others)
