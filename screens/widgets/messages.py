"""The texts that are shown of a message: laid out, styled, broken into the lines of a terminal.

A message has parts (`Part`): reasoning, content, tool calls. `safe_text` makes the text of a part display-safe;
`styles` finds the spans of it that are drawn otherwise; `break_lines` says where its lines begin and end. Offsets are
characters of the display-safe text, widths are cells of the terminal.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from rich.cells import get_character_cell_size

from engine.base.conversation import ToolCall
from engine.base.text import MAX_COMBINING_MARKS, display_safe
from engine.conversations.records import MessageRow

Form = Literal["plain", "markdown", "json", "call"]
"""What kind of text something is, for its styles; `call` is the name of a tool, then its arguments as JSON."""

REASONING = "reasoning: "
"""Stands before what the assistant thought."""

MAX_LINE_CHARACTERS = 60
"""Most characters of a list or object that is laid out on one line, if every inner one is, too."""
MAX_JSON_CHARACTERS = 100_000
"""Characters of a text that is still parsed; a longer one is shown unchanged."""
INDENT = 2
"""Cells by which the lines of an inner list or object are indented."""
MAX_JSON_DEPTH = 40
"""Most levels of lists and objects in one another; a text with more levels is shown unchanged."""

MAX_STYLED_CHARACTERS = 20_000
"""Characters from the beginning of a text that get styles; what lies beyond is drawn plain."""
MAX_CODE_CHARACTERS = 4_000
"""Most characters of a fenced piece of code that is styled by its language, which takes the longest by far."""

HEADING, STRONG, EMPHASIS, CODE, QUOTE, MARK = (
    "text--heading",
    "text--strong",
    "text--emphasis",
    "text--code",
    "text--quote",
    "text--mark",
)
"""Component classes of Markdown; a mark is a bullet or a fence."""
KEY, STRING, NUMBER, KEYWORD, COMMENT = (
    "code--key",
    "code--string",
    "code--number",
    "code--keyword",
    "code--comment",
)
"""Component classes of code and JSON."""
STYLES = frozenset(
    {HEADING, STRONG, EMPHASIS, CODE, QUOTE, MARK, KEY, STRING, NUMBER, KEYWORD, COMMENT}
)
"""Component classes of a widget that draws styled text."""

Span = tuple[int, int, str]
"""Start, end and component class; spans are in order and do not overlap."""

_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ ]*(?P<language>[\w+#.-]*)")
"""A line that opens or closes code: the fence, and the language that may follow it (```` ```python ````)."""
_HEADING = re.compile(r" {0,3}#{1,6} .*")
"""Matches `## A heading`, a whole line."""
_QUOTED = re.compile(r" {0,3}> ?.*")
"""Matches `> a quotation`, a whole line."""
_BULLET = re.compile(r" *([-*+]|\d{1,3}[.)]) ")
"""The beginning of an item of a list, `- ` or `12. `; the group is its mark."""
_INLINE = re.compile(
    r"(?P<code>`[^`\n]{1,500}`)"
    r"|(?P<strong>\*\*(?=\S)[^*\n]{1,500}?(?<=\S)\*\*|(?<!\w)__(?=\S)[^_\n]{1,500}?(?<=\S)__(?!\w))"
    r"|(?P<emphasis>(?<![\w*])\*(?=[^\s*])[^*\n]{1,200}?(?<=[^\s*])\*(?![\w*]))"
)
"""`` `code` ``, `**strong**` or `__strong__`, `*emphasis*`, each within one line.

What is marked begins and ends without a space, so that `2 * 3 * 4` is none; underscores and single asterisks stand at
the edge of a word, as in `snake__case__name` they do not. The lengths are bounded for speed.
"""
_INLINE_STYLES = {"code": CODE, "strong": STRONG, "emphasis": EMPHASIS}
"""Component classes, by the groups of `_INLINE`."""
_JSON = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")(?P<colon>\s*:)?'
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>\b(?:true|false|null)\b)"
)
"""A text of JSON with the colon that makes it a key (`"name":`), a number (`-1.5e3`), or a constant (`true`).

It finds them also in JSON that is broken; a text with escaped quotes is one text.
"""

TAB = 4
"""Cells of a tab."""
PIECE_CHARACTERS = 1 << 16
"""Characters made safe in one go: no more, because a regular expression keeps every other thread waiting."""


