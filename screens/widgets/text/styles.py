"""Finds headings, bold words, code, JSON keys and so on in a text. Pure; the text itself is not changed.

Every character stays, also the asterisks of a bold word: so hits and copies are those of the imported text, and a wrong
guess only gives a wrong colour.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from screens.widgets.text.messages import Form

LONGEST = 20_000
"""Characters from the beginning of a text that get styles; what lies beyond is drawn plain."""

LONGEST_CODE = 4_000
"""Characters of a fenced piece of code that is still looked at by its language: that takes the longest by far."""

HEADING, STRONG, EMPHASIS, CODE, QUOTE, MARK = (
    "text--heading",
    "text--strong",
    "text--emphasis",
    "text--code",
    "text--quote",
    "text--mark",
)
KEY, STRING, NUMBER, KEYWORD, COMMENT = (
    "code--key",
    "code--string",
    "code--number",
    "code--keyword",
    "code--comment",
)
STYLES = frozenset(
    {HEADING, STRONG, EMPHASIS, CODE, QUOTE, MARK, KEY, STRING, NUMBER, KEYWORD, COMMENT}
)
"""Component classes of a widget that draws styled text."""

Span = tuple[int, int, str]
"""Start, end and component class; spans are in order and do not overlap."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ ]*([\w+#.-]*)")
_HEADING = re.compile(r" {0,3}#{1,6} .*")
_QUOTED = re.compile(r" {0,3}> ?.*")
_BULLET = re.compile(r" *([-*+]|\d{1,3}[.)]) ")
_INLINE = re.compile(
    r"(?P<code>`[^`\n]{1,500}`)"
    r"|(?P<strong>\*\*(?=\S)[^*\n]{1,500}?(?<=\S)\*\*|(?<!\w)__(?=\S)[^_\n]{1,500}?(?<=\S)__(?!\w))"
    r"|(?P<emphasis>(?<![\w*])\*(?=[^\s*])[^*\n]{1,200}?(?<=[^\s*])\*(?![\w*]))"
)
_INLINE_STYLES = {"code": CODE, "strong": STRONG, "emphasis": EMPHASIS}
_JSON = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")(?P<colon>\s*:)?'
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>\b(?:true|false|null)\b)"
)


def styles(text: str, form: Form) -> list[Span]:
    """The spans of the beginning of a text, in order and without overlaps."""
    text = text[:LONGEST]
    if form == "markdown":
        return list(_markdown(text))
    if form == "json":
        return list(_json(text, 0))
    if form == "call":
        name = text.find(" ", 2)
        return list(_json(text[name:], name)) if name > 0 else []
    return []


def _json(text: str, offset: int) -> Iterator[Span]:
    for found in _JSON.finditer(text):
        start, end = found.span()
        if found["text"] is not None:
            end = found.end("text")
            yield offset + start, offset + end, KEY if found["colon"] is not None else STRING
        else:
            yield offset + start, offset + end, NUMBER if found["number"] else KEYWORD


def _markdown(text: str) -> Iterator[Span]:
    at = 0
    fence, language, code_from = "", "", 0
    for line in text.split("\n"):
        end = at + len(line)
        opened = _FENCE.match(line)
        if fence:
            if opened and line.strip().startswith(fence) and not opened[2]:
                yield from _code(text[code_from:at], code_from, language)
                yield at, end, MARK
                fence = ""
        elif opened:
            fence, language, code_from = opened[1], opened[2], end + 1
            if line:
                yield at, end, MARK
        elif line:
            yield from _line(line, at)
        at = end + 1
    if fence:
        yield from _code(text[code_from:], code_from, language)


def _line(line: str, at: int) -> Iterator[Span]:
    if _HEADING.fullmatch(line):
        yield at, at + len(line), HEADING
        return
    if _QUOTED.fullmatch(line):
        yield at, at + len(line), QUOTE
        return
    bullet = _BULLET.match(line)
    start = 0
    if bullet is not None:
        start = bullet.end()
        yield at + bullet.start(1), at + bullet.end(1), MARK
    for found in _INLINE.finditer(line, start):
        style = _INLINE_STYLES[found.lastgroup or "code"]
        yield at + found.start(), at + found.end(), style


def _code(text: str, offset: int, language: str) -> Iterator[Span]:
    """Spans of a piece of code; all of it is code even where the language says nothing about a word."""
    at = 0
    if len(text) > LONGEST_CODE:
        language = ""
    for length, style in _tokens(text, language):
        if length and style:
            yield offset + at, offset + at + length, style
        at += length


@lru_cache(maxsize=64)
def _tokens(text: str, language: str) -> Sequence[tuple[int, str]]:
    if language.lower() in ("json", "jsonl"):
        return tuple(_gaps(_json(text, 0), len(text)))
    # Imported when there is code to show: it would cost every start.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped] # ships no types
    from pygments.token import (  # type: ignore[import-untyped]
        Comment,
        Keyword,
        Name,
        Number,
        String,
    )
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language.lower()) if language else None
    except ClassNotFound:
        lexer = None
    if lexer is None:
        return ((len(text), CODE),)
    kinds = (
        (Comment, COMMENT),
        (String, STRING),
        (Number, NUMBER),
        (Keyword, KEYWORD),
        (Name.Function, KEY),
        (Name.Class, KEY),
        (Name.Tag, KEY),
        (Name.Attribute, KEY),
    )
    return tuple(
        (len(value), next((style for kind, style in kinds if token in kind), CODE))
        for _, token, value in lexer.get_tokens_unprocessed(text)
    )


def _gaps(found: Iterator[Span], length: int) -> Iterator[tuple[int, str]]:
    at = 0
    for start, end, style in found:
        yield start - at, CODE
        yield end - start, style
        at = end
    yield length - at, CODE


def cut(found: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans between two offsets, counted from the first of them."""
    at = bisect_right(found, start, key=lambda span: span[1])
    pieces = []
    while at < len(found) and found[at][0] < end:
        first, last, style = found[at]
        pieces.append((max(first, start) - start, min(last, end) - start, style))
        at += 1
    return pieces
