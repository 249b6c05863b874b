"""Logs with a record for each message: rows with role and content that name their conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.conversation import Conversation
from engine.formats.framing import Frame
from engine.formats.json_values import as_object
from engine.formats.normalise import created_at, looks_like_message, read_messages, record_id
from engine.formats.reader import Draft

CONVERSATION_IDS = (
    "conversation_id",
    "conversationId",
    "session_id",
    "sessionId",
    "thread_id",
    "threadId",
    "chat_id",
    "chatId",
    "dialogue_id",
    "dialog_id",
    "conv_id",
)
"""Names of the field that says to which conversation a row belongs."""


def _id_key(row: Any) -> str | None:
    """The key under which a row names its conversation; None if the row is no message or does not say."""
    if not looks_like_message(row):
        return None
    return next(
        (
            key
            for key in CONVERSATION_IDS
            if isinstance(row.get(key), str | int) and row[key] not in ("", True, False)
        ),
        None,
    )


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like a row of this format; None if it does not."""
    key = _id_key(record)
    return key and f"each record is one message, and `{key}` names its conversation"


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields a frame for each conversation, in the order of their first rows; frames that are no rows come first.

    All rows are in memory at once, since those of one conversation may lie anywhere.
    """
    rows: dict[str, list[Frame]] = {}
    for frame in frames:
        if frame.reason is not None:
            yield frame
        elif (key := _id_key(frame.value)) is None:
            yield frame._replace(reason="the row is no message of a named conversation")
        else:
            rows.setdefault(str(frame.value[key]), []).append(frame)
    for name, group in rows.items():
        raw = b"\n".join(frame.raw for frame in group)
        value = {"id": name, "messages": [frame.value for frame in group]}
        yield Frame(group[0].line, raw, value)


def read(record: Any, fallback_id: str, _: Any = None) -> Draft:
    """Returns the conversation of a group of rows as a draft.

    Raises:
        BadRecord: A row is not a message.
    """
    record = as_object(record)
    rows = record.get("messages", [])
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    found = record_id(record, ("id",), fallback_id)
    return Draft(Conversation(found, read_messages(rows), created_at=created_at(first)))
