"""Defines documents, which are sections of paragraphs, tables, quotes and charts, and writes them as HTML files.

A file has no script and needs no other file; it can be read on a telephone, on paper, in black and white, and by a
screen reader. Charts are SVG; lengths are in the units of the view box, which is `WIDTH` wide, and y grows downwards.
Colors come from classes of the style sheet: `bar` is a filled mark, `line` a dashed one, `rail` the ground of bars.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import NamedTuple

from engine.base.errors import UsageError
from engine.base.line_files import check_target, write_beside
from engine.base.report_table import ReportRow, ReportTable, format_cell
from engine.base.text import display_safe, one_line
from engine.conversations.personal_data import Kind, Redactor

_STYLE = (Path(__file__).parent / "report.css").read_text("utf-8").strip()
"""The style sheet of every document."""

_CODE_SPAN = re.compile("`([^`]+)`")
"""Matches text between backticks, e.g. `workbench list`, which becomes code."""

WIDTH = 640
"""Width of every drawing, in the units of its view box."""

_LABEL_WIDTH = 250
"""Width of the label in a row of bars."""

_VALUE_WIDTH = 150
"""Width of the value in a row of bars."""

_ROW_HEIGHT = 22

_BAR_HEIGHT = 14

_BAR_TOP = 4
"""Distance from the top of a row to its bar."""

_LABEL_GAP = 8
"""Distance of a label from the rail of its bar."""

_LABEL_CHARACTERS = 38
"""Most characters of a label beside a row."""

_TEXT_DROP = 15
"""Distance from the top of a row to the base line of its text."""

_TEXT_GAP = 6
"""Distance of a value from the rail of its bar."""

_TOP = 20
"""Room above the greatest of several columns, for its count."""

_COLUMNS_HEIGHT = 150
"""Height of the greatest of several columns."""

_COLUMN_MARGIN = 2
"""Free room on either side of a column."""

_MAX_COLUMN_NAMES = 14
"""Most names that fit under the columns; of more columns, only every second, third, ... is named."""

_NAME_DROP = 18
"""Distance from the foot of the columns to the base line of their names."""

_FOOT_HEIGHT = 26
"""Room below the foot of the columns, for their names."""

_MIN_WIDTH_FOR_COUNT = 26
"""Width of a column above which there is room for its count."""

_COUNT_GAP = 5
"""Distance of a count from its column, and of the label of a vertical line from the line."""

_COLUMN_NAME_CHARACTERS = 12
"""Most characters of the name of a column."""

_LINE_TOP, _LINE_LABEL_DROP = 6, 14
"""Distances from the top of the columns to the upper end of a vertical line, and to the base line of its label."""

_LABEL_LEFT_FROM = 0.6
"""Share of the width from which on the label of a vertical line stands on its left, where there is more room."""


# What a document consists of


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences; an `important` paragraph is set apart."""

    text: str
    important: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """Messages of a conversation.

    Attributes:
        source: Name of the conversation.
        messages: (speaker, text) of each message.
        more_in: Title of the section that has more on the conversation; empty for none.
    """

    source: str
    messages: tuple[tuple[str, str], ...]
    more_in: str = ""


class Bar(NamedTuple):
    """One bar; `value` is its length in [0, 1], and `text` stands beside it."""

    label: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """Shares as bars, one below the other."""

    title: str
    values: tuple[Bar, ...]


class VerticalLine(NamedTuple):
    """A line at `share` of the width, from 0 (left) to 1 (right), with its label."""

    share: float
    label: str


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Counts as columns side by side, from left to right.

    Attributes:
        title: Title of the chart.
        values: Label and count of each column.
        line: A vertical line over the columns.
    """

    title: str
    values: tuple[tuple[str, int], ...]
    line: VerticalLine


Block = Paragraph | ReportTable | Quote | BarChart | ColumnChart
"""A part of a section."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with blocks; those of a `folded` section are shown on request."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A report: its title, a line below the title, and its sections."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    def map_texts(self, change: Callable[[str], str]) -> Document:
        """Returns the document with its texts changed by a function.

        Texts of the program stay as they are: titles of charts and columns, the text beside a bar, the label
        of a vertical line, and the names of speakers. Rows lose what no document shows.
        """
        return Document(
            change(self.title),
            change(self.subtitle),
            tuple(
                replace(
                    section,
                    title=change(section.title),
                    blocks=tuple(_map_block(block, change) for block in section.blocks),
                )
                for section in self.sections
            ),
        )


