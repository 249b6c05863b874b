"""The index of texts in scripts without spaces between words: each sign is a word of its own there.

The main index takes a run of such signs for one word, so that the name of a dish inside a sentence would not be found.
Here a search for `音乐` is one for the phrase of its two signs. Only messages with such signs are in it.

Not covered: other scripts without spaces (Thai, Lao, Khmer, Burmese), where a word is found at the beginning of a run
only, and variants of one sign (simplified and traditional, full and half width), which are different signs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator

from engine.text import SIGNS

INDEX = "message_fts_signs"

_SIGN = re.compile(f"[{SIGNS}]")
_INSERT = f"INSERT INTO {INDEX} (rowid, content, tool_calls) VALUES (?, ?, ?)"

Text = tuple[int, str, str | None]
"""Id, content and tool calls of a message."""


def create(conn: sqlite3.Connection) -> None:
    """Makes the index, empty and without a copy of the texts."""
    conn.execute(f"CREATE VIRTUAL TABLE {INDEX} USING fts5 (content, tool_calls, content = '')")


def fill(conn: sqlite3.Connection) -> None:
    """Adds all messages of the project to an empty index."""
    add(conn, conn.execute("SELECT id, content, tool_calls FROM message"))


def add(conn: sqlite3.Connection, texts: Iterable[Text]) -> None:
    """Adds those of some messages that have such signs."""
    conn.executemany(_INSERT, _with_signs(texts))


def has_signs(text: str) -> bool:
    """Whether a sign of a script without spaces is in the text."""
    return not text.isascii() and _SIGN.search(text) is not None


def spaced(text: str) -> str:
    """The text with a space on both sides of each such sign."""
    return _SIGN.sub(r" \g<0> ", text)


def _with_signs(texts: Iterable[Text]) -> Iterator[Text]:
    for key, content, calls in texts:
        if has_signs(content) or (calls and has_signs(calls)):
            yield key, spaced(content), spaced(calls) if calls else None
