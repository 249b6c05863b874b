"""A report as one HTML file: no script, nothing from elsewhere; readable on a telephone and on paper."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from engine.results.report import charts
from engine.results.report.document import (
    Bars,
    Block,
    Columns,
    Document,
    Paragraph,
    Plot,
    Quote,
    Ranges,
    Section,
    Table,
)

_STYLE = (Path(__file__).parent / "report.css").read_text("utf-8").strip()


def to_html(document: Document) -> str:
    """The document as the text of an HTML file."""
    contents = "".join(
        f'<li><a href="#s{at}">{escape(one.title)}</a></li>'
        for at, one in enumerate(document.sections)
    )
    body = "\n".join(_section(at, one) for at, one in enumerate(document.sections))
    title = escape(document.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
        f'<p class="subtitle">{escape(document.subtitle)}</p>\n</header>\n'
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def _section(at: int, section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f'<section id="s{at}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _with_commands(text: str) -> str:
    """A sentence as HTML; what is between backticks becomes code, as in Markdown."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        kind = ' class="important"' if block.important else ""
        return f"<p{kind}>{_with_commands(block.text)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Quote):
        said = "".join(
            f"<p><strong>{escape(who)}:</strong> {escape(text)}</p>" for who, text in block.messages
        )
        return f"<blockquote>{said}<p><cite>{escape(block.source)}</cite></p></blockquote>"
    if isinstance(block, Bars):
        return _figure(block.title, charts.bars(block))
    if isinstance(block, Columns):
        return _figure(block.title, charts.columns(block))
    if isinstance(block, Ranges):
        return _figure(block.title, charts.ranges(block))
    if isinstance(block, Plot):
        # a plot with lines has their names in the picture
        caption = block.title if block.lines else f"{block.title}. {block.says}"
        return _figure(caption, charts.plot(block))
    key = " · ".join(charts.key_of(block))
    return _figure(f"{block.title}. {key}", charts.points(block))


def _figure(caption: str, svg: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    def cells(row: tuple[str, ...], tag: str) -> str:
        found = []
        for at, cell in enumerate(row):
            kind = ' class="number"' if at in table.numbers else ""
            if tag == "th":
                found.append(f'<th scope="col"{kind}>{escape(cell)}</th>')
            elif at == 0:
                found.append(f'<th scope="row">{escape(cell)}</th>')
            else:
                found.append(f"<td{kind}>{escape(cell)}</td>")
        return f"<tr>{''.join(found)}</tr>"

    head = cells(table.columns, "th")
    rows = "\n".join(cells(row, "td") for row in table.rows)
    return (
        f'<div class="wide"><table><caption>{escape(table.caption)}</caption>\n<thead>{head}</thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )
