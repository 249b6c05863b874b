"""The dialogs over a tree: its answers with their probabilities, and the tokens of one answer."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.trees.meaning import GroupedAnswers, Meaning
from engine.trees.measures import Answer
from engine.trees.records import NodeColumns, TreeItem
from engine.trees.service import TreeService
from engine.trees.tree import Kind
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.exporting import copy
from screens.trees.columns import whole_count
from screens.trees.tree_view import KIND_LOOKS, shown_text
from screens.widgets.background import background
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

THRESHOLD = 0.85
"""Default similarity at or above which two answers count as equal in meaning."""
STEP = 0.05
"""Similarity by which one key press moves the threshold; also the least threshold."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list of answers.

    Attributes:
        number: Its number in the list, from 0.
        meaning: The group of equal meaning with its number, from 0, on its first line only; None on other lines and
            without groups.
    """

    number: int
    answer: Answer
    meaning: tuple[int, Meaning] | None = None


def lines_of(answers: Sequence[Answer], groups: Sequence[Meaning] | None = None) -> list[Line]:
    """Returns the lines of answers, group by group where there are groups."""
    order: list[tuple[int, tuple[int, Meaning] | None]] = [(at, None) for at in range(len(answers))]
    if groups is not None:
        order = [
            (index, (group_number, group) if index == group.answers[0] else None)
            for group_number, group in enumerate(groups)
            for index in group.answers
        ]
    return [Line(number, answers[index], meaning) for number, (index, meaning) in enumerate(order)]


def kinds_text(answers: Sequence[Answer]) -> str:
    """Returns how many texts are whole answers and how many only begin one, with their probability."""
    whole = [answer.probability for answer in answers if answer.end is Kind.ENDED]
    begun = [answer.probability for answer in answers if answer.end is not Kind.ENDED]
    parts = [f"{whole_count(len(whole))} ({number_format.probability(sum(whole))} of all)"]
    if begun:
        glyphs = f"{KIND_LOOKS[Kind.CUT][0]} {KIND_LOOKS[Kind.LONG][0]}"
        count = number_format.counted(len(begun), "beginning")
        parts.append(f"{count} of others {glyphs} ({number_format.probability(sum(begun))})")
    return " · ".join(parts)


class AnswersDialog(Dialog[int | None]):
    """Lists the texts of the leaves with their probabilities; returns the node of the chosen one."""

    PLACE = "answers"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "meaning", "By meaning", tooltip="Put together what means the same, or not"),
        Binding("plus", "threshold(1)", "Stricter", key_display="+", tooltip="Fewer mean the same"),
        Binding("minus", "threshold(-1)", "Looser", key_display="-", tooltip="More mean the same"),
        Binding("y", "copy", "Copy", tooltip="Copy this answer"),
        Binding("escape,l,q", "dismiss(None)", "Leave"),
    ]

    def __init__(self, trees: TreeService, item: TreeItem) -> None:
        super().__init__()
        self._trees, self._item = trees, item
        self._answers: Sequence[Answer] = ()
        self._meanings: GroupedAnswers | None = None
        self._threshold = THRESHOLD
        self.table = ItemTable(self._columns(), lambda line: line.number)

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
                    ("m", "by meaning"),
                    ("+ -", "threshold"),
                    ("y", "copies it"),
                    ("escape", "leaves"),
                )
            )

    def on_mount(self) -> None:
        """Reads the answers."""
        row = self._item.row

        def arrived(answers: list[Answer]) -> None:
            self._answers = answers
            self._show()
            self.table.focus()

        background(
            self,
            lambda: self._trees.answers(row.conversation_id, row.step, row.config_hash),
            arrived,
            self.show_error,
            group="answers",
        )

    def _show(self) -> None:
        """Shows the answers, by wording or by meaning."""
        grouped = self._meanings
        groups = None if grouped is None else grouped.meanings.groups
        lines = lines_of(self._answers if grouped is None else grouped.answers, groups)
        self.table.show_columns(self._columns())
        self.table.show_items(lines)
        self.query_one("#about", Static).update(self._about())
        self._show_answer()

    def _about(self) -> Content:
        """Returns the line above the list: how many answers, and how they are grouped."""
        grouped = self._meanings
        if grouped is None:
            return Content(kinds_text(self._answers))
        meanings = grouped.meanings
        groups = len(meanings.groups)
        bits = number_format.between(meanings.entropy_low, meanings.entropy_high)
        return Content.assemble(
            (number_format.counted(groups, "meaning"), "bold"),
            f" of {number_format.counted(len(self.table.items), 'text')} · alike from ",
            (number_format.probability(self._threshold), "bold $tone-accent"),
            f" on · entropy over meanings {bits} bits",
            (f" · {one_line(grouped.by, 60)}", "$tone-muted"),
        )

    # Meaning

    def action_meaning(self) -> None:
        """Groups the answers by meaning, or lists them by wording again."""
        if self._meanings is None:
            self._group()
        else:
            self._meanings = None
            self._show()

    def action_threshold(self, direction: int) -> None:
        """Raises or lowers the similarity at which answers count as equal in meaning, and groups again."""
        self._threshold = round(min(1.0, max(STEP, self._threshold + direction * STEP)), 2)
        self._group()

    def _group(self) -> None:
        """Groups the answers by meaning, and shows them."""
        row, threshold = self._item.row, self._threshold
        about = self.query_one("#about", Static)
        about.update(Content.styled("comparing …", "$tone-muted"))

        def arrived(grouped: GroupedAnswers) -> None:
            self._meanings = grouped
            self._show()

        def failed(error: WorkbenchError) -> None:
            words = one_line(f"{error.message} {error.hint}", 300)
            about.update(Content.styled(words, "$tone-incomplete"))

        background(
            self,
            lambda: self._trees.meanings(row.conversation_id, row.step, row.config_hash, threshold),
            arrived,
            failed,
            group="meaning",
        )

    # Drawing

    def _columns(self) -> list[Column[Line]]:
        """Returns the columns; that of meanings only by meaning."""
        columns = [
            Column("kind", "", 1, _kind_cell),
            Column("p", "probability", number_format.BAR_WIDTH + 5, _p_cell),
            Column("leaves", "leaves", 7, lambda line: [(f"{len(line.answer.leaves):,}", "tone--muted")],
                   right=True, keep=3),
            Column("text", "answer", 20,
                   lambda line: [(shown_text(line.answer.text) or "(nothing)", "")], flexible=True),
        ]  # fmt: skip
        if self._meanings is not None:
            columns.insert(0, Column("meaning", "meaning", 8, _meaning_cell))
        return columns

    def _show_answer(self) -> None:
        """Shows the whole answer under the cursor."""
        line = self.table.here
        text = "" if line is None else one_line(line.answer.text, 400)
        self.query_one("#whole", Static).update(Content.styled(text, "$tone-muted"))

    def on_row_table_highlighted(self) -> None:
        """Shows the whole answer under the cursor."""
        self._show_answer()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter goes to the leaf."""
        if self.table.here is not None:
            self.dismiss(self.table.here.answer.leaves[0])

    def action_copy(self) -> None:
        """Copies the answer under the cursor."""
        line = self.table.here
        if line is not None:
            copy(self, line.answer.text, f"answer {line.number + 1}")


def _kind_cell(line: Line) -> Sequence[Piece]:
    """Returns the sign for how an answer ends."""
    glyph, tone, _ = KIND_LOOKS[line.answer.end]
    return [(glyph, tone)]


def _p_cell(line: Line) -> Sequence[Piece]:
    """Returns the probability of an answer as a bar and a number."""
    p = line.answer.probability
    return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p, 3)}", "")]


def _meaning_cell(line: Line) -> Sequence[Piece]:
    """Returns the number and probability of a group at its first answer."""
    if line.meaning is None:
        return [("   ⋮", "tone--muted")]
    number, group = line.meaning
    return [
        (f"{number + 1:>3} ", ""),
        (number_format.probability(group.probability), "tone--accent"),
    ]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token of a path.

    Attributes:
        at: Index in the path.
        token: Its id.
        text: What it completes; empty while a character's bytes are still to come.
        log_p: Natural logarithm of its probability after its path.
        path: The same for the path up to it.
        entropy: Bits of the distribution that it was taken from; None if unknown.
    """

    at: int
    token: int
    spelling: bytes
    text: str
    log_p: float
    path: float
    entropy: float | None


def token_rows(columns: NodeColumns, nodes: Sequence[int]) -> list[TokenRow]:
    """Returns the tokens of a path. A character whose bytes are split belongs to the token that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rows = []
    for index, node in enumerate(nodes):
        text = decoder.decode(columns.spelling[node], final=index == len(nodes) - 1)
        rows.append(
            TokenRow(
                at=index,
                token=columns.token[node],
                spelling=columns.spelling[node],
                text=text,
                log_p=columns.log_p[node],
                path=columns.path[node],
                entropy=columns.entropy[columns.parent[node]],
            )
        )
    return rows


