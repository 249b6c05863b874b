"""Full-text index of Chinese and Japanese text, which has no spaces between words: each character is one word.

The main index reads a run of such characters as one word, so a word inside a sentence is not found in it. Here a search
for `音乐` looks for the phrase of its two characters. Only messages with such characters are in this index.

Not covered: other scripts without spaces (Thai, Lao, Khmer, Burmese), where a word is found at the beginning of a run
only, and variants of one character (simplified and traditional, full and half width), which count as different.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator

from engine.base.text import CJK

INDEX = "message_fts_signs"

_CJK = re.compile(f"[{CJK}]")
"""Matches one Chinese or Japanese character."""

Text = tuple[int, str, str | None]
"""Id, content and tool calls of a message."""


def create(conn: sqlite3.Connection) -> None:
    """Makes the index, empty and without a copy of the texts."""
    conn.execute(f"CREATE VIRTUAL TABLE {INDEX} USING fts5 (content, tool_calls, content = '')")


def fill(conn: sqlite3.Connection) -> None:
    """Adds all messages of the project to an empty index."""
    add(conn, conn.execute("SELECT id, content, tool_calls FROM message"))


def add(conn: sqlite3.Connection, texts: Iterable[Text]) -> None:
    """Adds those of the messages that contain Chinese or Japanese characters."""
    conn.executemany(
        f"INSERT INTO {INDEX} (rowid, content, tool_calls) VALUES (?, ?, ?)", _with_cjk(texts)
    )


def remove(conn: sqlite3.Connection, texts: Iterable[Text]) -> None:
    """Takes messages out of the index; their texts are those that were added."""
    conn.executemany(
        f"INSERT INTO {INDEX} ({INDEX}, rowid, content, tool_calls) VALUES ('delete', ?, ?, ?)",
        _with_cjk(texts),
    )


def has_cjk(text: str) -> bool:
    """Returns whether the text contains a Chinese or Japanese character."""
    return not text.isascii() and _CJK.search(text) is not None


def spaced(text: str) -> str:
    """Returns the text with a space on both sides of each Chinese or Japanese character."""
    return _CJK.sub(r" \g<0> ", text)


def _with_cjk(texts: Iterable[Text]) -> Iterator[Text]:
    """Yields those of the messages that contain such characters, spaced."""
    for key, content, calls in texts:
        if has_cjk(content) or (calls and has_cjk(calls)):
            yield key, spaced(content), spaced(calls) if calls else None
