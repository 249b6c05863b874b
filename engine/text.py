"""Text made safe for a terminal. The only place where untrusted text becomes displayable.

Not covered: what a font draws for a valid letter (look-alikes), and text that a person copies out, which
is copied as imported.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_COMBINING = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_COMBINING_FLOOD = re.compile(f"({_COMBINING}{{4}}){_COMBINING}+")
_EMOJI_GLUE = re.compile("[\ufe00-\ufe0f]|(?<=[\u2190-\U0001faff])\u200d")


def display_safe(text: str) -> str:
    """Returns `text` with every character that could act on a terminal replaced by a visible one.

    C0 controls become their pictures (U+2400 block), DEL U+2421; C1, bidirectional and zero-width controls and
    lone surrogates become U+FFFD; floods of combining marks keep their first four. Variation selectors and the
    joiner between emoji are dropped, because terminals disagree about their width. Tab and newline stay.
    """
    text = _EMOJI_GLUE.sub("", text.replace("\r\n", "\n"))
    return _COMBINING_FLOOD.sub(r"\1", _UNSAFE.sub(_picture, text))


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def one_line(text: str, limit: int = 200) -> str:
    """The beginning of `text` on one line, display-safe, at most `limit` characters."""
    flat = " ".join(text[: limit * 4].split())
    if len(flat) > limit:
        flat = flat[: limit - 1] + "…"
    return display_safe(flat)