@dataclass(frozen=True, slots=True)
class Part:
    """The reasoning of a message, its content, or one of its tool calls.

    Attributes:
        text: The text, not yet display-safe: offsets refer to `safe_text(text)`.
        form: What kind of text it is, for its styles.
        call: Whether it is a tool call.
        packed: The text as imported, where `text` is laid out; it has more in few lines.
        reasoning: Whether it is what the assistant thought, which no model reads.
    """

    text: str
    form: Form
    call: bool = False
    packed: str | None = None
    reasoning: bool = False


def message_parts(message: MessageRow, *, raw: bool) -> list[Part]:
    """Returns the reasoning and the content, unless they are blank, then the tool calls in order.

    Args:
        raw: Whether everything is left as imported.
    """
    parts = []
    if message.reasoning and message.reasoning.strip():
        parts.append(Part(f"{REASONING}{message.reasoning.strip()}", "plain", reasoning=True))
    if message.content.strip():
        parts.append(content_part(message, raw=raw))
    parts += [call_part(call, raw=raw) for call in message.tool_calls]
    return parts


def content_part(message: MessageRow, *, raw: bool) -> Part:
    """Returns the content of a message; `raw` as in `message_parts`."""
    content = message.content.rstrip("\n")
    if raw:
        return Part(content, "plain")
    # The first test saves the copy that `lstrip` makes of a long text.
    if content[:1] in "{[ \n\t" and content.lstrip()[:1] in ("{", "["):
        laid_out = pretty_json(content)
        if laid_out is not None:
            return Part(laid_out, "json", packed=content)
        # Broken or too long JSON still gets the styles of JSON, if it begins like it.
        if content.lstrip()[:2] in ('{"', '["', "[{", "[["):
            return Part(content, "json")
    return Part(content, "markdown" if message.role in ("user", "assistant") else "plain")


def call_part(call: ToolCall, *, raw: bool) -> Part:
    """Returns a tool call, its name and its arguments; `raw` as in `message_parts`."""
    packed = f"→ {call.name} {call.arguments}"
    if raw:
        return Part(packed, "plain", call=True)
    laid_out = pretty_json(call.arguments)
    if laid_out is None:
        return Part(packed, "call", call=True)
    return Part(f"→ {call.name} {laid_out}", "call", call=True, packed=packed)


def part_texts(message: MessageRow, *, raw: bool) -> list[str]:
    """Returns the texts of the parts as they are drawn, whole; `raw` as in `message_parts`."""
    return [safe_text(part.text) for part in message_parts(message, raw=raw)]


class _Written(str):
    """A number or constant of JSON as it was written."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object of JSON, with repeated keys."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Written, parse_int=_Written, parse_constant=_Written
)
"""Decodes JSON so that it can be written again as it was."""

_IndentedLines = list[tuple[int, str]]
"""The level of indentation and the text of each line."""

_quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""Returns a text as JSON, in quotes, letters as they are."""


def pretty_json(text: str) -> str | None:
    """Returns JSON laid out for reading; None when it is no list or object, or is too long or too deep.

    Numbers stay as they were written, keys keep their order and repetitions; escaped letters are shown as letters.
    """
    stripped = text.strip()
    if len(text) > MAX_JSON_CHARACTERS or stripped[:1] not in ("{", "["):
        return None
    try:
        lines = _json_lines(_DECODER.decode(stripped), 0)
    except (ValueError, RecursionError):
        return None
    return "\n".join(" " * (INDENT * depth) + line for depth, line in lines)


def _json_lines(value: Any, level: int) -> _IndentedLines:
    """Returns the lines of a value that is in `level` lists and objects, indented from its own first line.

    Raises:
        ValueError: The value has more levels than `MAX_JSON_DEPTH`.
    """
    if level > MAX_JSON_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, _Pairs):
        entries = []
        for key, inner in value:
            # The key goes before the first line of its value.
            (_, first_line), *further_lines = _json_lines(inner, level + 1)
            entries.append([(0, f"{_quoted(key)}: {first_line}"), *further_lines])
        return _bracketed("{", entries, "}")
    if isinstance(value, list):
        return _bracketed("[", [_json_lines(inner, level + 1) for inner in value], "]")
    if isinstance(value, str) and not isinstance(value, _Written):
        return [(0, _quoted(value))]
    return [(0, _constant(value))]


