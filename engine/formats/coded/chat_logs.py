"""Readers of logs whose messages have role and content, or from and value, and of messages of LangChain.

A reader here says where a record has its messages and its id. Messages of LangChain are those of `dumpd`,
`messages_to_dict` and `model_dump`, also within states and checkpoints of LangGraph. A *state* is what an application
of LangGraph knows at one step; those with the same thread are of one conversation, of which the longest has all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import (
    BadRecord,
    as_object,
    json_text,
    kind_of,
    list_or_empty,
    object_or_empty,
    without_keys,
)
from engine.formats.messages import normalize
from engine.formats.messages.call_messages import input_messages, is_response_item
from engine.formats.messages.chat_message import ChatMessage, as_message, langchain_message
from engine.formats.messages.roles import role_named
from engine.formats.messages.times import as_time, created_at
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import as_word, read_path, without
from engine.formats.records import ParsedRecord, Reader

_OPENAI_IDS = (
    "custom_id", "id", "conversation_id", "conversationId", "thread_id", "threadId", "session_id", "sessionId",
    "ticket_id", "case_id", "interaction_id",
)  # fmt: skip
"""Fields that may name a conversation; the first of them that a record has is taken. In a batch the person chose
`custom_id`, which request and answer have; `id` is that of the answer."""

_SHAREGPT_IDS = ("id", "conversation_id", "conversation_hash")
"""Fields that may name a conversation; the first of them that a record has is taken."""


# The uniform format


def _recognize_uniform(record: Any) -> str | None:
    """Returns in words why a record looks like the uniform format; None if it does not."""
    if not isinstance(record, dict) or not normalize.looks_like_messages(record.get("messages")):
        return None
    if isinstance(record.get("truth"), dict) or _is_complete(record):
        return "the records have `messages` with role and content, and `truth`"
    if isinstance(record.get("dataset"), str) and isinstance(record.get("id"), str):
        return "the records have `id`, `dataset` and `messages` with role and content"
    return None


def _is_complete(record: Mapping[str, Any]) -> bool:
    """Returns whether a uniform record has all that a conversation has, as exports of this program do."""
    return isinstance(record.get("meta"), dict) and isinstance(record.get("dataset"), str)


def _read_uniform(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Reads a record of the uniform format, which exports of this program have too.

    Raises:
        BadRecord: The record or its truth is no object, or it has no messages.
    """
    record = as_object(record)
    truth = record.get("truth")
    if truth is not None and not isinstance(truth, dict):
        raise BadRecord(f"`truth` is {kind_of(truth)}, not an object")
    external_id = normalize.record_id(record, ("id",), fallback_id)
    if not _is_complete(record):
        message_list = normalize.read_messages(record.get("messages"), rendered_calls=True)
        fields = without_keys(record, "id", "messages", "truth")
        conversation = Conversation(external_id, (), {}, truth, created_at(record))
        return _draft(conversation, message_list, fields)
    messages = _messages_with_facts(record.get("messages"))
    start_time = as_time(record.get("created_at"))
    conversation = Conversation(external_id, messages, dict(record["meta"]), truth, start_time)
    read_keys = ("id", "dataset", "messages", "meta", "truth", "created_at")
    # `dataset` names the file of the first import
    left_out = frozenset(((id(record), "dataset"),))
    return ParsedRecord(conversation, without_keys(record, *read_keys), left_out=left_out)


def _draft(
    conversation: Conversation, message_list: normalize.ReadMessages, fields: Mapping[str, Any]
) -> ParsedRecord:
    """Returns a conversation as a draft, with the messages that were read and what is in none of them."""
    return ParsedRecord(
        replace(conversation, messages=message_list.messages),
        {**fields, **message_list.fields},
        unknown=tuple(message_list.unread),
    )


def _messages_with_facts(items: Any) -> tuple[Message, ...]:
    """Returns the messages of a complete record, in the order of the record, with what else is known of each under
    `facts`.

    Raises:
        BadRecord: There are no messages, or one of them cannot be read.
    """
    if not isinstance(items, list) or not items:
        raise BadRecord("no messages")
    messages: list[Message] = []
    for number, item in enumerate(items, 1):
        facts = item.get("facts") if isinstance(item, dict) else None
        if isinstance(facts, dict):
            messages += normalize.messages_of(without_keys(item, "facts"), number, facts=facts)
        else:
            messages += normalize.messages_of(item, number)
    return tuple(messages)


# Requests and answers of chat APIs


