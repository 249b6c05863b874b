"""Finds the messages in the input and the output of a call of a model, in the form of a chat API.

Traces have the same call in many forms: of OpenAI (chat completions and responses), Anthropic, Gemini, LangChain,
OpenTelemetry and OpenInference. Their names do not contradict each other, so one function reads all inputs
(`input_messages`) and one all outputs (`output_messages`). An *item* is an entry of the Responses API of OpenAI: a
message, a call of a tool, its output, or reasoning. A *piece* is an event of a stream; several are a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.formats.json_values import (
    as_list,
    first_value,
    json_text,
    list_or_empty,
    object_or_empty,
    without_keys,
)
from engine.formats.messages.chat_message import (
    UNKNOWN_ITEMS,
    ChatMessage,
    as_message,
    langchain_message,
    message_of_pair,
    shown_fields,
)
from engine.formats.messages.parts import part_kind
from engine.formats.messages.roles import role_named
from engine.formats.paths import as_word, json_within

# Inputs and outputs


def input_messages(value: Any) -> list[ChatMessage]:
    """Returns the messages of the input of a call; [] if it has no messages but, at most, a text.

    They are the input itself, a list or a text of several messages, or what an object has: under `kwargs`, under a key
    of a list of messages, or as one prompt of several messages. A question makes messages only with a system prompt
    or under `contents`.
    """
    value = json_within(value)
    if isinstance(value, list):
        return _messages_of_list(value)
    if not isinstance(value, dict):
        return _messages_of_text(value) if isinstance(value, str) else []
    kwargs = object_or_empty(value.get("kwargs"))
    if kwargs and not langchain_message(value) and (inner_messages := input_messages(kwargs)):
        return inner_messages
    for key in ("messages", "contents", "input", "history", "chat_history"):
        if inner_messages := _messages_of_list(list_or_empty(json_within(value.get(key)))):
            return [*_system_messages(value, inner_messages), *inner_messages]
    contents = json_within(value.get("contents"))
    if isinstance(contents, str):
        return [*_system_messages(value, []), {"role": "user", "content": contents}]
    question = value.get("input", value.get("prompt"))
    if isinstance(question, str) and question and (system := _system_messages(value, [])):
        return [*system, {"role": "user", "content": question}]
    prompts = value.get("prompts")
    if isinstance(prompts, list) and len(prompts) == 1 and isinstance(prompts[0], str):
        return _messages_of_text(prompts[0])
    return []


def _system_messages(request: Mapping[str, Any], messages: list[ChatMessage]) -> list[ChatMessage]:
    """Returns the system message that a request has beside its messages; [] if these begin with one, or it has none."""
    if messages and messages[0].get("role") in ("system", "developer"):
        return []
    keys = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
    places = (request, object_or_empty(request.get("config")))
    text = next((place[key] for place in places for key in keys if place.get(key)), None)
    if isinstance(text, dict):
        text = text.get("parts", text.get("content"))
    return [{"role": "system", "content": text}] if isinstance(text, str | list) else []


_OUTPUT_KEYS = (
    "final_output", "output", "result", "response", "message", "completion", "value", "answer", "replies",
)  # fmt: skip
"""Keys of an answer, the surest first."""


def output_messages(value: Any) -> list[ChatMessage]:
    """Returns the messages of the output of a call; [] if it has no messages but, at most, a text.

    They are the output itself, a list, a message or a text that names the assistant, or what an object has: its first
    choice, messages within it, or calls of tools beside a text.
    """
    value = json_within(value)
    if isinstance(value, list):
        return messages_of_pieces(value) or _messages_of_list(value)
    if isinstance(value, str):
        inner_messages = _messages_of_text(value)
        is_answer = len(inner_messages) == 1 and inner_messages[0]["role"] == "assistant"
        return inner_messages if is_answer else []
    if not isinstance(value, dict):
        return []
    if message := as_message(value):
        return [message]
    if isinstance(value.get("content"), dict):
        return _messages_of_choice(value)
    for key in ("choices", "candidates", "generations"):
        listed = json_within(value.get(key))
        first = listed[0] if isinstance(listed, list) and listed else None
        if isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, dict):
            return _messages_of_choice(first)
    for key in ("messages", *_OUTPUT_KEYS):
        inner = json_within(value.get(key))
        if isinstance(inner, list | dict) and (inner_messages := output_messages(inner)):
            return inner_messages
    calls = json_within(first_value(value, "tool_calls", "toolCalls"))
    if isinstance(calls, list):
        text = value.get("text")
        message = {"role": "assistant", "content": text if isinstance(text, str) else ""}
        return [{**message, "tool_calls": list(map(_vercel_call, calls))}]
    return []


def _messages_of_choice(choice: dict[str, Any]) -> list[ChatMessage]:
    """Returns the message of a choice of an answer; [] if it has none."""
    for key in ("message", "content", "delta"):
        inner = choice.get(key)
        if isinstance(inner, dict):
            spoken = {"role": "assistant", "content": choice.get("text", ""), **inner}
            message = as_message(inner if "type" in inner else spoken)
            if message:
                return [message]
    text = choice.get("text")
    return [{"role": "assistant", "content": text}] if isinstance(text, str) else []


def _vercel_call(call: Any) -> Any:
    """Returns a tool call of the Vercel AI SDK in the form of a chat API; another as it is."""
    if not isinstance(call, dict) or "toolName" not in call:
        return call
    arguments = first_value(call, "args", "input")
    return {"name": call["toolName"], "arguments": arguments, "id": call.get("toolCallId")}


_ANSWER_PART_KINDS = ("text", "call", "reasoning")
"""Kinds of parts of an answer."""


def _messages_of_list(values: list[Any]) -> list[ChatMessage]:
    """Returns the messages in a list of messages, items, pairs, or parts of one answer.

    [] if a value in it is none of these; but beside items the first message has such a value, and with the first part
    of an answer all values are taken for parts. Definitions of tools are left out.
    """
    if len(values) == 1 and isinstance(values[0], list):
        return _messages_of_list(values[0])
    values = [json_within(value) for value in values]
    values = [value for value in values if not _is_tool_definition(value)]
    if any(map(is_response_item, values)):
        return response_items(values)
    messages: list[ChatMessage] = []
    called_tools: set[Any] = set()
    for value in values:
        role = value.get("role") if isinstance(value, dict) else None
        if isinstance(role, str) and role in called_tools:  # as Langfuse has it of LangChain
            value = {**value, "role": "tool", "name": role}
        message = as_message(value) or message_of_pair(value)
        if message is None and isinstance(value, str):
            message = _shown_message(value)
        if message is None and isinstance(value, dict) and part_kind(value) in _ANSWER_PART_KINDS:
            return [{"role": "assistant", "content": values}]  # parts of one answer
        if message is None:
            return []
        messages.append(message)
        for call in map(object_or_empty, list_or_empty(message.get("tool_calls"))):
            function = object_or_empty(call.get("function"))
            called_tools.add(str(function.get("name") or call.get("name")))
    return messages


def _is_tool_definition(value: Any) -> bool:
    """Returns whether an item of a list of messages describes a tool, as LangChain's requests have it in Langfuse."""
    content = object_or_empty(object_or_empty(value).get("content"))
    return content.get("type") == "function" and isinstance(content.get("function"), dict)


_SPEAKER_AT_LINE_START = re.compile(
    r"^(System|Developer|Human|User|AI|Assistant|Tool|Function): ", re.MULTILINE | re.I
)
"""Matches the beginning of a message in a text that LangChain or AutoGen made of several messages."""


def _messages_of_text(text: str) -> list[ChatMessage]:
    """Returns the messages of a text in which each begins with its speaker, or of a message as Python shows
    it; [] if the text does not begin so."""
    if (shown := _shown_message(text)) is not None:
        return [shown]
    starts = list(_SPEAKER_AT_LINE_START.finditer(text))
    if not starts or starts[0].start():
        return []
    ends = [start.start() for start in starts[1:]] + [len(text)]
    messages = []
    for start, end in zip(starts, ends, strict=True):
        word = start[1].lower()
        spoken = text[start.end() : end].removesuffix("\n")
        if spoken != "None":  # a message of calls, which the text does not have
            messages.append({"role": role_named(word), "content": spoken})
    return messages


_SHOWN_MESSAGE = re.compile(r"\W*(?:\w*Message\()?role='(\w+)'")
"""Matches the beginning of a message as Python shows the object of an agent framework."""


def _shown_message(text: str) -> ChatMessage | None:
    """Returns a message that a text has as Python shows an object, `role='user' content='Hi'`; None if it has none."""
    beginning = _SHOWN_MESSAGE.match(text)
    if beginning is None or role_named(beginning[1]) is None:
        return None
    fields = shown_fields(text)
    keys = ("content", "tool_calls", "tool_call_id", "tool_name")
    message = {key: fields[key] for key in keys if key in fields}
    return {"role": beginning[1], "content": "", **message}


