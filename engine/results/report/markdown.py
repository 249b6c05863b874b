"""A report as Markdown; charts become tables, or a sentence where the figures are in a table anyway."""

from __future__ import annotations

import re

from engine.results.report.charts import key_of
from engine.results.report.document import (
    Bars,
    Block,
    Columns,
    Document,
    Paragraph,
    Plot,
    Points,
    Quote,
    Ranges,
    Table,
)

_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~])")


def to_markdown(document: Document) -> str:
    """The document as the text of a Markdown file."""
    lines = [f"# {_safe(document.title)}", "", _safe(document.subtitle), ""]
    for section in document.sections:
        lines += [f"## {_safe(section.title)}", ""]
        for block in section.blocks:
            if told := _block(block):
                lines += [*told, ""]
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        text = _safe(block.text)
        return [f"**{text}**" if block.important else text]
    if isinstance(block, Quote):
        said = [f"> **{_safe(who)}:** {_safe(text)}" for who, text in block.messages]
        return [line for one in said for line in (one, ">")] + [f"> {_safe(block.source)}"]
    if isinstance(block, Table):
        return _table(block.caption, block.columns, block.rows, block.numbers)
    if isinstance(block, Bars):
        rows = tuple((label, text) for label, _, text in block.values)
        return _table(block.title, ("", ""), rows, frozenset((1,)))
    if isinstance(block, Columns):
        counted = tuple((label, f"{count:,}") for label, count in block.values)
        return _table(block.title, ("", block.of), counted, frozenset((1,)))
    if isinstance(block, Ranges):
        return []  # its figures are in the table before it
    if isinstance(block, Plot):
        return [f"{_safe(block.title)} (the picture is in the HTML report): {_safe(block.says)}"]
    return _points(block)


def _points(chart: Points) -> list[str]:
    return [
        f"{_safe(chart.title)} (the picture is in the HTML report): {_safe('; '.join(key_of(chart)))}"
    ]


def _table(
    caption: str,
    columns: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    numbers: frozenset[int],
) -> list[str]:
    rule = ["--:" if at in numbers else "---" for at in range(len(columns))]
    return [
        _safe(caption),
        "",
        *(f"| {' | '.join(map(_safe, row))} |" for row in (columns,)),
        f"| {' | '.join(rule)} |",
        *(f"| {' | '.join(map(_safe, row))} |" for row in rows),
    ]


def _safe(text: str) -> str:
    """The text on one line, with the signs of Markdown made harmless."""
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))
