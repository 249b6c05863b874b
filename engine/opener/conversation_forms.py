"""Conversations on their way out, with what the project knows of them: chat APIs, Inspect, rows of messages."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from engine.base.conversation import Conversation, Message, ToolCall, with_calls
from engine.base.line_files import ColumnType
from engine.base.text import as_json
from engine.conversations.tables import conversations
from engine.formats.messages.times import TIMES
from engine.opener.table_export import TableColumns, column_type, table_lines
from engine.project.sql import id_pages, utc_now
from engine.questions.question_names import EXPORT_OBJECT

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
        metadata[EXPORT_OBJECT] = item.known
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


_SHAREGPT_NAMES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}


def message_line(message: Message) -> dict[str, Any]:
    """Role, content, name and answered call of a message, as the chat API of OpenAI and the uniform form write them."""
    line: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        line["name"] = message.name
    if message.tool_call_id:
        line["tool_call_id"] = message.tool_call_id
    return line


def openai(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record with `messages` for each conversation; reasoning and facts of messages have no place."""
    for item in items:
        messages = []
        for message in item.conversation.messages:
            _count(message, left_behind, "reasoning", "facts")
            line = message_line(message)
            if message.tool_calls:
                line["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.tool_calls
                ]
            messages.append(line)
        yield {"id": item.conversation.external_id, "messages": messages, **about(item)}


def anthropic(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record for each conversation: system messages apart, answers of tools in the user's messages, messages
    of one side joined. Names and facts of messages have no place."""
    for item in items:
        system: list[str] = []
        messages: list[dict[str, Any]] = []
        for message in item.conversation.messages:
            _count(message, left_behind, "name", "facts")
            if message.role in ("system", "developer"):
                left_behind["a place after the first message, as a system message"] += bool(
                    messages
                )
                system.append(message.content)
                continue
            side = "assistant" if message.role == "assistant" else "user"
            if not messages or messages[-1]["role"] != side:
                messages.append({"role": side, "content": []})
            messages[-1]["content"] += _blocks(message)
        line: dict[str, Any] = {"id": item.conversation.external_id}
        if system:
            line["system"] = "\n\n".join(system)
        yield {**line, "messages": messages, **about(item)}


def sharegpt(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record with `conversations` for each conversation; calls are turns of their own. Names, reasoning, facts
    and the ids of calls have no place."""
    for item in items:
        turns: list[dict[str, str]] = []
        for message in item.conversation.messages:
            _count(message, left_behind, "reasoning", "facts", "name")
            has_ids = message.tool_call_id or any(call.call_id for call in message.tool_calls)
            left_behind["ids of calls"] += bool(has_ids)
            if message.content or not message.tool_calls:
                turns.append({"from": _SHAREGPT_NAMES[message.role], "value": message.content})
            for call in message.tool_calls:
                written = {"name": call.name, "arguments": arguments(call)}
                turns.append(
                    {"from": "function_call", "value": json.dumps(written, ensure_ascii=False)}
                )
        yield {"id": item.conversation.external_id, "conversations": turns, **about(item)}


def _count(message: Message, left_behind: Counter[str], *places: str) -> None:
    """Counts what a message has of places that a form does not have."""
    words = {"reasoning": "reasoning", "facts": "times and other facts", "name": "names"}
    for place in places:
        left_behind[words[place]] += bool(getattr(message, place))


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content,
        }
        return
    if message.reasoning:
        yield {"type": "thinking", "thinking": message.reasoning}
    if message.content or not message.tool_calls:
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments(call)}


