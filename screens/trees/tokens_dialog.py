"""The tokens of one path of a tree."""

from __future__ import annotations

import codecs
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.trees.records import NodeColumns
from screens.shell.dialogs import Dialog, hint_line
from screens.trees.tree_view import shown_text
from screens.widgets.row_table import Column, Piece, RowTable


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token of a path; `text` is what it completes, empty while a character's bytes are still to come."""

    at: int
    token: int
    spelling: bytes
    text: str
    log_p: float
    path: float
    entropy: float | None


def token_rows(columns: NodeColumns, nodes: Sequence[int]) -> list[TokenRow]:
    """The tokens of a path. A character whose bytes are split belongs to the token that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rows = []
    for at, node in enumerate(nodes):
        text = decoder.decode(columns.spelling[node], final=at == len(nodes) - 1)
        rows.append(
            TokenRow(
                at,
                columns.token[node],
                columns.spelling[node],
                text,
                columns.log_p[node],
                columns.path[node],
                columns.entropy[columns.parent[node]],
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
        self.table = RowTable[TokenRow](
            [
                Column("at", "", 4, lambda r: [(str(r.at + 1), "tone--muted")], right=True, keep=4),
                Column("token", "id", 7, lambda r: [(str(r.token), "")], right=True),
                Column("text", "text", 14, _text_cell, flexible=True),
                Column("bytes", "bytes", 18, lambda r: [(hexes(r.spelling), "tone--muted")]),
                Column("p", "p", number_format.BAR_WIDTH + 4, _p_cell, keep=5),
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
            self._fetch,
            lambda row: row.at,
        )

    def compose(self) -> ComposeResult:
        """Table, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(f"Tokens of this path, {len(self._rows):,}")
            yield self.table
            yield Static(hint_line(("escape", "leaves")))

    def on_mount(self) -> None:
        """Begins at the last token, which is the one under the cursor."""
        self.table.show(array("q", range(len(self._rows))))
        self.table.focus()
        self.call_after_refresh(self.table.action_move_to, -1)

    def _fetch(self, ids: Sequence[int]) -> list[TokenRow]:
        return [self._rows[at] for at in ids if at < len(self._rows)]


def hexes(data: bytes) -> str:
    """Bytes as hexadecimal, `e2 82 ac`; long ones are cut."""
    return data[:6].hex(" ") + (" …" if len(data) > 6 else "")


def _text_cell(row: TokenRow) -> Sequence[Piece]:
    if row.text:
        return [(shown_text(row.text), "")]
    return [("part of a character" if row.spelling else "no text", "tone--muted")]


def _p_cell(row: TokenRow) -> Sequence[Piece]:
    p = math.exp(row.log_p)
    return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p)}", "")]


def _bits_cell(row: TokenRow) -> Sequence[Piece]:
    return [] if row.entropy is None else [(f"{row.entropy:.1f}", "tone--muted")]