# The text of a call without messages

_INPUT_KEYS = ("input", "prompt", "query", "question", "prompts", "args", "text", "user_input")
"""Keys of a question, the surest first."""


def input_text(value: Any) -> str | None:
    """Returns the text of an input that has no messages; None if it has no text, or several and
    none under a usual key."""
    return _only_text(json_within(value), _INPUT_KEYS)


def output_text(value: Any) -> str | None:
    """Returns the text of an output that has no messages; None if it has no text, or several and
    none under a usual key."""
    return _only_text(json_within(value), (*_OUTPUT_KEYS, "text", "content", "raw"))


_KEYS_OF_NAMES = frozenset(("model", "id", "name", "type"))
"""Keys whose only text is no question or answer."""


def _only_text(value: Any, keys: Iterable[str]) -> str | None:
    """Returns a text itself, or the text under the first of some keys that has one, else the only text of an object.

    A list of one value counts as that value. None stands for no text, or one that is only the name of something.
    """
    if isinstance(value, str):
        return value or None
    if isinstance(value, list) and len(value) == 1:
        return _only_text(json_within(value[0]), keys)
    if not isinstance(value, dict):
        return None
    for key in keys:
        text = json_within(value.get(key))
        if isinstance(text, list) and len(text) == 1:
            text = text[0]
        if isinstance(text, str) and text:
            return text
    ((key, only),) = value.items() if len(value) == 1 else (("", None),)
    return only if isinstance(only, str) and only and key not in _KEYS_OF_NAMES else None


# Items of the Responses API of OpenAI

_OTHER_ITEM_TYPES = frozenset(
    ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference")
)
"""Types of items of the Responses API that are neither messages nor calls."""


def is_response_item(value: Any) -> bool:
    """Returns whether a value is an item of the Responses API that is no message with role and content."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    return (
        (kind.endswith(("_call", "_call_output")) and kind != "tool_call")
        or (kind == "reasoning" and "summary" in value)
        or kind in _OTHER_ITEM_TYPES
    )


_READ_ITEM_KEYS = frozenset((
    "type", "role", "content", "name", "arguments", "input", "call_id", "output", "summary", "encrypted_content",
    "action", "queries", "code", "outputs", "results", "result",
))  # fmt: skip
"""Keys of an item of the Responses API that are read; the others are facts of the message."""


def response_items(entries: Iterable[Any]) -> list[ChatMessage]:
    """Returns the messages of a list of items as the Responses API of OpenAI has them; reasoning, text and calls that
    follow each other are one message.

    The first message has what is neither a message nor a call: under `items` what is known, such as a list of tools,
    under `UNKNOWN_ITEMS` the rest. [] if nothing is a message or a call; the caller keeps the list as it is then.
    """
    messages: list[ChatMessage] = []
    others: dict[str, list[Any]] = {}
    for entry in entries:
        item = object_or_empty(entry)
        kind = str(item.get("type", "message"))
        if kind == "reasoning":
            _add_reasoning(messages, item)
        elif kind.endswith("_output"):
            answer = {"role": "tool", "content": _answer_content(item.get("output"))}
            messages.append({**_facts_of(item), **answer, "tool_call_id": item.get("call_id")})
        elif kind.endswith("_call"):
            _add_call(messages, item, kind)
        elif item.get("role") == "assistant":
            _add_text(messages, item)
        elif message := as_message(item):
            messages.append(without_keys(message, "type"))
        elif entry is not None:
            key = "items" if kind in _OTHER_ITEM_TYPES else UNKNOWN_ITEMS
            others.setdefault(key, []).append(entry)
    for key, listed in others.items() if messages else ():
        messages[0][key] = [*as_list(messages[0].get(key, [])), *listed]
    return messages


def _facts_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is said of an item under keys that are not read."""
    unread = without_keys(item, *_READ_ITEM_KEYS)
    return {key: value for key, value in unread.items() if value is not None}