def _bracketed(opening: str, entries: list[_IndentedLines], closing: str) -> _IndentedLines:
    """Returns the lines of a list or object from those of its entries; a single line where that is short."""
    if all(len(entry) == 1 for entry in entries):
        line = opening + ", ".join(text for ((_, text),) in entries) + closing
        if len(line) <= MAX_LINE_CHARACTERS:
            return [(0, line)]
    lines = [(0, opening)]
    for number, entry in enumerate(entries, 1):
        lines += [(depth + 1, text) for depth, text in entry]
        if number < len(entries):
            depth, text = lines[-1]
            lines[-1] = (depth, text + ",")
    return [*lines, (0, closing)]


def _constant(value: Any) -> str:
    """Returns a constant or number as JSON. Numbers are `_Written`, so that 1 is not taken for True."""
    return {True: "true", False: "false", None: "null"}.get(value, str(value))


def styles(text: str, form: Form) -> list[Span]:
    """Returns the spans of the beginning of a text, in order and without overlaps: headings, bold words, code, keys.

    The text itself is not changed, and the asterisks of a bold word stay: so hits and copies are those of the imported
    text, and a wrong guess is only a wrong color.
    """
    text = text[:MAX_STYLED_CHARACTERS]
    if form == "markdown":
        return list(_markdown(text))
    if form == "json":
        return list(_json(text, 0))
    if form == "call":
        arguments_start = text.find(" ", len("→ "))
        if arguments_start < 0:
            return []
        return list(_json(text[arguments_start:], arguments_start))
    return []


def _json(text: str, offset: int) -> Iterator[Span]:
    """Yields the spans of keys, texts, numbers and constants of JSON; the text begins at `offset` of a larger one."""
    for match in _JSON.finditer(text):
        start, end = match.span()
        if match["text"] is not None:
            end = match.end("text")
            yield offset + start, offset + end, KEY if match["colon"] is not None else STRING
        else:
            yield offset + start, offset + end, NUMBER if match["number"] else KEYWORD


def _markdown(text: str) -> Iterator[Span]:
    """Yields the spans of Markdown: those of its lines, and those of fenced code by its language."""
    start = 0
    fence, language, code_from = "", "", 0
    for line in text.split("\n"):
        end = start + len(line)
        fence_match = _FENCE.match(line)
        if fence:
            # A fence closes code if it is at least as long as the one that opened it, and names no language.
            if fence_match and line.strip().startswith(fence) and not fence_match["language"]:
                yield from _code(text[code_from:start], code_from, language)
                yield start, end, MARK
                fence = ""
        elif fence_match:
            fence, language = fence_match["fence"], fence_match["language"]
            code_from = end + 1
            yield start, end, MARK
        elif line:
            yield from _markdown_line(line, start)
        start = end + 1
    if fence:  # that never closes
        yield from _code(text[code_from:], code_from, language)


def _markdown_line(line: str, offset: int) -> Iterator[Span]:
    """Yields the spans of one line of Markdown outside of code, which begins at `offset`."""
    if _HEADING.fullmatch(line):
        yield offset, offset + len(line), HEADING
        return
    if _QUOTED.fullmatch(line):
        yield offset, offset + len(line), QUOTE
        return
    bullet = _BULLET.match(line)
    text_start = 0
    if bullet is not None:
        text_start = bullet.end()
        yield offset + bullet.start(1), offset + bullet.end(1), MARK
    for match in _INLINE.finditer(line, text_start):
        style = _INLINE_STYLES[match.lastgroup or "code"]
        yield offset + match.start(), offset + match.end(), style


def _code(text: str, offset: int, language: str) -> Iterator[Span]:
    """Yields the spans of a piece of code, which begins at `offset` of the text; together they cover all of it."""
    offset_in_code = 0
    if len(text) > MAX_CODE_CHARACTERS:
        language = ""
    for length, style in _tokens(text, language):
        if length:
            yield offset + offset_in_code, offset + offset_in_code + length, style
        offset_in_code += length


