"""Documents as HTML and Markdown, and written into files of these forms."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from engine.base.errors import ProjectError, UsageError
from engine.base.line_files import written_beside
from engine.base.report_table import ReportTable, format_cell, text_table
from engine.base.text import display_safe
from engine.conversations.text_checks import Kind, Redactor
from engine.results import svg
from engine.results.document import (
    Bars,
    Block,
    Columns,
    Document,
    Paragraph,
    Plot,
    Quote,
    Ranges,
    Section,
)

_STYLE = (Path(__file__).parent / "report.css").read_text("utf-8").strip()
"""The style sheet of every HTML report."""

_MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~])")
"""Matches a sign that Markdown would read as formatting."""

_CODE_SPAN = re.compile("`([^`]+)`")
"""Matches text between backticks, e.g. `workbench list`, which becomes code in HTML as in Markdown."""


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """What was written of a document.

    Attributes:
        bytes: Size of the file.
        redacted: Number of different pieces of personal data that were replaced, by kind.
    """

    bytes: int
    redacted: Mapping[Kind, int]


def check_place(path: Path, *, force: bool) -> None:
    """Checks that a document can be written under this name.

    Args:
        force: Whether a file that is there already may be written over.

    Raises:
        UsageError: The name has an ending that stands for no form.
        ProjectError: The file is there already.
    """
    if path.suffix.lower() not in _FORMS:
        raise UsageError(
            f"A report cannot be written as {path.name}.", "Name a file.html or a file.md."
        )
    if os.path.exists(path) and not force:
        raise ProjectError(
            f"{path} is there already.", "Choose another name, or add --force to write over it."
        )


def write_document(document: Document, path: Path, *, redact: bool = False) -> WrittenDocument:
    """Writes a document in the form that the ending of the name says, completely or not at all, over a file that is
    there already.

    Args:
        redact: Whether personal data is replaced.

    Raises:
        ProjectError: The file cannot be written.
    """
    # A person may print the file on a terminal, which would obey control characters.
    document = document.mapped(display_safe)
    redactor = Redactor()
    if redact:
        document = document.mapped(redactor.text)
    text = _FORMS[path.suffix.lower()](document)
    with written_beside(path) as part:
        part.write_text(text, encoding="utf-8")
    return WrittenDocument(path.stat().st_size, redactor.counts)


# HTML: no script, nothing from elsewhere; readable on a telephone and on paper


def to_html(document: Document) -> str:
    """Returns the document as the text of one HTML file."""
    contents = "".join(
        f'<li><a href="#s{number}">{escape(section.title)}</a></li>'
        for number, section in enumerate(document.sections)
    )
    section_ids = {section.title: f"s{number}" for number, section in enumerate(document.sections)}
    sections = [_html_section(section, section_ids) for section in document.sections]
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


def _html_section(section: Section, section_ids: Mapping[str, str]) -> str:
    """Returns a section as HTML.

    Args:
        section_ids: Id of the HTML element of each section by its title; the contents and quotes link to it.
    """
    blocks = "\n".join(_html_block(block, section_ids) for block in section.blocks)
    heading = f"<h2>{escape(section.title)}</h2>"
    if section.folded:
        blocks = f"<details>\n<summary>{heading}</summary>\n{blocks}\n</details>"
    else:
        blocks = f"{heading}\n{blocks}"
    return f'<section id="{section_ids[section.title]}">\n{blocks}\n</section>'


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
    caption = block.title
    if isinstance(block, Plot) and not block.lines:  # one with lines has their names in the picture
        caption = f"{block.title}. {block.description}"
    return f"<figure>{svg.svg_element(block)}<figcaption>{escape(caption)}</figcaption></figure>"


def _html_table(table: ReportTable) -> str:
    """Returns a table with its title as caption; the first cell of each row is the heading of the row."""
    kinds = ["" if column.kind == "text" else ' class="number"' for column in table.columns]
    head = "".join(
        f'<th scope="col"{kind}>{escape(column.title)}</th>'
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(
            f"<td{kind}>{_html_cell(cell, faint=index in row.faint)}</td>"
            for index, (kind, cell) in enumerate(zip(kinds[1:], cells, strict=True), 1)
        )
        + "</tr>"
        for row, (name, *cells) in zip(table.rows, _cell_texts(table), strict=True)
    )
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _html_cell(text: str, *, faint: bool) -> str:
    """Returns the text of a cell as HTML."""
    return f'<span class="faint">{escape(text)}</span>' if faint else escape(text)


def _cell_texts(table: ReportTable) -> list[list[str]]:
    """Returns the cells of each row as texts."""
    kinds = [column.kind for column in table.columns]
    return [
        [format_cell(kind, cell) for kind, cell in zip(kinds, row.cells, strict=True)]
        for row in table.rows
    ]


# Markdown: charts become tables, or a sentence where the figures are in a table anyway


def to_markdown(document: Document) -> str:
    """Returns the document as the text of a Markdown file."""
    lines = [f"# {_markdown(document.title)}", "", _markdown(document.subtitle), ""]
    for section in document.sections:
        lines += [f"## {_markdown(section.title)}", ""]
        for block in section.blocks:
            if block_lines := _markdown_block(block):
                lines += [*block_lines, ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_block(block: Block) -> list[str]:
    """Returns a block as lines of Markdown; none for a chart whose figures are in the table before it."""
    if isinstance(block, Paragraph):
        text = _markdown(block.text)
        return [f"**{text}**" if block.important else text]
    if isinstance(block, Quote):
        messages = [
            f"> **{_markdown(speaker)}:** {_markdown(text)}" for speaker, text in block.messages
        ]
        lines = [line for message in messages for line in (message, ">")]
        return [*lines, f"> {_markdown(block.source)}"]
    if isinstance(block, ReportTable):
        return _markdown_table(block)
    if isinstance(block, Bars):
        rows = tuple((bar.label, bar.text) for bar in block.values)
        return _markdown_table(text_table(block.title, ("", ""), rows, (1,)))
    if isinstance(block, Columns):
        rows = tuple((label, f"{count:,}") for label, count in block.values)
        return _markdown_table(text_table(block.title, ("", block.of), rows, (1,)))
    if isinstance(block, Ranges):
        return []  # its figures are in the table before it
    # Plots and points have a picture in HTML alone; here words stand for it.
    description = block.description if isinstance(block, Plot) else "; ".join(svg.key_of(block))
    return [
        f"{_markdown(block.title)} (the picture is in the HTML report): {_markdown(description)}"
    ]


def _markdown_table(table: ReportTable) -> list[str]:
    """Returns a table as lines of Markdown, with its title above it."""
    titles = [column.title for column in table.columns]
    rule = ["---" if column.kind == "text" else "--:" for column in table.columns]
    head, *rows = (
        f"| {' | '.join(map(_markdown, row))} |" for row in (titles, *_cell_texts(table))
    )
    return [_markdown(table.title), "", head, f"| {' | '.join(rule)} |", *rows]


def _markdown(text: str) -> str:
    """Returns the text on one line, with the signs of Markdown made harmless."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


_FORMS = {".html": to_html, ".htm": to_html, ".md": to_markdown}
"""How a document is written, by the ending of the file's name."""
