"""The screen of one response tree: shows it, lists its answers, and proves bounds on the probability of a property.

The mass of nodes is the sum of their probabilities. Of all mass a tree covers that of its leaves; the rest was pruned,
because it is below the limit alpha, or not expanded yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import NAME_LIMIT, NOTICE_LIMIT, one_line, short_name
from engine.opener.open_project import OpenProject
from engine.trees.guarantee import MIN_USELESS_WIDTH
from engine.trees.measures import Answer
from engine.trees.records import OpenTree, PropertyBounds, TreeItem, TreeOptions, TreeRow
from engine.trees.service import TreeService
from engine.trees.tree import Kind
from screens.shell.dialogs import Dialog, TextDialog, ask, key_hints
from screens.shell.exporting import copy
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.tree_view import KIND_LOOKS, Folding, Segment, TreeLayout, TreeView, shown_text
from screens.widgets.background import background
from screens.widgets.controls import titled
from screens.widgets.formatting import fitting
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece

GROWTH_CHARACTERS = 90
"""Most characters of how a tree grew: the name of an adapter may be long."""


def whole_count(number: int) -> str:
    """Returns `no whole answer`, `1 whole answer`, `3 whole answers`."""
    return number_format.counted(number, "whole answer") if number else "no whole answer"


def kinds_text(answers: Sequence[Answer]) -> str:
    """Returns how many texts are whole answers and how many only begin one, with their probability."""
    whole = [answer.probability for answer in answers if answer.end is Kind.ENDED]
    beginnings = [answer.probability for answer in answers if answer.end is not Kind.ENDED]
    parts = [f"{whole_count(len(whole))} ({number_format.probability(sum(whole))} of all)"]
    if beginnings:
        glyphs = f"{KIND_LOOKS[Kind.CUT][0]} {KIND_LOOKS[Kind.LONG][0]}"
        count = number_format.counted(len(beginnings), "beginning")
        parts.append(f"{count} of others {glyphs} ({number_format.probability(sum(beginnings))})")
    return " · ".join(parts)


class AnswersDialog(Dialog[int]):
    """Lists the texts of the leaves with their probabilities; answers with the node of the chosen one."""

    PLACE = "answers"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", tooltip="Copy this answer"),
        Binding("escape,l,q", "dismiss(None)", "Leave"),
    ]

    def __init__(self, trees: TreeService, item: TreeItem) -> None:
        super().__init__()
        self._trees, self._item = trees, item
        self.table = ItemTable[Answer](
            [
                Column("kind", "", 1, _kind_cell),
                Column("p", "probability", number_format.BAR_WIDTH + 5, _p_cell),
                Column("leaves", "leaves", 7, _leaves_cell, right=True, keep=3),
                Column("text", "answer", 20, _answer_cell, flexible=True),
            ],
            lambda answer: answer.leaves[0],
        )

    def compose(self) -> ComposeResult:
        """Yields a title, the table, the whole answer under the cursor, the keys."""
        title = "Answers and beginnings of answers, equal texts put together"
        with titled(Vertical(classes="dialog tall"), title):
            yield Static(id="about")
            yield self.table
            yield Static(id="whole")
            yield key_hints(("enter", "goes to it"), ("y", "copies it"), ("escape", "leaves"))

    def on_mount(self) -> None:
        """Reads the answers."""
        row = self._item.row

        def on_result(answers: list[Answer]) -> None:
            self.query_one("#about", Static).update(Content(kinds_text(answers)))
            self.table.show_items(answers)
            self._show_answer()
            self.table.focus()

        background(
            self,
            lambda: self._trees.answers(row.conversation_id, row.step, row.config_hash),
            on_result,
            self.show_error,
            group="answers",
        )

    def _show_answer(self) -> None:
        """Shows the whole answer under the cursor."""
        answer = self.table.cursor_item
        text = "" if answer is None else one_line(answer.text, NOTICE_LIMIT)
        self.query_one("#whole", Static).update(Content.styled(text, "$tone-muted"))

    def on_row_table_highlighted(self) -> None:
        """Shows the whole answer under the cursor."""
        self._show_answer()

    def on_row_table_opened(self) -> None:
        """Enter goes to the leaf."""
        answer = self.table.cursor_item
        if answer is not None:
            self.dismiss(answer.leaves[0])

    def action_copy(self) -> None:
        """Copies the answer under the cursor."""
        answer = self.table.cursor_item
        if answer is not None:
            copy(self, answer.text, f"answer {self.table.cursor_index + 1}")


def _kind_cell(answer: Answer) -> Sequence[Piece]:
    """Returns the sign for how an answer ends."""
    glyph, tone, _ = KIND_LOOKS[answer.end]
    return [(glyph, tone)]


def _p_cell(answer: Answer) -> Sequence[Piece]:
    """Returns the probability of an answer as a bar and a number."""
    p = answer.probability
    return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p, 3)}", "")]


def _leaves_cell(answer: Answer) -> Sequence[Piece]:
    """Returns the number of leaves with this text."""
    return [(f"{len(answer.leaves):,}", "tone--muted")]


def _answer_cell(answer: Answer) -> Sequence[Piece]:
    """Returns the beginning of the text."""
    return [(shown_text(answer.text) or "(nothing)", "")]


class TreePane(Vertical):
    """Shows one stored tree with its figures."""

    DEFAULT_CSS = """
    TreePane { width: 1fr; }
    TreePane Static { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TreePane TreeView { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened: OpenTree | None = None
        self.bounds: PropertyBounds | None = None
        self.view = TreeView()

    def compose(self) -> ComposeResult:
        """Yields the masses, the measures, the tree, and the figures of the segment under the cursor."""
        yield Static(classes="account")
        yield Static(classes="measures")
        yield self.view
        yield Static(classes="under")

    def show(self, opened: OpenTree, folding: Folding) -> None:
        """Shows a tree; `folding` has its segments."""
        self.opened = opened
        self.query_one(".account", Static).update(account_content(opened.item.row))
        self.view.show(folding)
        self._show_texts()

    def prove(self, bounds: PropertyBounds | None) -> None:
        """Shows the bounds on the probability of a property; None hides them."""
        self.bounds = bounds
        self._show_texts()

    def _show_texts(self) -> None:
        """Shows the figures of the tree, and the bounds on a property."""
        if self.opened is not None:
            self.query_one(".measures", Static).update(
                measures_content(
                    self.opened.item.row, self.opened.nodes.kind, self.bounds, self.size.width - 2
                )
            )

    def on_tree_view_highlighted(self) -> None:
        """Shows the figures of the segment under the cursor."""
        segment = self.view.segment
        self.query_one(".under", Static).update(
            Content("") if segment is None else segment_content(segment, self.size.width - 2)
        )


def account_content(row: TreeRow) -> Content:
    """Returns the configuration of the tree, and its covered, pruned and unexpanded mass."""
    return Content.assemble(
        ("covered ", "$tone-muted"),
        (number_format.probability(row.covered), "bold $tone-complete"),
        ("  pruned ", "$tone-muted"),
        (number_format.probability(row.pruned), "bold"),
        ("  unexpanded ", "$tone-muted"),
        (
            number_format.probability(row.unexpanded),
            "bold $tone-accent" if row.unexpanded else "bold",
        ),
        (f"   {format_growth(row)}", "$tone-muted"),
        (f" · {one_line(row.note, NAME_LIMIT)}" if row.note else "", "$tone-borderline"),
    )


def measures_content(
    row: TreeRow, kinds: Sequence[Kind], bounds: PropertyBounds | None, cells: int
) -> Content:
    """Returns the figures of the tree that fit on a line of `cells` cells, after the bounds on a property, if any.

    Args:
        kinds: The kinds of all nodes.
    """
    proved: list[Content | tuple[str, str] | str] = []
    if bounds is not None:
        proved = [(format_bounds(bounds), "bold $tone-accent"), " · "]
    parts = [
        format_leaves(row.leaves, kinds),
        f"best log P {number_format.log_probability(row.max_log_prob)}",
        f"entropy {row.entropy:.1f} bits",
        number_format.counted(row.answers, "distinct text"),
    ]
    if row.answer_log_prob is not None:
        parts.append(
            f"said {number_format.log_probability(row.answer_log_prob)}, {row.answer_held:,} of "
            f"{row.answer_tokens:,} tokens in the tree"
        )
    parts.append(f"{row.nodes:,} nodes")
    room = cells - Content.assemble(*proved).cell_length
    return Content.assemble(*proved, fitting(parts, max(1, room)))


def segment_content(segment: Segment, cells: int) -> Content:
    """Returns how a segment ends, and its figures with more digits than on its line, as many of them as fit into
    `cells` cells."""
    parts: list[str] = []
    if segment.forks:
        parts.append(f"fork · {leaf_count(segment.leaves)}")
    else:
        parts.append(KIND_LOOKS[segment.kind][2])
    if segment.entropy is not None:
        parts.append(f"next token {segment.entropy:.1f} bits")
    parts.append(f"P {segment.probability:.4f} (log {_log(segment.probability)})")
    parts.append(f"leaves below {segment.mass_below:.4f}")
    parts.append(number_format.counted(len(segment.nodes), "token"))
    return Content.styled(fitting(parts, cells), "$tone-muted")


def _log(probability: float) -> str:
    """Returns the logarithm of a probability as text; minus infinity for 0."""
    return number_format.log_probability(math.log(probability)) if probability > 0 else "−∞"


def format_bounds(bounds: PropertyBounds) -> str:
    """Returns the bounds on the probability of a property, or that the tree proves nothing of it."""
    text = short_name(bounds.text)
    if bounds.high - bounds.low >= MIN_USELESS_WIDTH:
        return f"nothing is proved of “{text}”: no whole answer settles it"
    return f"P({text}) in {number_format.interval(bounds.low, bounds.high)}"


def format_leaves(leaves: int, kinds: Sequence[Kind]) -> str:
    """Returns the number of leaves, and how many are whole answers; the others only begin one.

    Args:
        kinds: The kinds of all nodes.
    """
    return f"{leaf_count(leaves)}, {whole_count(kinds.count(Kind.ENDED))}"


def leaf_count(number: int) -> str:
    """Returns `1 leaf`, `9 leaves`."""
    return number_format.counted(number, "leaf", "leaves")


def format_growth(row: TreeRow) -> str:
    """Returns the model, adapter and alpha that grew a tree, and its mode where that is not the default."""
    adapter = f" + {row.adapter}" if row.adapter else ""
    mode = "" if row.mode == TreeOptions().mode else " · token by token"
    text = f"{row.model}{adapter} · alpha {number_format.figure(row.alpha)}{mode}"
    return one_line(text, GROWTH_CHARACTERS)


class TreeScreen(WorkbenchScreen[None]):
    """Shows the tree at one step of a conversation."""

    AUTO_FOCUS = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answers", "List", tooltip="The complete answers with their probabilities"),
        Binding("p", "predicate", "Prove", tooltip="Bounds on the probability of a property"),
        Binding("left_square_bracket", "step(-1)", "Previous step", show=False, tooltip="The tree of the step before"),
        Binding("right_square_bracket", "step(1)", "Next step", show=False, tooltip="The tree of the next step"),
        Binding("y", "copy_path", "Copy", show=False, tooltip="Copy the text of this path"),
        Binding("escape,q", "close", "Back"),
    ]  # fmt: skip

    def __init__(
        self, services: OpenProject, feed: EngineFeed, conversation_id: int, step: int, mode: str
    ) -> None:
        """Shows the tree at a step of a conversation, of the configuration that trees are shown of now."""
        super().__init__(services, feed, mode)
        self._place = (conversation_id, step)  # of the tree
        self._steps: Sequence[int] = ()

    def compose_body(self) -> ComposeResult:
        """Yields the tree with its figures."""
        yield TreePane()

    @property
    def pane(self) -> TreePane:
        """The pane of the tree."""
        return self.query_one(TreePane)

    # Reading

    def refresh_data(self) -> None:
        """Reads the tree again, unless it is the one that is shown."""
        pane, trees, place = self.pane, self.services.trees, self._place
        shown = pane.opened

        def read() -> tuple[OpenTree, Folding | None, list[int]]:
            """Returns the tree, its segments unless it is shown already, and the steps that have trees."""
            opened, steps = trees.open(*place), trees.steps(place[0])
            if shown is not None and shown.item == opened.item:
                return opened, None, steps
            return opened, Folding(TreeLayout(opened.nodes)).opened_at_first(), steps

        def on_result(result: tuple[OpenTree, Folding | None, list[int]]) -> None:
            opened, folding, self._steps = result
            if folding is not None:
                pane.show(opened, folding)
                self._show_title(opened)
                if pane.bounds is not None:
                    self._prove(pane.bounds.text)

        self.in_background(read, on_result, group="tree")

    def _show_title(self, opened: OpenTree) -> None:
        """Shows the step and the name of the conversation in the title line."""
        item = opened.item
        self.query_one(TitleLine).say(
            Content.assemble(f"step {item.row.step} of ", (one_line(item.name, NAME_LIMIT), "bold"))
        )

    # Along the conversation

    def action_step(self, delta: int) -> None:
        """Goes to the tree of the next (1) or the previous (-1) step of the conversation that has one."""
        conversation_id, step = self._place
        index = self._steps.index(step) + delta if step in self._steps else -1
        if 0 <= index < len(self._steps):
            self._place = (conversation_id, self._steps[index])
            self.refresh_data()
        else:
            self.notify("There is no tree further that way.", markup=False)

    # Dialogs

    def action_answers(self) -> None:
        """Lists the complete answers and goes to the one that is chosen."""
        pane = self.pane
        if pane.opened is not None:
            dialog = AnswersDialog(self.services.trees, pane.opened.item)
            ask(self, dialog, pane.view.go_to_node)

    def action_copy_path(self) -> None:
        """Copies the text of the path to the cursor."""
        view = self.pane.view
        if view.cursor is not None:
            copy(self, view.layout_shown.path_text(view.cursor), "the path")

    # Guarantees

    def action_predicate(self) -> None:
        """Asks for a property and shows bounds on its probability; an empty text hides them."""
        bounds = self.pane.bounds

        def on_text(text: str) -> None:
            if text.strip():
                self._prove(text.strip())
            else:
                self.pane.prove(None)

        dialog = TextDialog(
            "Bounds on the probability that the response …",
            value=bounds.text if bounds is not None else "",
            placeholder="contains two years · equals yes · regex ^\\d+$ · json order.id=7",
        )
        ask(self, dialog, on_text)

    def _prove(self, text: str) -> None:
        """Computes bounds on a property, and shows them."""
        opened, place = self.pane.opened, self._place
        if opened is not None:
            key = opened.item.row.config_hash
            self.in_background(
                lambda: self.services.trees.bounds(*place, key, text),
                self.pane.prove,
                group="prove",
            )
