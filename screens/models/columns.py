"""The columns of the list of models. Without Textual."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.base import number_format
from engine.base.text import one_line
from engine.model.service.records import ModelRow, PullRow
from screens.models import formatting as words
from screens.widgets.row_table import Column, Piece

Item = ModelRow | PullRow
Listed = tuple[int, Item]
"""A number that identifies an item while the list is shown, and the item."""


def model_columns() -> list[Column[Listed]]:
    """Name, state, sizes, speed, and where it is from."""

    def of_model(cell: Callable[[ModelRow], Piece]) -> Callable[[Listed], Sequence[Piece]]:
        dash = (words.DASH, "tone--muted")
        return lambda row: [cell(row[1]) if isinstance(row[1], ModelRow) else dash]

    def name(row: Listed) -> Sequence[Piece]:
        return [(one_line(row[1].name, 200), "")]

    def state(row: Listed) -> Sequence[Piece]:
        item = row[1]
        if isinstance(item, PullRow):
            look, word = words.PULLS[item.state], words.pull_word(item)
        else:
            look, word = words.look_of(item), words.state_word(item)
        return [(f"{look.glyph} {word}", look.tone_class)]

    def size(row: Listed) -> Sequence[Piece]:
        item = row[1]
        return [(number_format.size(item.size if isinstance(item, ModelRow) else item.total), "")]

    def origin(row: Listed) -> Sequence[Piece]:
        item = row[1]
        return [(one_line(item.origin if isinstance(item, ModelRow) else "hub", 20), "tone--muted")]

    def source(row: Listed) -> Sequence[Piece]:
        item = row[1]
        if isinstance(item, PullRow):
            return [(one_line(item.repository, 120), "tone--muted")]
        detail = (one_line(item.note or item.source, 120), "tone--muted")
        works = words.format_works(item.works)
        return [(f"{works} · ", "tone--accent"), detail] if works else [detail]

    def memory(row: ModelRow) -> Piece:
        tone = "tone--borderline" if row.fits is False else ""
        return (number_format.size(row.memory), tone if row.memory is not None else "tone--muted")

    return [
        Column("name", "model", 16, name, flexible=True),
        Column("state", "status", 14, state),
        Column("size", "on disk", 9, size, right=True, keep=8),
        Column("memory", "memory", 9, of_model(memory), right=True, keep=7),
        Column("speed", "speed", 10, of_model(lambda r: (words.speed(r.tokens_per_s), "")),
               right=True, keep=6),
        Column("origin", "from", 8, origin, keep=5),
        Column("licence", "license", 12,
               of_model(lambda r: (one_line(r.licence, 30) or words.DASH, "tone--muted")), keep=4),
        Column("source", "what it is", 34, source, keep=3),
    ]  # fmt: skip