def samples(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a sample for each conversation, without output and scores, which this program does not have.

    Inspect knows a sample by its id and epoch, so the second conversation with an id has epoch 2.
    """
    epochs: Counter[str] = Counter()
    for item in items:
        conversation = item.conversation
        epochs[conversation.external_id] += 1
        other = about(item)
        asked = (one.content for one in conversation.messages if one.role == "user")
        began = other.get("created_at")
        yield {
            "id": conversation.external_id,
            "epoch": epochs[conversation.external_id],
            "input": next(asked, ""),
            "target": "",
            "messages": _messages(conversation.messages, left_behind),
            "metadata": other.get("metadata", {}),
            **({"started_at": began} if began else {}),
        }


def around(task: str) -> tuple[str, str]:
    """The text of a log of this task before and after its list of samples."""
    head = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": utc_now(),
            "task": task,
            "dataset": {"name": task},
            "model": "none/none",
            "config": {},
        },
    }
    return as_json(head)[:-1] + ', "samples": [', "]}"


def _messages(messages: Iterable[Message], left_behind: Counter[str]) -> list[dict[str, Any]]:
    """Names and facts go to the metadata of a message."""
    written = []
    names: dict[str, str] = {}  # of tools, by the ids of calls that have no answer yet
    for number, message in enumerate(messages, 1):
        content: Any = message.content
        metadata: dict[str, Any] = {}
        line: dict[str, Any] = {"role": message.role}
        if message.role == "developer":
            line["role"] = "system"
            metadata["role"] = message.role
        if message.tool_calls and message.role == "assistant":
            line["tool_calls"] = calls = []
            for place, call in enumerate(message.tool_calls, 1):
                given = arguments(call)
                if not isinstance(given, dict):
                    left_behind["arguments of calls that are no object, written as one"] += 1
                    given = {"arguments": given}
                key = call.call_id or f"call_{number}_{place}"
                names[key] = call.name
                calls.append(
                    {"id": key, "function": call.name, "arguments": given, "type": "function"}
                )
        elif message.tool_calls:
            left_behind["calls of another role than the assistant's, written as text"] += 1
            content = with_calls(content, message.tool_calls)
        if message.reasoning:
            content = [
                {"type": "reasoning", "reasoning": message.reasoning},
                {"type": "text", "text": content},
            ]
        line["content"] = content
        if message.role == "tool":
            answered = message.tool_call_id or next(iter(names), None)
            line["tool_call_id"] = answered
            line["function"] = names.pop(answered or "", None) or message.name
        elif message.tool_call_id:
            metadata["tool_call_id"] = message.tool_call_id
        if message.name and message.role != "tool":
            metadata["name"] = message.name
        if message.facts:
            metadata["facts"] = json.loads(message.facts)
        if metadata:
            line["metadata"] = metadata
        written.append(line)
    return written


_ROW_COLUMNS = (
    *("conversation_id", "source", "position", "role", "name", "content", "time", "model"),
    *("tool_calls", "tool_call_id", "reasoning", "facts"),
)


def message_rows(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a row for each message. Columns of what is known begin with `workbench_` and say the same in every row of
    a conversation, as `truth` does. The metadata of conversations have no place.

    `tool_calls`, `facts` and `truth` are JSON.
    """
    for item in items:
        conversation = item.conversation
        left_behind["metadata"] += bool(conversation.meta)
        stated = conversation.truth
        known = {f"{EXPORT_OBJECT}_{name}": value for name, value in item.known.items()}
        for position, message in enumerate(conversation.messages, 1):
            facts = json.loads(message.facts) if message.facts else {}
            clock = next((key for key in TIMES if facts.get(key) is not None), "")
            calls = [
                {"id": call.call_id, "name": call.name, "arguments": call.arguments}
                for call in message.tool_calls
            ]
            yield {
                "conversation_id": conversation.external_id,
                "source": item.source,
                "position": position,
                "role": message.role,
                "name": message.name,
                "content": message.content,
                "time": _text(facts.pop(clock, None)),
                "model": _text(facts.pop("model", None)),
                "tool_calls": as_json(calls) if calls else None,
                "tool_call_id": message.tool_call_id,
                "reasoning": message.reasoning,
                "facts": as_json(facts) if facts else None,
                **({"truth": None if stated is None else as_json(stated)} if item.truth else {}),
                **known,
            }


def column_types(beside: Collection[Beside], *, truth: bool) -> dict[str, ColumnType]:
    """The types of the columns."""
    types: dict[str, ColumnType] = dict.fromkeys(_ROW_COLUMNS, "text")
    types["position"] = "integer"
    if truth:
        types["truth"] = "text"
    return types | {f"{EXPORT_OBJECT}_{name}": column_type(name) for name in known_names(beside)}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else as_json(value)