def _add_reasoning(messages: list[ChatMessage], item: Mapping[str, Any]) -> None:
    """Adds an item of reasoning to the messages."""
    message = _assistant_message(messages, "reasoning_content")
    texts = [as_word(message.get("reasoning_content")), *_reasoning_texts(item)]
    message["reasoning_content"] = "\n".join(filter(None, texts))
    _add_facts(message, _facts_of(item))


def _add_call(messages: list[ChatMessage], item: Mapping[str, Any], kind: str) -> None:
    """Adds the item of a call to the messages, and the answer if the item has that too."""
    message = _assistant_message(messages, "tool_calls")
    calls = as_list(message.get("tool_calls", []))
    message["tool_calls"] = [*calls, _call_of_item(item, kind)]
    _add_facts(message, _facts_of(item))
    if (answered := _answer_in_call_item(item)) is not None:
        answer = {"role": "tool", "content": answered}
        messages.append({**answer, "tool_call_id": item.get("call_id", item.get("id"))})


def _add_text(messages: list[ChatMessage], item: Mapping[str, Any]) -> None:
    """Adds a text of the assistant to the messages; its facts count more than those of earlier items of the message."""
    message, facts = _assistant_message(messages, "content"), _facts_of(item)
    message["content"] = item.get("content") or ""
    earlier_facts = {key: message.pop(key) for key in facts if key in message}
    message |= facts
    _add_facts(message, earlier_facts)


def _assistant_message(messages: list[ChatMessage], part: str) -> ChatMessage:
    """Returns the message to which a part of what the assistant writes belongs: the last one, or a new one at the end.

    Args:
        part: The key of the part; reasoning comes before text, and text before calls.
    """
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and part == "tool_calls":
        return last
    has_begun = last.get("role") == "assistant" and "reasoning_content" in last
    if not has_begun or any(last.get(key) for key in ("tool_calls", "content")):
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _reasoning_texts(item: Mapping[str, Any]) -> list[str]:
    """Returns the texts of an item of reasoning."""
    return [
        part["text"]
        for key in ("summary", "content")
        for part in list_or_empty(item.get(key))
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]


def _add_facts(message: ChatMessage, facts: Mapping[str, Any]) -> None:
    """Adds what is said of an item to its message; what another item of the message has as well goes to `items`."""
    other = {key: value for key, value in facts.items() if message.get(key, value) != value}
    for key, value in facts.items():
        message.setdefault(key, value)
    if other:
        message["items"] = [*as_list(message.get("items", [])), other]