@lru_cache(maxsize=64)
def _tokens(text: str, language: str) -> Sequence[tuple[int, str]]:
    """Returns length and style of each token of a piece of code."""
    if language.lower() in ("json", "jsonl"):
        return tuple(_with_gaps_as_code(_json(text, 0), len(text)))
    # Imported when there is code to show: it would cost every start.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped] # ships no types
    from pygments.token import Comment, Keyword, Name, Number, String  # type: ignore[import-untyped]
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


def _with_gaps_as_code(spans: Iterator[Span], length: int) -> Iterator[tuple[int, str]]:
    """Yields length and style of each span, and of what lies between them."""
    offset = 0
    for start, end, style in spans:
        yield start - offset, CODE
        yield end - start, style
        offset = end
    yield length - offset, CODE


def spans_between(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Returns the spans between two offsets, counted from the first of them."""
    # The first span that ends after `start`.
    index = bisect_right(spans, start, key=lambda span: span[1])
    pieces = []
    while index < len(spans):
        span_start, span_end, style = spans[index]
        if span_start >= end:
            break
        pieces.append((max(span_start, start) - start, min(span_end, end) - start, style))
        index += 1
    return pieces


def safe_text(text: str) -> str:
    """Returns untrusted text of any length as display-safe text without tabs, for `break_lines`."""
    if len(text) <= PIECE_CHARACTERS:
        safe = display_safe(text)
    else:
        safe = "".join(
            display_safe(text[start : start + PIECE_CHARACTERS])
            for start in range(0, len(text), PIECE_CHARACTERS)
        )
    return safe.expandtabs(TAB) if "\t" in safe else safe


@dataclass(frozen=True, slots=True)
class LineBounds:
    """The offsets at which the lines of a text begin and end, in arrays, because a text may have a million lines."""

    starts: array[int]
    ends: array[int]

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, count: int) -> LineBounds:
        """Returns the first `count` lines."""
        return LineBounds(self.starts[:count], self.ends[:count])

    def at(self, offset: int) -> int:
        """Returns the index of the line with the character at an offset, or before a space that is in no line."""
        return max(0, bisect_right(self.starts, offset) - 1)


def wrap(text: str, width: int) -> list[str]:
    """Returns lines of at most `width` cells, broken at spaces where there are any; indentation is kept.

    The text must be display-safe already. An empty text is one empty line.
    """
    text = text.expandtabs(TAB) if "\t" in text else text
    lines = break_lines(text, width)
    return [text[start:end] for start, end in zip(lines.starts, lines.ends, strict=True)]


def break_lines(text: str, width: int) -> LineBounds:
    """Returns where the lines of `wrap` begin and end in `text`, which has no tabs; there is at least one line."""
    width = max(width, 2)
    lines = LineBounds(array("q"), array("q"))
    ascii_only = text.isascii()
    start = 0
    for line in text.split("\n"):
        length = len(line)
        if length <= width and (ascii_only or line.isascii()):
            lines.starts.append(start)
            lines.ends.append(start + length)
        else:
            _break_long_line(line, start, width, lines)
        start += length + 1
    return lines


def _break_long_line(line: str, offset: int, width: int, lines: LineBounds) -> None:
    """Breaks one long line, which begins at `offset` of the whole text, and adds its lines to `lines`."""
    start, length = 0, len(line)
    while start < length:
        end = _fit(line, start, width)
        if end >= length:
            break
        # A space at `start` would leave an empty line; the one at `end` need not fit, for it is left out.
        space = line.rfind(" ", start + 1, end + 1)
        lines.starts.append(offset + start)
        # No break in the indentation: a line of spaces alone would come first.
        if space > start and line[start:space].strip():
            lines.ends.append(offset + space)
            start = space + 1
        else:
            lines.ends.append(offset + end)
            start = end
    lines.starts.append(offset + start)
    lines.ends.append(offset + length)


def _fit(line: str, start: int, width: int) -> int:
    """Returns the end of the longest piece of a line from `start` that has at most `width` cells."""
    piece = line[start : start + width]
    if piece.isascii():
        return start + len(piece)
    cells = 0
    end = start
    # More characters than a cell and its combining marks have cannot be needed for `width` cells.
    most_characters = (2 + MAX_COMBINING_MARKS) * width
    for character in line[start : start + most_characters]:
        cells += get_character_cell_size(character)
        if cells > width:
            break
        end += 1
    return max(end, start + 1)
