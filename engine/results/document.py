"""What a report consists of: sections of paragraphs, tables, quotes and charts, without any markup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.base.report_table import ReportRow, ReportTable


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences; `important` are set apart."""

    text: str
    important: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """Messages of a conversation.

    Attributes:
        source: Name of the conversation.
        messages: (speaker, text) of each message.
        more_in: Title of the section that says more of the conversation; empty for none.
    """

    source: str
    messages: tuple[tuple[str, str], ...]
    more_in: str = ""


class Bar(NamedTuple):
    """One bar; `value` is its length in [0, 1], and `text` stands beside it.

    `pale` is the length of a paler part that goes on from there; a `faint` text is a figure of few conversations.
    """

    label: str
    value: float
    text: str
    pale: float = 0.0
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Shares as bars, one below the other."""

    title: str
    values: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Counts side by side, from left to right.

    Attributes:
        values: Label and count of each column.
        line: A place among the columns, from 0 to 1, where a line is drawn, with its label.
        of: What is counted.
    """

    title: str
    values: tuple[tuple[str, int], ...]
    line: tuple[float, str] | None = None
    of: str = "conversations"


class ValueRange(NamedTuple):
    """A value between the ends of its interval; `text` is the value as text."""

    label: str
    low: float
    value: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class Ranges:
    """Values of the table before it with their intervals, on one axis that shows 0."""

    title: str
    values: tuple[ValueRange, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines and dots over two axes.

    Attributes:
        x_title, y_title: What the axes are.
        description: What is to be seen, in words; all that Markdown and screen readers have of the picture.
        lines: The points of each line by its label.
        dots: Places of dots.
        unit: Whether both axes run from 0 to 1; otherwise they cover what is drawn.
    """

    title: str
    x_title: str
    y_title: str
    description: str
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()
    dots: tuple[tuple[float, float], ...] = ()
    unit: bool = False


Figure = Bars | Columns | Ranges | Plot
"""What is drawn."""

Block = Paragraph | ReportTable | Quote | Figure
"""A part of a section."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it; what is `folded` is read by those who look for it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    def mapped(self, change: Callable[[str], str]) -> Document:
        """Returns the document with its texts changed.

        What the program itself says stays: titles of charts, columns and axes, the text beside a bar or a range, the
        label of a vertical line and of a tick, what is counted, and the names of speakers.
        """
        return Document(
            change(self.title),
            change(self.subtitle),
            tuple(
                replace(
                    section,
                    title=change(section.title),
                    blocks=tuple(_mapped(block, change) for block in section.blocks),
                )
                for section in self.sections
            ),
        )


def _mapped(block: Block, change: Callable[[str], str]) -> Block:
    """Returns a block with the texts changed that `Document.mapped` changes."""
    if isinstance(block, Paragraph):
        return replace(block, text=change(block.text))
    if isinstance(block, ReportTable):
        rows = (
            ReportRow(tuple(change(str(cell)) for cell in row.cells), faint=row.faint)
            for row in block.rows
        )
        return replace(block, title=change(block.title), rows=tuple(rows))
    if isinstance(block, Quote):
        messages = tuple((speaker, change(text)) for speaker, text in block.messages)
        return replace(block, source=change(block.source), messages=messages)
    if isinstance(block, Bars):
        return replace(
            block, values=tuple(bar._replace(label=change(bar.label)) for bar in block.values)
        )
    if isinstance(block, Columns):
        return replace(block, values=tuple((change(label), count) for label, count in block.values))
    if isinstance(block, Ranges):
        return replace(
            block, values=tuple(row._replace(label=change(row.label)) for row in block.values)
        )
    lines = tuple((change(label), points) for label, points in block.lines)
    return replace(block, description=change(block.description), lines=lines)
