"""Columns of tables, found by their usual names, whatever their case and the signs between their words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from engine.base.conversation import Message, Role
from engine.formats.json_values import BadRecord
from engine.formats.messages.normalise import looks_like_message, messages_of
from engine.formats.messages.roles import role_of_speaker

IDS = (
    "conversation_id",
    "session_id",
    "thread_id",
    "chat_id",
    "dialogue_id",
    "dialog_id",
    "conv_id",
    "convo_id",
    "ticket_id",
    "case_id",
    "call_id",
    "interaction_id",
    "room_id",
    "conversation",
    "session",
    "ticket",
)
_ROLES = (
    "role",
    "speaker",
    "sender",
    "sender_type",
    "sender_role",
    "author_type",
    "author_role",
    "message_role",
    "participant",
    "participant_role",
    "author",
    "from",
    "actor",
    "who",
    "direction",
)
_TEXTS = (
    "content",
    "text",
    "message",
    "body",
    "utterance",
    "message_text",
    "message_body",
    "message_content",
    "msg",
    "value",
)
_ASKED = (
    "prompt",
    "question",
    "user_message",
    "user_input",
    "user_query",
    "query",
    "instruction",
    "input",
    "request",
    "user",
    "human",
)
_ANSWERED = (
    "response",
    "answer",
    "completion",
    "output",
    "reply",
    "assistant_message",
    "assistant_response",
    "bot_response",
    "model_response",
    "model_output",
    "assistant",
    "bot",
)
TIMES = (
    "timestamp",
    "created_at",
    "time",
    "sent_at",
    "datetime",
    "date_time",
    "date",
    "created",
    "ts",
)


class RowColumns(NamedTuple):
    """The names of the columns of a row; the text is what was asked if there is an answer."""

    id: str | None
    role: str | None
    text: str
    answer: str | None


def plain_name(name: str) -> str:
    """`Conversation ID` and `conversationId` as `conversation_id`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", words.lower())


def named_column(
    row: dict[str, Any], names: tuple[str, ...], types: type | tuple[type, ...]
) -> str:
    """The column with the first of some names that has a value of a type; empty if there is none."""
    known: dict[str, str] = {}
    for key, value in row.items():
        if isinstance(value, types) and not isinstance(value, bool) and value != "":
            known.setdefault(plain_name(key), key)
    return next((known[name] for name in names if name in known), "")


def columns_of(row: Any) -> RowColumns | None:
    """The columns of a row that is a message, or a question with its answer; None if it is neither."""
    if not isinstance(row, dict):
        return None
    id_key = named_column(row, IDS, (str, int)) or None
    if looks_like_message(row):
        role_key = "role" if "role" in row else "from"
        return RowColumns(id_key, role_key, "content" if "content" in row else "value", None)
    role = named_column(row, _ROLES, str)
    text = named_column({key: row[key] for key in row if key not in (id_key, role)}, _TEXTS, str)
    if role and text:
        return RowColumns(id_key, role, text, None)
    asked, answered = named_column(row, _ASKED, str), named_column(row, _ANSWERED, str)
    return RowColumns(id_key, None, asked, answered) if asked and answered else None


def messages_of_row(
    row: dict[str, Any],
    columns: RowColumns,
    facts: dict[str, Any],
    number: int,
    speakers: dict[str, Role],
) -> list[Message]:
    """The message of a row, or two if it has an answer."""
    if columns.answer is not None:
        asked: dict[str, Any] = {"role": "user", "content": row[columns.text]}
        answered = {"role": "assistant", "content": row[columns.answer]}
        return [*messages_of(asked, number, facts=facts), *messages_of(answered, number + 1)]
    word = row[columns.role] if columns.role else None
    role, name = _role(word, columns.role, speakers, number)
    message = {"role": role, "content": row[columns.text], **({"name": name} if name else {})}
    return messages_of(message, number, facts=facts)


def _role(
    word: Any, column: str | None, speakers: dict[str, Role], number: int
) -> tuple[Role, str | None]:
    """The role of a speaker, and the name if it is one: the first speaker is the user, all others are the assistant."""
    if not isinstance(word, str):
        raise BadRecord(f"message {number} has no role")
    known = role_of_speaker(word)
    if known is not None:
        return known, None
    if column is not None and plain_name(column).endswith("role"):
        raise BadRecord(f"message {number} has role {word[:60]!r}")
    role = speakers.setdefault(word, "assistant" if "user" in speakers.values() else "user")
    return role, word
