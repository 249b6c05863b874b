"""Reads the conversations of a project for training: the text of their logs, never their ground truth."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from engine.base.conversation import render_log
from engine.completeness.block import LogItem, log_item
from engine.completeness.training_data import Usable, text_digest
from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import names
from engine.project.sql import id_pages

AT_ONCE = 200
"""Conversations in memory at once."""


def usable(conn: sqlite3.Connection, wanted: Sequence[int]) -> Iterator[list[Usable]]:
    """Yields those of these conversations that can be trained on (that have a boundary), in lists that may be empty."""
    for page in id_pages(conn, wanted, AT_ONCE):
        external_ids = names(conn, page)
        found = []
        for key, messages in conversations.conversations_for(conn, page):
            item = log_item(render_log(messages))
            if item.boundaries:
                found.append(
                    Usable(
                        key,
                        external_ids[key],
                        text_digest(item.texts),
                        len(item.boundaries),
                        sum(map(len, item.texts)),
                    )
                )
        yield found


def items(conn: sqlite3.Connection, wanted: Sequence[int]) -> Iterator[tuple[int, LogItem]]:
    """Yields (id, log) of these conversations, in order of id."""
    for page in id_pages(conn, sorted(wanted), AT_ONCE):
        for key, messages in conversations.conversations_for(conn, page):
            yield key, log_item(render_log(messages))
