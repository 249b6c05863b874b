"""One conversation on its way out, with what the project knows of it beside its messages."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from engine.base.conversation import Conversation, ToolCall
from engine.conversations.tables import conversations
from engine.opener.table_export import TableColumns, table_lines
from engine.project.sql import id_pages

ConversationForm = Literal[
    "openai", "anthropic", "sharegpt", "inspect", "csv", "parquet", "argilla", "label-studio", "argilla-ratings",
    "label-studio-ratings",
]  # fmt: skip
"""Forms beside the uniform one, which is the only one that holds everything."""

ANNOTATION_FORMS: tuple[ConversationForm, ...] = (
    "argilla",
    "label-studio",
    "argilla-ratings",
    "label-studio-ratings",
)
"""Forms of tasks for a person, whose answers `workbench verdicts import` takes back."""

Beside = Literal["scores", "verdicts", "goals", "trees"]
"""What can be written beside the messages."""

KNOWN = "workbench"
"""Name of the object with it. No format reads that as truth, and no model reads metadata."""

_COLUMNS: dict[Beside, tuple[str, ...]] = {
    "scores": ("state", "p_end", "p", "success", "score_set", "remaining"),
    "verdicts": ("verdict", "note", "tags"),
    "goals": ("goal", "goal_share", "other_goals"),
    "trees": ("leaves", "max_logprob", "entropy", "perplexity"),
}
"""Columns of the table of conversations."""

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Exported:
    """A conversation to write.

    Attributes:
        conversation: With its truth, where that was asked for.
        source: Label of the source that it came from.
        key: Stands for the text of its messages; see `conversations.text_keys`.
        known: What the project knows of it, by the names of columns of the table; empty where nothing was asked for.
        has_truth: Whether there is a truth, asked for or not.
        truth: Whether the truth was asked for.
    """

    conversation: Conversation
    source: str
    key: str
    known: dict[str, Any]
    has_truth: bool
    truth: bool = False


def known_names(beside: Collection[Beside]) -> list[str]:
    """The names of what is known, in the order of the table."""
    return [name for what in get_args(Beside) if what in beside for name in _COLUMNS[what]]


def exported(
    conn: sqlite3.Connection,
    wanted: Sequence[int] | None,
    beside: Collection[Beside] = (),
    *,
    truth: bool = False,
) -> Iterator[Exported]:
    """Yields conversations in the order of `wanted`, or all of them in the order of import."""
    names = known_names(beside)
    for page in id_pages(conn, wanted, _PAGE):
        rows = list(conversations.export_conversations(conn, page))
        keys = conversations.text_keys(conn, page)
        table = table_lines(conn, page, columns=TableColumns()) if names else None
        for key, source, conversation in rows:
            row = {} if table is None else next(table)
            yield Exported(
                conversation if truth else replace(conversation, truth=None),
                source,
                keys[key],
                {name: row[name] for name in names},
                conversation.truth is not None,
                truth,
            )


def about(item: Exported) -> dict[str, Any]:
    """Metadata with truth and what is known, and the time, for forms that have a place for such."""
    conversation = item.conversation
    metadata = dict(conversation.meta)
    if conversation.truth:
        metadata["truth"] = conversation.truth
    if item.known:
        metadata[KNOWN] = item.known
    found: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if conversation.created_at:
        found["created_at"] = conversation.created_at
    return found


def arguments(call: ToolCall) -> Any:
    """The arguments of a call as a JSON value; as text where they are none."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments
