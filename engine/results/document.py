"""What a report consists of: sections of paragraphs, tables, quotes and charts, without any markup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.base.report_table import ReportRow, ReportTable


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences; `important` are set apart."""

    text: str
    important: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """What was said in a conversation: whose it is, and (speaker, text) for each message."""

    source: str
    messages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Shares in [0, 1] as bars, each with its label and its value as text; `marked` is a label to set apart."""

    title: str
    values: tuple[tuple[str, float, str], ...]
    marked: str | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Counts side by side, from left to right; `line` is a place among them, from 0 to 1, with a label, and `of` is
    what is counted."""

    title: str
    values: tuple[tuple[str, int], ...]
    line: tuple[float, str] | None = None
    of: str = "conversations"


@dataclass(frozen=True, slots=True)
class Points:
    """Points in a plane, each with the number of its group, which is its letter; -1 for none."""

    title: str
    places: tuple[tuple[float, float, int], ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Values of the table before it with their intervals, on one axis that shows 0: label, low end, value, high end,
    and the value as text."""

    title: str
    values: tuple[tuple[str, float, float, float, str], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines and dots over two axes.

    Attributes:
        across, up: What the axes are.
        says: What is to be seen, in words; all that Markdown and screen readers have of the picture.
        lines: The points of each line by its label.
        dots: Places of dots.
        unit: Whether both axes run from 0 to 1; otherwise over what is there.
        shares: Whether the vertical axis runs from 0 to 1 all the same.
        whiskers: Vertical lines, each as its place and its ends.
        ticks: Places on the horizontal axis with their labels; empty for the two ends of the axis.
    """

    title: str
    across: str
    up: str
    says: str
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()
    dots: tuple[tuple[float, float], ...] = ()
    unit: bool = False
    shares: bool = False
    whiskers: tuple[tuple[float, float, float], ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()


Figure = Bars | Columns | Points | Ranges | Plot
Block = Paragraph | ReportTable | Quote | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    def mapped(self, change: Callable[[str], str]) -> Document:
        """The document with every text changed."""
        return Document(
            change(self.title),
            change(self.subtitle),
            tuple(
                Section(
                    change(section.title), tuple(_mapped(block, change) for block in section.blocks)
                )
                for section in self.sections
            ),
        )


def _mapped(block: Block, change: Callable[[str], str]) -> Block:
    """Returns a block with every text changed."""
    if isinstance(block, Paragraph):
        return replace(block, text=change(block.text))
    if isinstance(block, ReportTable):
        rows = (ReportRow(tuple(change(str(cell)) for cell in row.cells)) for row in block.rows)
        return replace(block, title=change(block.title), rows=tuple(rows))
    if isinstance(block, Quote):
        messages = tuple((speaker, change(text)) for speaker, text in block.messages)
        return replace(block, source=change(block.source), messages=messages)
    if isinstance(block, Bars):
        return replace(block, values=tuple((change(a), b, c) for a, b, c in block.values))
    if isinstance(block, Columns):
        return replace(block, values=tuple((change(a), b) for a, b in block.values))
    if isinstance(block, Ranges):
        return replace(block, values=tuple((change(row[0]), *row[1:]) for row in block.values))
    if isinstance(block, Plot):
        lines = tuple((change(a), b) for a, b in block.lines)
        return replace(block, says=change(block.says), lines=lines)
    return replace(block, labels=tuple(map(change, block.labels)))