def _map_block(block: Block, change: Callable[[str], str]) -> Block:
    """Returns a block with its texts changed; see `Document.map_texts`."""
    if isinstance(block, Paragraph):
        return replace(block, text=change(block.text))
    if isinstance(block, ReportTable):
        rows = (
            ReportRow(
                tuple(change(cell) if isinstance(cell, str) else cell for cell in row.cells),
                faint=row.faint,
            )
            for row in block.rows
        )
        notes = tuple(map(change, block.notes))
        return replace(block, title=change(block.title), rows=tuple(rows), notes=notes)
    if isinstance(block, Quote):
        messages = tuple((speaker, change(text)) for speaker, text in block.messages)
        return replace(
            block,
            source=change(block.source),
            messages=messages,
            more_in=change(block.more_in),  # as the title of its section
        )
    if isinstance(block, BarChart):
        return replace(
            block, values=tuple(bar._replace(label=change(bar.label)) for bar in block.values)
        )
    return replace(block, values=tuple((change(label), count) for label, count in block.values))


# Files


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """A document that was written.

    Attributes:
        bytes: Size of the file.
        redacted: Number of different pieces of personal data that were replaced, by kind.
    """

    bytes: int
    redacted: Mapping[Kind, int]


def check_place(path: Path, *, force: bool) -> None:
    """Checks that a document may be written to a path.

    Args:
        force: Whether an existing file may be overwritten.

    Raises:
        UsageError: The name of the file does not end in .html or .htm.
        ProjectError: There is such a file already.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"A report cannot be written as {path.name}.", "Name a file.html.")
    check_target(path, force=force)


def write_document(document: Document, path: Path, *, redact: bool = False) -> WrittenDocument:
    """Writes a document, completely or not at all; an existing file is overwritten.

    Args:
        redact: Whether personal data is replaced.

    Raises:
        ProjectError: The file cannot be written.
    """
    # someone may print the file on a terminal, which would obey control characters
    document = document.map_texts(display_safe)
    redactor = Redactor()
    if redact:
        document = document.map_texts(redactor.text)
    with write_beside(path) as part:
        part.write_text(to_html(document), encoding="utf-8")
    return WrittenDocument(path.stat().st_size, redactor.counts)


def to_html(document: Document) -> str:
    """Returns the document as the text of one HTML file."""
    numbered = [(f"s{number}", section) for number, section in enumerate(document.sections)]
    contents = "".join(
        f'<li><a href="#{section_id}">{escape(section.title)}</a></li>'
        for section_id, section in numbered
    )
    section_ids = {section.title: section_id for section_id, section in numbered}
    sections = [_html_section(section_id, section, section_ids) for section_id, section in numbered]
    nav = f'<nav aria-label="Contents"><ul>{contents}</ul></nav>'
    body = "\n".join([*sections[:1], nav, *sections[1:]])  # the contents follow the first section
    title = escape(document.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
        f'<p class="subtitle">{escape(document.subtitle)}</p>\n</header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html_section(section_id: str, section: Section, section_ids: Mapping[str, str]) -> str:
    """Returns a section as HTML.

    Args:
        section_id: Id of its HTML element; the contents link to it.
        section_ids: Those ids by the titles of the sections, the last one of equal titles; quotes link to them.
    """
    blocks = "\n".join(_html_block(block, section_ids) for block in section.blocks)
    heading = f"<h2>{escape(section.title)}</h2>"
    if section.folded:
        blocks = f"<details>\n<summary>{heading}</summary>\n{blocks}\n</details>"
    else:
        blocks = f"{heading}\n{blocks}"
    return f'<section id="{section_id}">\n{blocks}\n</section>'


def _html_block(block: Block, section_ids: Mapping[str, str]) -> str:
    """Returns a block as HTML; `section_ids` as in `_html_section`."""
    if isinstance(block, Paragraph):
        kind = ' class="important"' if block.important else ""
        text = _CODE_SPAN.sub(r"<code>\1</code>", escape(block.text))
        return f"<p{kind}>{text}</p>"
    if isinstance(block, ReportTable):
        return _html_table(block)
    if isinstance(block, Quote):
        messages = "".join(
            f"<p><strong>{escape(speaker)}:</strong> {escape(text)}</p>"
            for speaker, text in block.messages
        )
        section_id = section_ids.get(block.more_in)
        more = "" if section_id is None else f' <a href="#{section_id}">more</a>'
        cite = f"<cite>{escape(block.source)}</cite>{more}"
        return f"<blockquote>{messages}<p>{cite}</p></blockquote>"
    drawing = _svg_bars(block) if isinstance(block, BarChart) else _svg_columns(block)
    return f"<figure>{drawing}<figcaption>{escape(block.title)}</figcaption></figure>"


def _html_table(table: ReportTable) -> str:
    """Returns a table as HTML with its title as caption and its notes below.

    The first cell of each row is the heading of the row, and is never faint.
    """
    classes = ["" if column.kind == "text" else ' class="number"' for column in table.columns]
    head = "".join(
        f'<th scope="col"{css_class}>{escape(column.title)}</th>'
        for css_class, column in zip(classes, table.columns, strict=True)
    )
    rows = "\n".join(_html_row(table, row) for row in table.rows)
    notes = "".join(f'\n<p class="subtitle">{escape(note)}</p>' for note in table.notes)
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>{notes}"
    )


def _html_row(table: ReportTable, row: ReportRow) -> str:
    """Returns a row of a table as HTML."""
    cells = []
    for index, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        text = escape(format_cell(column.kind, cell))
        if index == 0:
            cells.append(f'<th scope="row">{text}</th>')
            continue
        number = "" if column.kind == "text" else ' class="number"'
        content = f'<span class="faint">{text}</span>' if index in row.faint else text
        cells.append(f"<td{number}>{content}</td>")
    return f"<tr>{''.join(cells)}</tr>"


# Charts


def _svg_element(
    title: str, descriptions: Sequence[str], height: int, elements: Sequence[str]
) -> str:
    """Returns a drawing as an SVG element, with its title and a description of each mark for screen readers."""
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape('; '.join(descriptions))}</desc>{''.join(elements)}</svg>"
    )


def _svg_bars(chart: BarChart) -> str:
    """Returns horizontal bars, a row each, with the value as text beside them."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    elements = []
    for row, (label, value, text) in enumerate(chart.values):
        y, name = row * _ROW_HEIGHT, escape(one_line(label, _LABEL_CHARACTERS))
        length = max(0.0, min(1.0, value)) * room
        elements += [
            f'<text x="{_LABEL_WIDTH - _LABEL_GAP}" y="{y + _TEXT_DROP}" text-anchor="end">{name}</text>',
            f'<rect class="rail" x="{_LABEL_WIDTH}" y="{y + _BAR_TOP}" width="{room}" height="{_BAR_HEIGHT}"/>',
            f'<rect class="bar" x="{_LABEL_WIDTH}" y="{y + _BAR_TOP}" width="{length:.1f}" height="{_BAR_HEIGHT}"/>',
            f'<text x="{_LABEL_WIDTH + room + _TEXT_GAP}" y="{y + _TEXT_DROP}">{escape(text)}</text>',
        ]
    descriptions = [f"{bar.label}: {bar.text}" for bar in chart.values]
    height = len(chart.values) * _ROW_HEIGHT + _BAR_TOP
    return _svg_element(chart.title, descriptions, height, elements)


