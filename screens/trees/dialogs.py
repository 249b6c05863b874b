"""The dialogs of response trees: the form that grows them, and the answers of one with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.request_options import Option, options_of
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.project.records import Estimate
from engine.trees.measures import Answer
from engine.trees.records import At, Growth, TreeItem, TreeOptions, TreeRequest
from engine.trees.service import TreeService
from engine.trees.tree import Kind
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.exporting import copy
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.trees.tree_view import KIND_LOOKS, shown_text
from screens.widgets.background import background
from screens.widgets.row_table import Column, ItemTable, Piece

TREE_PLACES: dict[At, FormChoice] = {
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


class AnswersDialog(Dialog[int | None]):
    """Lists the texts of the leaves with their probabilities; returns the node of the chosen one."""

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
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(
                "Answers and beginnings of answers, equal texts put together"
            )
            yield Static(id="about")
            yield self.table
            yield Static(id="whole")
            yield Static(
                hint_line(
                    ("enter", "goes to it"),
                    ("y", "copies it"),
                    ("escape", "leaves"),
                )
            )

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
        answer = self.table.here
        text = "" if answer is None else one_line(answer.text, 400)
        self.query_one("#whole", Static).update(Content.styled(text, "$tone-muted"))

    def on_row_table_highlighted(self) -> None:
        """Shows the whole answer under the cursor."""
        self._show_answer()

    def on_row_table_opened(self) -> None:
        """Enter goes to the leaf."""
        answer = self.table.here
        if answer is not None:
            self.dismiss(answer.leaves[0])

    def action_copy(self) -> None:
        """Copies the answer under the cursor."""
        answer = self.table.here
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