class TokensDialog(Dialog[None]):
    """The tokens of one path: ids, bytes, log-probabilities."""

    PLACE = "tokens"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,t,q", "dismiss(None)", "Leave")]

    def __init__(self, columns: NodeColumns, nodes: Sequence[int]) -> None:
        super().__init__()
        self._rows = token_rows(columns, nodes)
        self.table = ItemTable(
            [
                Column("at", "", 4, lambda r: [(str(r.at + 1), "tone--muted")], right=True, keep=4),
                Column("token", "id", 7, lambda r: [(str(r.token), "")], right=True),
                Column("text", "text", 14, _text_cell, flexible=True),
                Column("bytes", "bytes", 18, lambda r: [(hexes(r.spelling), "tone--muted")]),
                Column("p", "p", number_format.BAR_WIDTH + 4, _token_p_cell, keep=5),
                Column(
                    "log_p",
                    "log p",
                    8,
                    lambda r: [(number_format.log_probability(r.log_p), "")],
                    right=True,
                ),
                Column(
                    "path",
                    "path",
                    8,
                    lambda r: [(number_format.log_probability(r.path), "")],
                    right=True,
                ),
                Column("bits", "bits", 5, _bits_cell, right=True, keep=3),
            ],
            lambda row: row.at,
        )

    def compose(self) -> ComposeResult:
        """Yields the table, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(f"Tokens of this path, {len(self._rows):,}")
            yield self.table
            yield Static(hint_line(("escape", "leaves")))

    def on_mount(self) -> None:
        """Begins at the last token, which is the one under the cursor."""
        self.table.show_items(self._rows)
        self.table.focus()
        self.call_after_refresh(self.table.action_move_to, -1)


def hexes(data: bytes) -> str:
    """Returns bytes as hexadecimal, `e2 82 ac`; long ones are cut."""
    return data[:6].hex(" ") + (" …" if len(data) > 6 else "")


def _text_cell(row: TokenRow) -> Sequence[Piece]:
    """Returns the text that a token completes."""
    if row.text:
        return [(shown_text(row.text), "")]
    return [("part of a character" if row.spelling else "no text", "tone--muted")]


def _token_p_cell(row: TokenRow) -> Sequence[Piece]:
    """Returns the probability of a token as a bar and a number."""
    p = math.exp(row.log_p)
    return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p)}", "")]


def _bits_cell(row: TokenRow) -> Sequence[Piece]:
    """Returns the entropy of the distribution that the token was taken from."""
    return [] if row.entropy is None else [(f"{row.entropy:.1f}", "tone--muted")]