def _svg_columns(chart: ColumnChart) -> str:
    """Returns vertical columns with their counts above them and a dashed line."""
    most = max((count for _, count in chart.values), default=0) or 1
    step = WIDTH / max(1, len(chart.values))
    width = step - 2 * _COLUMN_MARGIN
    columns_per_name = max(1, math.ceil(len(chart.values) / _MAX_COLUMN_NAMES))
    foot = _TOP + _COLUMNS_HEIGHT
    elements = []
    for number, (label, count) in enumerate(chart.values):
        height = _COLUMNS_HEIGHT * count / most
        x = number * step
        middle = x + step / 2
        elements.append(
            f'<rect class="bar" x="{x + _COLUMN_MARGIN:.1f}" y="{foot - height:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}"/>'
        )
        if count and step > _MIN_WIDTH_FOR_COUNT:
            elements.append(
                f'<text x="{middle:.1f}" y="{foot - _COUNT_GAP - height:.1f}" text-anchor="middle">{count:,}</text>'
            )
        if number % columns_per_name == 0:
            name = escape(one_line(label, _COLUMN_NAME_CHARACTERS))
            elements.append(
                f'<text x="{middle:.1f}" y="{foot + _NAME_DROP}" text-anchor="middle">{name}</text>'
            )
    share, words = chart.line
    x = share * WIDTH
    anchor, gap = ("end", -_COUNT_GAP) if share > _LABEL_LEFT_FROM else ("start", _COUNT_GAP)
    elements += [
        f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{_LINE_TOP}" y2="{foot}"/>',
        f'<text x="{x + gap:.1f}" y="{_LINE_LABEL_DROP}" text-anchor="{anchor}">{escape(words)}</text>',
    ]
    descriptions = [f"{label}: {count}" for label, count in chart.values]
    return _svg_element(chart.title, descriptions, foot + _FOOT_HEIGHT, elements)
