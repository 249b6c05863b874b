"""Makes text safe for a terminal, and takes the markup off HTML. The only place where untrusted text becomes
*display-safe*.

Not covered: what a font draws for a valid letter (look-alikes), scripts whose spacing marks terminals draw in widths of
their own, and text that a person copies out, which is copied as imported.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from html.parser import HTMLParser
from typing import Any

# Text that is safe for a terminal

CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
"""Chinese and Japanese characters, as ranges for a character class of a regular expression."""

NAME_LIMIT = 60
"""Most characters of a name or a label on a line with other words: the narrowest terminal has 80 columns."""

LINE_LIMIT = 80
"""Most characters of a text that has most of a line of the narrowest terminal."""

PATH_LIMIT = 120
"""Most characters of a path, or of the beginning of a text, which may take two lines."""

ERROR_LIMIT = 300
"""Most characters of an error or an explanation among other things: about four lines."""

NOTICE_LIMIT = 400
"""Most characters of sentences in a notice or a help: more would cover what they are about."""

MAX_COMBINING_MARKS = 8
"""Combining marks that a letter keeps; no script in use needs more."""

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Matches a character that could act on a terminal or on the order of the text, or that cannot be seen or encoded:
controls, bidirectional and zero-width signs, blank letters, non-characters, lone surrogates, tags."""

_BREAK_IN_NAME = re.compile(r"\n(?! )")
"""Matches a line break that no message has itself."""

_DRAWN_DIFFERENTLY = re.compile(
    "[\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]"  # variation selectors, skin tones
    "|(?<=[\u2190-\U0001faff])\u200d"
    "|[\U0001f1e6-\U0001f1ff]"  # letters of flags
)
"""Matches what terminals draw in different widths: variation selectors, skin tones, the joiner after a sign, and the
letters of which two make a flag."""

_MAYBE_TOO_MANY_MARKS = re.compile(
    "[\u0300-\u1dff\u20d0-\u20ff\u2cef-\u2dff\u302a-\u309a\ua66f-\uabff\ud7b0-\ud7ff\ufb1e\ufe20-\ufe2f"
    f"\U00010000-\U0001ffff]{{{MAX_COMBINING_MARKS + 1}}}"
)
"""Matches so many characters in a row that may be combining marks; a quick first test, which
matches whenever `_marks_pattern` would."""

_FLAG_A = 0x1F1E6
"""Code of the first of the 26 letters of flags."""


def display_safe(text: str) -> str:
    """Returns `text` with every character that could act on a terminal replaced by a visible one.

    C0 controls become their pictures (escape becomes U+241B), DEL U+2421; C1, bidirectional and zero-width controls,
    lone surrogates and non-characters become U+FFFD. Of more than eight combining marks on one letter the first eight
    stay, and U+FFFD replaces the others. Characters that terminals draw differently are simplified: variation
    selectors, skin tones and the joiner between emoji are removed, a flag becomes its two letters. Tab and newline
    stay; a return and a newline become a newline.
    """
    if text.isascii():
        return _UNSAFE.sub(_visible_character, text.replace("\r\n", "\n"))
    text = _DRAWN_DIFFERENTLY.sub(_plain_character, text.replace("\r\n", "\n"))
    text = _UNSAFE.sub(_visible_character, text)
    return _marks_pattern().sub("\\1\ufffd", text) if _MAYBE_TOO_MANY_MARKS.search(text) else text


def message_safe(text: str) -> str:
    """Returns a message, display-safe. A line break in the name of a file, which could forge a line of its own, becomes
    U+240A; the further lines that a message has itself are indented, and stay."""
    return _BREAK_IN_NAME.sub("\u240a", display_safe(text))


def _visible_character(match: re.Match[str]) -> str:
    """Returns the visible character for one that could act."""
    code = ord(match.group())
    if code < 0x20:  # a C0 control, of which the block at 0x2400 has pictures
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def _plain_character(match: re.Match[str]) -> str:
    """Returns A to Z for a letter of flags; nothing for other characters that terminals draw differently."""
    code = ord(match.group())
    return chr(ord("A") + code - _FLAG_A) if _FLAG_A <= code < _FLAG_A + 26 else ""


@cache
def _marks_pattern() -> re.Pattern[str]:
    """Returns a pattern of more combining marks than a letter may have; made once, as it looks at all characters."""
    # first and last code of each range; Korean vowels and final consonants combine too, but are no marks in Unicode
    ranges = [(0x1160, 0x11FF), (0xD7B0, 0xD7FF)]
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code)) in ("Mn", "Me", "Mc"):
            first, last = ranges[-1]
            if code == last + 1:
                ranges[-1] = first, code
            else:
                ranges.append((code, code))
    marks = f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in ranges)}]"
    return re.compile(f"({marks}{{{MAX_COMBINING_MARKS}}}){marks}+")