def _request_part(record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the request in a record: the name of the part that has `messages`, and that part; "" and the record if no
    part has them."""
    for name in ("body", "request", "params"):
        part = record.get(name)
        if isinstance(part, dict) and "messages" in part:
            return name, part
    return "", record


def _answer_part(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Returns the answer of a logged call, and the other fields of its response; None and {} if there is no answer.

    An answer is the first choice of OpenAI, the `message` of Ollama, or the whole response of Anthropic. A record
    without a response may be one itself; its other fields are then those of the record, and are not returned.
    """
    response = record.get("response")
    outer = object_or_empty(response)
    body = outer.get("body")
    if isinstance(body, dict):
        outer = without_keys(outer, "body")
    else:
        body = outer or record
        outer = {}
    fields = {} if body is record else body  # what belongs to the answer
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):  # OpenAI
        message = choices[0].get("message")
        facts = without_keys(choices[0], "message", "index", "logprobs")
        other_fields = {**without_keys(fields, "choices"), **facts}
    elif "role" in fields and normalize.looks_like_message(fields):  # Anthropic
        message = {"role": fields["role"], "content": fields.get("content")}
        other_fields = without_keys(fields, "role", "content")
    else:  # Ollama
        message = body.get("message")
        other_fields = without_keys(fields, "message")
    if not isinstance(message, dict) or not normalize.looks_like_message(message):
        return None, {}
    if role_named(str(message.get("role"))) == "user":
        return None, {}  # no model answers as the user: it is a line of a session
    return message, {**outer, **other_fields}


def _recognize_openai(record: Any) -> str | None:
    """Returns in words why a record looks like a request, an answer, or both; None if it does not."""
    if not isinstance(record, dict):
        return None
    name, request = _request_part(record)
    if normalize.looks_like_messages(request.get("messages")):
        where = f"`{name}` with `messages`" if name else "`messages`"
        return f"the records have {where} with role and content"
    answer, _ = _answer_part(record)
    if "messages" not in request and answer is not None:
        return "the records have the response of a model"
    return None


