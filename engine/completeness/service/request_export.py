"""Requests as an export: a conversation of its own for each, so that a project of requests can be made of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.base.conversation import Conversation
from engine.completeness.request_view import requests_of
from engine.conversations.tables import conversations
from engine.project.sql import id_pages

_PAGE = 200


def request_conversations(
    conn: sqlite3.Connection, wanted: Sequence[int] | None
) -> Iterator[tuple[Conversation, str, dict[str, Any]]]:
    """Yields each request as a conversation without truth, named `ID#NUMBER`, with the label of its source, and what
    the project knows of it: whose request it is, its completeness and goal."""
    for page in id_pages(conn, wanted, _PAGE):
        found = dict(requests_of(conn, page))
        for key, source, whole in conversations.export_conversations(conn, page):
            for one in found.get(key, ()):
                part = replace(
                    whole,
                    external_id=f"{whole.external_id}#{one.number}",
                    messages=whole.messages[one.first : one.last + 1],
                    truth=None,
                )
                known = {
                    "conversation": whole.external_id,
                    "request": one.number,
                    "requests": len(found[key]),
                    "goal": one.goal,
                    "p": one.p,
                    "state": one.state,
                }
                yield part, source, known