def as_json(value: Any, indent: int | None = None) -> str:
    """Returns JSON that may be shown on a terminal and written in any encoding of Unicode.

    What could act, or has no encoding (a lone surrogate), is written as an escape; reading gives `value` back exactly.
    """
    return _UNSAFE.sub(_json_escape, json.dumps(value, ensure_ascii=False, indent=indent))


def _json_escape(match: re.Match[str]) -> str:
    """Returns the escape of JSON for a character."""
    return json.dumps(match.group())[1:-1]


# Text of HTML


_HTML = re.compile(
    r"\s*<(?:!doctype html|html|head|body|div|p|span|br|table|ul|ol|h[1-6]|b|i|a|strong|em|font|blockquote|center)"
    r"\b[^<>]*>",
    re.IGNORECASE,
)
"""Matches the beginning of a text that is HTML as a whole, as bodies of mails and tickets are."""

_BLOCK_ELEMENTS = frozenset(
    ("br", "p", "div", "li", "tr", "table", "ul", "ol", "blockquote", "h1", "h2", "h3")
)
"""Elements of HTML that begin a line."""

_HIDDEN_ELEMENTS = frozenset(("style", "script", "head", "title"))
"""Elements of HTML whose text is not shown."""


def without_markup(text: str) -> str:
    """Returns the text of an HTML document or fragment, a line for each block; any other text unchanged."""
    if _HTML.match(text) is None or not text.rstrip().endswith(">"):
        return text
    parser = _TextOfHtml()
    parser.feed(text)
    parser.close()
    lines = ("".join(parser.pieces)).split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines))) or text


class _TextOfHtml(HTMLParser):
    """Collects the text of HTML, a line for each block."""

    def __init__(self) -> None:
        """Has no text yet."""
        super().__init__()
        self.pieces: list[str] = []
        self._hidden_element = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begins a line, or what is not shown."""
        self._hidden_element = self._hidden_element or (tag if tag in _HIDDEN_ELEMENTS else "")
        if tag in _BLOCK_ELEMENTS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """Ends a line, or what is not shown."""
        self._hidden_element = "" if tag == self._hidden_element else self._hidden_element
        if tag in _BLOCK_ELEMENTS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        """Collects a text."""
        if not self._hidden_element:
            self.pieces.append(data)


# Text on one line


def one_line(text: str, limit: int = 200) -> str:
    """Returns the beginning of a text on one line, display-safe, at most `limit` characters."""
    flat = " ".join(text[: limit * 4].split())  # so that a long text is not split whole
    if len(flat) > limit:
        flat = flat[: limit - 1] + "…"
    return display_safe(flat)


def short_name(text: str) -> str:
    """Returns a name, a label or an answer on one line, cut to 40 characters, to stand among other words."""
    return one_line(text, 40)


def whole_words(text: str, limit: int) -> str:
    """Returns the beginning of a text as `one_line` does, cut between words; a first word that is too long is cut."""
    line = one_line(text, limit)
    words = line[:-1].rpartition(" ")[0]
    return f"{words} …" if words and line.endswith("…") and len(line) == limit else line


def middle_cut(text: str, limit: int) -> str:
    """Returns a name on one line, display-safe, at most `limit` characters: its beginning and its end where it is
    longer, since either tells it from others."""
    flat = one_line(text, 1_000)
    if len(flat) <= limit:
        return flat
    end = (limit - 1) // 2
    return f"{flat[: limit - 1 - end]}…{flat[-end:]}"


def end_of_path(path: str, limit: int) -> str:
    """Returns a path on one line, display-safe, at most `limit` characters.

    A longer path keeps its end, which tells it from others: `…/folder/name` from a folder on, or `folder/…name` where
    not even the file name fits.
    """
    flat = " ".join(path.split())
    if len(flat) <= limit:
        return display_safe(flat)
    end = flat[1 - limit :]
    if "/" in end:
        return display_safe(f"…{end[end.find('/') :]}")
    # the same file name in several folders is usual, so the folder is named too
    path_of_folder, _, _ = flat.rpartition("/")
    _, _, folder = path_of_folder.rpartition("/")
    folder = folder[: limit // 3]
    return display_safe(f"{folder}/…{flat[len(folder) + 2 - limit :]}" if folder else f"…{end}")