def _call_of_item(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Returns the tool call of an item in the form of a chat API."""
    arguments = first_value(item, "arguments", "input", "action", "queries", "code")
    return {
        "name": item.get("name") or kind.removesuffix("_call"),
        "arguments": {} if arguments is None else arguments,
        "id": item.get("call_id") or item.get("id"),
    }


def _answer_in_call_item(item: Mapping[str, Any]) -> Any:
    """Returns what a tool of the server answered, which stands in the item of its call; None if it does not."""
    if isinstance(item.get("output"), str):
        return item["output"]
    if isinstance(item.get("result"), str):  # the bytes of a picture
        return [{"type": "image", "data": item["result"]}]
    answered = item.get("outputs") or item.get("results")
    return json_text(answered) if answered else None


def _answer_content(output: Any) -> Any:
    """Returns the output of a tool as the content of its message."""
    if isinstance(output, dict) and part_kind(output) in ("text", "media"):
        return [output]
    if output is None:  # the tool answered nothing
        return ""
    return output if isinstance(output, str | list) else json_text(output)


# Streams

_PIECE_KEYS = frozenset(("type", "choices", "delta", "contentBlockStart", "contentBlockDelta"))
"""Keys of which a piece of a message has one."""


def messages_of_pieces(values: list[Any]) -> list[ChatMessage]:
    """Returns the messages that pieces add up to: events of a stream, or items of the Responses API; [] if the values
    are neither."""
    if all(value.__class__ is not dict or _PIECE_KEYS.isdisjoint(value) for value in values):
        return []  # the usual case, which is quick to see
    streamed = (
        _messages_of_chunks(values)
        or _messages_of_response_events(values)
        or _messages_of_stream(values)
    )
    if streamed or not any(map(is_response_item, values)):
        return streamed
    return response_items(values)


def _messages_of_chunks(chunks: list[Any]) -> list[ChatMessage]:
    """Returns the answer that the chunks of a chat completion add up to; [] if they are no chunks."""
    message: ChatMessage = {}
    calls: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        choices = list_or_empty(object_or_empty(chunk).get("choices"))
        choice = object_or_empty(choices[0] if choices else None)
        if choices and "delta" not in choice:
            return []
        delta = object_or_empty(choice.get("delta"))
        for key in ("content", "reasoning_content", "reasoning", "refusal"):
            _append_text(message, key, delta.get(key))
        for piece in map(object_or_empty, list_or_empty(delta.get("tool_calls"))):
            function = object_or_empty(piece.get("function"))
            call = calls.setdefault(
                str(piece.get("index")), {"id": None, "name": "", "arguments": ""}
            )
            call["id"] = piece.get("id") or call["id"]
            for key in ("name", "arguments"):
                _append_text(call, key, function.get(key))
    if calls:
        message["tool_calls"] = list(calls.values())
    return [{"content": "", **message, "role": "assistant"}] if message else []


def _messages_of_response_events(events: list[Any]) -> list[ChatMessage]:
    """Returns the answer that the events of a stream of the Responses API add up to; [] if they are no such events."""
    items: dict[str, dict[str, Any]] = {}
    for event in map(object_or_empty, events):
        kind = str(event.get("type"))
        if kind == "response.completed" and isinstance(event.get("response"), dict):
            return output_messages(event["response"])
        position = str(event.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            items[position] = object_or_empty(event.get("item"))
        elif kind == "response.output_text.delta" and isinstance(event.get("delta"), str):
            item = items.setdefault(position, {"type": "message", "role": "assistant"})
            _append_text(item, "content", event["delta"])
    return response_items(items.values())


_BEDROCK_DELTA_KEYS = ("toolUse", "reasoningContent")
"""Keys of objects with a piece of an answer in a stream of Bedrock: of a call, and of a thought."""

_DELTA_KEYS = frozenset(("text", "thinking", "partial_json", *_BEDROCK_DELTA_KEYS))
"""Keys of a piece of an answer in a stream."""


def _messages_of_stream(events: list[Any]) -> list[ChatMessage]:
    """Returns the answer that the events of a stream of Anthropic or Bedrock add up to; [] if they are no such
    events."""
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        if not isinstance(event, dict):
            return []
        for name in ("contentBlockStart", "contentBlockDelta"):  # Bedrock Converse
            if isinstance(event.get(name), dict):
                event = {**event, **event[name]}
        begun = object_or_empty(event.get("content_block") or event.get("start"))
        delta = object_or_empty(event.get("delta"))
        if not begun and not delta.keys() & _DELTA_KEYS:
            continue
        position = str(event.get("index", event.get("contentBlockIndex")))
        block = blocks.setdefault(position, {"type": "text"})
        tool_call = object_or_empty(begun.get("toolUse"))
        block |= {**begun, "type": "tool_use", **tool_call} if tool_call else begun
        tool_use, thought = (object_or_empty(delta.get(key)) for key in _BEDROCK_DELTA_KEYS)
        delta = {**delta, **tool_use, **thought}
        for key in ("text", "thinking"):
            _append_text(block, key, delta.get(key))
        _append_text(block, "input", delta.get("partial_json", delta.get("input")))
        if "reasoningContent" in delta:
            block["type"] = "reasoning"
    return [{"role": "assistant", "content": list(blocks.values())}] if blocks else []


def _append_text(target: dict[str, Any], key: str, piece: Any) -> None:
    """Appends a piece to the text under a key; a piece that is no text adds nothing."""
    if isinstance(piece, str):
        before = target.get(key)
        target[key] = (before if isinstance(before, str) else "") + piece