def _read_openai(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Reads the messages of a request and of its answer as one conversation."""
    record = as_object(record)
    name, request = _request_part(record)
    answer, other_fields = _answer_part(record)
    items = request.get("messages", [])
    if isinstance(items, list):
        items = [*_system_messages(request, items), *items, *([answer] if answer else [])]
    message_list = normalize.read_messages(items, record=record)
    id_key = next((key for key in _OPENAI_IDS if record.get(key) not in (None, "")), "")
    fields = without_keys(record, id_key, "messages", "choices", "message", "response", name)
    if name:
        fields |= without_keys(request, "messages")
    if message_list.messages[0].role == "system":
        fields.pop("system", None)
    # the model that was asked for and the version that answered may differ: both are kept
    differ = {key: value for key, value in fields.items() if other_fields.get(key, value) != value}
    if differ:
        other_fields["request"] = differ
    external_id = normalize.record_id(record, _OPENAI_IDS, fallback_id)
    conversation = Conversation(external_id, (), created_at=created_at(record))
    return _draft(conversation, message_list, fields | other_fields)


def _system_messages(request: Mapping[str, Any], items: list[Any]) -> list[dict[str, Any]]:
    """Returns the system message of a request that has it beside its messages, as Anthropic's."""
    system = request.get("system")
    first = items[0] if items else None
    if not system or (isinstance(first, dict) and first.get("role") == "system"):
        return []
    return [{"role": "system", "content": system}] if isinstance(system, str | list) else []


# ShareGPT, and bare lists


def _sharegpt_turns(record: Mapping[str, Any]) -> tuple[str, Any]:
    """Returns the name of the field with the messages of a ShareGPT record, and its value."""
    name = "conversations" if "conversations" in record else "conversation"
    return name, record.get(name)


def _recognize_sharegpt(record: Any) -> str | None:
    """Returns in words why a record looks like one of ShareGPT; None if it does not."""
    if not isinstance(record, dict):
        return None
    name, turns = _sharegpt_turns(record)
    if not normalize.looks_like_messages(turns):
        return None
    keys = "from and value" if "from" in object_or_empty(turns[0]) else "role and content"
    return f"the records have `{name}` with {keys}"


def _read_sharegpt(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Reads a record with `conversations`, and the system prompt that may stand beside them."""
    record = as_object(record)
    name, turns = _sharegpt_turns(record)
    message_list = normalize.read_messages(turns if turns is not None else [], record=record)
    system = record.get("system")
    used_keys = [*_SHAREGPT_IDS, name]
    if isinstance(system, str):
        used_keys.append("system")
        if system:
            message_list = message_list._replace(
                messages=(Message("system", system), *message_list.messages)
            )
    external_id = normalize.record_id(record, _SHAREGPT_IDS, fallback_id)
    conversation = Conversation(external_id, (), created_at=created_at(record))
    return _draft(conversation, message_list, without_keys(record, *used_keys))


def _recognize_message_list(record: Any) -> str | None:
    """Returns in words why a record looks like a bare list of messages; None if it does not."""
    if not normalize.looks_like_messages(record):
        return None
    keys = "role and content" if "role" in object_or_empty(record[0]) else "from and value"
    return f"the records are bare lists of messages with {keys}"


def _read_message_list(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Reads a bare list of messages, or of items of the Responses API."""
    if isinstance(record, list) and any(map(is_response_item, record)):
        record = input_messages(record)
    return _draft(Conversation(fallback_id, ()), normalize.read_messages(record), {})


CHAT_LOGS: tuple[Reader, ...] = (
    Reader(
        "uniform",
        _recognize_uniform,
        _read_uniform,
        conditions=3,
        title="what `workbench export PROJECT conversations` writes",
    ),
    Reader(
        "openai",
        _recognize_openai,
        _read_openai,
        conditions=1,
        title="`messages`, or a logged call with them, of OpenAI, Anthropic, Bedrock, Ollama, LiteLLM, Mistral, "
        "the Vercel AI SDK and others",
        sample="doc/litellm_log.jsonl",
    ),
    Reader(
        "sharegpt",
        _recognize_sharegpt,
        _read_sharegpt,
        conditions=1,
        title="`conversations` with from and value, or role and content, as of ShareGPT",
        sample="sharegpt_fastchat.json",
    ),
    Reader(
        "messages",
        _recognize_message_list,
        _read_message_list,
        title="bare lists of messages of any chat API",
        sample="doc/autogen_history.json",
    ),
)
"""The readers of logs whose messages have role and content, or from and value."""


# LangChain and LangGraph


_STATE_MESSAGES = read_path(
    "messages | values.messages | channel_values.messages | checkpoint.channel_values.messages"
    " | kwargs.messages | state.messages | output.messages"
)
"""Where a state or a checkpoint of LangGraph has its messages."""
_STATE_THREAD = read_path(
    "config.configurable.thread_id | metadata.thread_id | configurable.thread_id | thread_id"
)
"""Where a state of LangGraph names its thread."""
_STATE_STEP = read_path("metadata.step")
"""Where a state of LangGraph has its number within the thread."""
_OTHER_STATES = "other states"
"""Key under which the longest state of a thread has the others."""
_MAX_QUOTED_CHARACTERS = 60
"""Most characters of a message that an error quotes."""


def _recognize_langchain(record: Any) -> str | None:
    """Returns in words why a record looks like messages of LangChain; None if it does not."""
    if isinstance(record, dict) and langchain_message(record) and "role" not in record:
        return "the records are messages of LangChain"
    messages = _messages_in(record)
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    if langchain_message(first) and "role" not in first:
        return "the records have messages of LangChain"
    return None


def _messages_in(record: Any) -> list[Any]:
    """Returns the messages of a state, or of a record that is a list of messages; empty for any other value."""
    if isinstance(record, list):
        return record
    return list_or_empty(_STATE_MESSAGES.first(record)) if isinstance(record, dict) else []


def _arrange_langchain(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields messages that stand alone as one conversation, and of the states of a thread the longest.

    All records are in memory at once.
    """
    alone: list[Frame] = []
    threads: dict[str, list[Frame]] = {}
    for frame in frames:
        if frame.reason is not None:
            yield frame
        elif isinstance(frame.value, dict) and langchain_message(frame.value):
            alone.append(frame)
        elif thread := as_word(_STATE_THREAD.first(frame.value)):
            threads.setdefault(thread, []).append(frame)
        else:
            yield frame
    if alone:
        yield joined_frame(alone, [frame.value for frame in alone])
    for thread, states in threads.items():
        longest = max(
            states, key=lambda frame: (len(_messages_in(frame.value)), _step_number(frame.value))
        )
        value = longest.value
        if others := [frame.value for frame in states if frame is not longest]:
            value = {**value, _OTHER_STATES: others}
        yield joined_frame(states, value, number=longest.number, name=thread)


def _step_number(state: Any) -> float:
    """Returns the number of a state within its thread; 0 where it has none."""
    step = _STATE_STEP.first(state)
    return step if isinstance(step, int | float) else 0


def _read_langchain(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft; other states of the same thread are left in the original record.

    Raises:
        BadRecord: It has no messages.
    """
    items = _messages_in(record)
    chat_messages: list[ChatMessage] = []
    for number, item in enumerate(items, 1):
        message = as_message(item)
        if message is None:
            raise BadRecord(
                f"message {number} is none of LangChain: {json_text(item)[:_MAX_QUOTED_CHARACTERS]}"
            )
        chat_messages.append(message)
    messages = tuple(normalize.read_in_turn(chat_messages))
    # the `id` of a serialized message is the name of its class
    left_out = {(id(item), "id") for item in items if isinstance(item, dict) and "lc" in item}
    if isinstance(record, list):
        return ParsedRecord(Conversation(fallback_id, messages), left_out=frozenset(left_out))
    trails = [match.trail for match in _STATE_MESSAGES.find(record) if match.trail]
    return ParsedRecord(
        Conversation(fallback_id, messages, created_at=created_at(record)),
        object_or_empty(without(record, [*trails, (_OTHER_STATES,)])),
        left_out=frozenset(left_out | {(id(record), _OTHER_STATES)}),
    )


LANGCHAIN = Reader(
    "langchain",
    _recognize_langchain,
    _read_langchain,
    arrange=_arrange_langchain,
    conditions=3,
    title="messages of LangChain, states and checkpoints of LangGraph",
    sample="made/langgraph_state.json",
)
"""Reads messages of LangChain and states of LangGraph."""
