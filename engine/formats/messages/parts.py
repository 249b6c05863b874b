"""Reads the parts of a message: text, tool calls, answers of tools, reasoning, images and files.

The names of parts in OpenAI, Anthropic, Bedrock, Gemini and the Vercel AI SDK do not contradict each other, so one
reader serves them all. A part of another kind keeps its JSON as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.base.conversation import Message, Role, ToolCall
from engine.formats.json_values import (
    BadRecord,
    first_value,
    json_text,
    kind_of,
    object_or_empty,
    objects_in,
    storable,
    without_keys,
)

PartKind = Literal["text", "call", "answer", "reasoning", "media", "fact", "mark", "unknown"]
"""What a part is; a fact is about the message and no text of it; a mark, such as the beginning of a step, has no
content."""


# What a part is

_TEXT_TYPES = frozenset((None, "text", "input_text", "output_text", "refusal"))
"""Types of parts that are text; a part without a type is text if it has one."""

_CALL_TYPES = frozenset((
    "tool_use", "server_tool_use", "mcp_tool_use", "tool-call", "function_call", "toolCall", "toolRequest",
    "frontendToolRequest",
))  # fmt: skip

_ANSWER_TYPES = frozenset(
    ("tool-result", "function_call_output", "tool_call_response", "toolResponse")
)
"""Types of parts that are answers of tools, in the Vercel AI SDK, OpenAI's Responses API, OpenTelemetry and Goose."""

_REASONING_TYPES = frozenset(
    ("thinking", "redacted_thinking", "redactedThinking", "reasoning", "think")
)
"""Types of parts with what a model thought."""

_FACT_TYPES = frozenset((
    "source", "source-url", "source-document", "tool-approval-request", "tool-approval-response",  # Vercel AI SDK
    "step-start", "step-finish", "snapshot", "patch", "agent", "compaction", "retry",  # opencode
    "toolConfirmationRequest", "systemNotification", "conversationCompacted",  # Goose
    "token_budget", "flag",  # Claude.ai
))  # fmt: skip
"""Types of parts about a message that are no text of it."""

_MEDIA_WORDS = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_asset_pointer"), "image"),
    **dict.fromkeys(("audio", "audio_url", "input_audio", "audio_asset_pointer"), "audio"),
    "real_time_user_audio_video_asset_pointer": "audio",
    **dict.fromkeys(("video", "video_url", "video_container_asset_pointer"), "video"),
    **dict.fromkeys(("file", "input_file", "document"), "file"),
    **dict.fromkeys(("inlineData", "inline_data", "fileData"), "file"),
}
"""Types of parts that are no text, or keys of those without a type -> the word that stands for them."""

_KINDS_OF_UNTYPED: dict[str, PartKind] = {
    "toolUse": "call",  # Bedrock
    "functionCall": "call",  # Gemini
    "toolResult": "answer",  # Bedrock
    "functionResponse": "answer",  # Gemini
    "function_call": "call",  # Gemini
    "function_response": "answer",  # Gemini
    "tool_call": "call",  # Haystack
    "tool_call_result": "answer",  # Haystack
    "reasoningContent": "reasoning",  # Bedrock
    "executableCode": "call",  # Gemini
    "executable_code": "call",  # Gemini
    "codeExecutionResult": "answer",  # Gemini
    "code_execution_result": "answer",  # Gemini
    "inlineData": "media",  # Gemini
    "inline_data": "media",  # Gemini
    "fileData": "media",  # Gemini
    "image": "media",  # Bedrock
    "document": "media",  # Bedrock
    "asset_pointer": "media",  # ChatGPT
    "audio_asset_pointer": "media",  # ChatGPT
}
"""Keys of parts without a type -> the kind of a part that has the key; the first one that it has counts."""


def part_kind(part: Mapping[str, Any]) -> PartKind:
    """Returns what a part is: by its type, or without one by the first known key that it has.

    The order counts, since a type does not always decide. A `tool` part of opencode has a state that is an object, and
    that of another log a state in words; a part with the type of a text and without a text is something else.
    """
    kind = part.get("type")
    if kind is not None and not isinstance(kind, str):
        return "unknown"
    if kind in _FACT_TYPES or (kind is not None and kind.startswith("data-")):
        return "fact" if len(part) > 1 else "mark"
    # types that decide only together with a key
    if kind == "tool" and isinstance(part.get("state"), dict):  # opencode
        return "call"
    if kind in _TEXT_TYPES and _text_of_part(part) is not None:
        return "reasoning" if part.get("thought") is True else "text"  # Gemini marks its thoughts
    if kind == "function" and isinstance(part.get("function"), dict):  # Koog
        return "call"
    # parts without a type
    if kind is None:
        return next(
            (by_key for key, by_key in _KINDS_OF_UNTYPED.items() if part.get(key) is not None),
            "unknown",
        )
    # calls and answers
    if kind == "tool_call":
        has_name = "name" in part or "name" in object_or_empty(part.get("tool_call"))
        return "call" if has_name or calls_in_text(_text_of_part(part) or "") else "unknown"
    if kind in _ANSWER_TYPES or kind.endswith("tool_result"):
        return "answer"
    if kind in _CALL_TYPES or kind == "tool-invocation":
        return "call"
    if "toolCallId" in part and (kind.startswith("tool-") or "output" in part):
        return "call"
    # what is left
    if kind in _REASONING_TYPES:
        return "reasoning"
    if kind in _MEDIA_WORDS:
        return "media"
    return "mark" if len(part) == 1 else "unknown"


_WRAPPER_KEYS = {
    "toolInvocation": None,  # Vercel AI SDK 4
    "tool_call": None,  # LibreChat
    "toolCall": "value",  # Goose
    "toolResult": "value",
    "state": None,  # opencode
    "run": "result",  # Amp
    "function": None,  # Koog
}
"""Keys under which a part with a type has an object with its call or answer -> the key of an object within that one
that belongs to it too, or None. In Goose `{"type": "toolRequest", "toolCall": {"value": {"name": ...}}}` is a call."""


def _inner_object(part: dict[str, Any]) -> dict[str, Any]:
    """Returns the object that holds the content of a part.

    Without a type it is the one under the key that tells the kind, as in Bedrock and Gemini. With a type it is the part
    together with the object under one of `_WRAPPER_KEYS`, whose fields count more than those of the part.
    """
    if part.get("type") is None:
        return next(
            (part[key] for key in _KINDS_OF_UNTYPED if isinstance(part.get(key), dict)), part
        )
    for key, inner_key in _WRAPPER_KEYS.items():
        if isinstance(inner := part.get(key), dict):
            return {**part, **inner, **object_or_empty(inner.get(inner_key))}
    return part


# The parts of one message

_CALL_NAME_KEYS = ("name", "toolName", "tool_name", "tool")
"""Keys of the name of a tool."""

_ANSWERED_ID_KEYS = (
    "tool_use_id", "toolUseId", "toolUseID", "toolCallId", "tool_call_id", "call_id", "callID", "tool_id", "id",
)  # fmt: skip
"""Keys of the id of the call that an answer is for."""

_CALL_ID_KEYS = ("callID", "id", *_ANSWERED_ID_KEYS)
"""Keys of the id of a call. Those of the call itself come first: the others may name something else in a call."""

_ANSWER_KEYS = ("content", "output", "result", "response", "value", "error")

_DENIED = "output-denied"
"""State of a call in the Vercel AI SDK that a person did not allow."""

_STATES_WITH_ANSWER = ("output-available", "result", _DENIED)
"""States of a call in the Vercel AI SDK that has an answer, which may be null."""


@dataclass(slots=True)
class MessageParts:
    """Collects the parts of one message of a file; the answer of a tool among them becomes a message in its place.

    The lists hold what belongs to the message that is collected at the moment.

    Attributes:
        role: Role of the message.
        number: Number of the message in the file, from 1, for the reason of a BadRecord.
        name: Name of its speaker, or of the tool that answers.
        tool_call_id: Id of the call that it answers.
        facts: What else is said of it, as JSON; the first finished message gets it.
        texts: Texts, which become lines.
        calls: Tool calls.
        reasoning: What the model thought.
        fact_parts: Parts that say something of the message; the first finished message gets them among its facts.
        messages: The messages that are finished.
    """

    role: Role
    number: int
    name: str | None = None
    tool_call_id: str | None = None
    facts: str | None = None
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    fact_parts: list[Any] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def add(self, part: Any) -> None:
        """Adds one part.

        Raises:
            BadRecord: It is neither text nor an object.
        """
        if isinstance(part, str):
            self._add_text(part)
            return
        if not isinstance(part, dict):
            raise BadRecord(f"message {self.number} has a content part that is {kind_of(part)}")
        kind = part_kind(part)
        inner = _inner_object(part)
        if "content_type" in part:  # ChatGPT, whose parts say what they are of the message
            self.fact_parts.append(without_keys(part, "text"))
        match kind:
            case "text":
                self._add_text(_text_of_part(part) or "")
            case "call":
                self._add_call(inner)
            case "answer":
                self._add_answer(inner, first_value(inner, *_ANSWER_KEYS))
            case "reasoning":
                if self.calls:  # it was thought after the call
                    self._finish_message()
                self.reasoning.append(_thought_text(inner))
            case "media":
                self._add_text("\n".join([media_reference(part), *_file_text(part)]))
            case "fact":
                self.fact_parts.append(part)
            case "unknown":
                self._add_text(json_text(part))
            case "mark":
                pass

    def finish(self) -> list[Message]:
        """Returns all messages, at least one; the first has the facts."""
        if self.texts or self.calls or self.reasoning or not self.messages:
            self._finish_message()
        # the first may be an answer of a tool, whose facts say that the tool failed
        answer_facts = json.loads(self.messages[0].facts or "{}")
        facts = {**answer_facts, **json.loads(self.facts or "{}")}
        if self.fact_parts:
            facts["parts"] = self.fact_parts
        if facts:
            self.messages[0] = replace(self.messages[0], facts=json_text(facts))
        return self.messages

    def _add_text(self, text: str) -> None:
        """Adds a text; after a call it begins a further message."""
        if self.calls and text.strip():  # it was written after the call
            self._finish_message()
        self.texts.append(text)

    def _finish_message(self) -> None:
        """Makes a message of the parts collected so far."""
        self.messages.append(
            Message(
                self.role,
                "\n".join(self.texts),
                self.name,
                tuple(self.calls),
                self.tool_call_id,
                reasoning="\n".join(filter(None, self.reasoning)) or None,
            )
        )
        self.texts, self.calls, self.reasoning = [], [], []

    def _add_call(self, part: Mapping[str, Any]) -> None:
        """Adds a tool call, or the calls that a text part of type `tool_call` has as JSON, and the answer if the part
        has that too."""
        if part.get("type") == "tool_call" and "name" not in part:
            self.calls.extend(calls_in_text(_text_of_part(part) or ""))
            return
        # the last resort: the Vercel AI SDK has the name in the type, `tool-NAME`
        type_name = str(part.get("type", "")).removeprefix("tool-")
        name = first_value(part, *_CALL_NAME_KEYS) or type_name
        if not name and "code" in part:  # Gemini's tool that runs code has no name
            self.calls.append(ToolCall("code_execution", _arguments_text({"arguments": part})))
            return
        self.calls.append(
            ToolCall(str(name), _arguments_text(part), _first_id(part, _CALL_ID_KEYS))
        )
        has_answer, answer = _answer_in_call(part)
        if has_answer:
            self._add_answer(part, answer)

    def _add_answer(self, part: Mapping[str, Any], answer: Any) -> None:
        """Adds the answer of a tool as a message of its own."""
        if self.texts or self.calls or self.reasoning:
            self._finish_message()
        name = first_value(part, *_CALL_NAME_KEYS)
        self.messages.append(
            Message(
                "tool",
                answer_text(answer),
                name if isinstance(name, str) else None,
                tool_call_id=_first_id(part, _ANSWERED_ID_KEYS),
                facts=json_text(failed) if (failed := _failure_facts(part)) else None,
            )
        )


def _answer_in_call(part: Mapping[str, Any]) -> tuple[bool, Any]:
    """Returns whether the part of a call has its answer too, and that answer, which may be null."""
    answer, state = first_value(part, "output", "result", "errorText", "error"), part.get("state")
    if state == _DENIED:
        answer = object_or_empty(part.get("approval")).get("reason") or "denied"
    return answer is not None or state in _STATES_WITH_ANSWER, answer


# Text


def texts_of(content: Any) -> list[str]:
    """Returns the texts of a content: itself, or those of its parts."""
    if isinstance(content, str):
        return [content]
    texts = (part.get("text") for part in objects_in(content))
    return [text for text in texts if isinstance(text, str)]


def _text_of_part(part: Mapping[str, Any]) -> str | None:
    """Returns the text of a part; None if it has none."""
    text = next((part[key] for key in ("text", "value", "refusal") if key in part), None)
    if text is None and part.get("type") == "text":  # OpenTelemetry
        text = part.get("content")
    if isinstance(text, dict):
        text = text.get("value")
    return text if isinstance(text, str) else None


def _as_text(value: Any) -> str:
    """Returns a value as text: null as an empty one, anything but text as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


# Calls


def read_call(entry: Any, number: int) -> ToolCall:
    """Reads an entry of `tool_calls`.

    Args:
        number: Number of the message, from 1, for the reason of a BadRecord.

    Raises:
        BadRecord: It is not an object with a name.
    """
    if not isinstance(entry, dict):
        raise BadRecord(f"message {number} has a tool call that is {kind_of(entry)}")
    body = entry.get("function", entry.get("custom"))
    if isinstance(body, str):  # logs of Inspect, which are no tables: their nulls are arguments
        arguments = _as_text(first_value(entry, *_ARGUMENT_KEYS))
        return ToolCall(body, arguments, optional_text(entry, "id", number))
    if not isinstance(body, dict):  # some exports have no wrapper
        body = entry
    name = first_value(body, *_CALL_NAME_KEYS)
    if not isinstance(name, str):
        raise BadRecord(f"message {number} has a tool call whose name is {kind_of(name)}")
    return ToolCall(name, _arguments_text(body), optional_text(entry, "id", number))


def calls_in_text(text: str) -> list[ToolCall]:
    """Returns the calls that a `function_call` turn has as JSON text; [] if it is not such JSON."""
    try:
        value = storable(json.loads(text))
        return [read_call(entry, 0) for entry in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError, BadRecord):
        return []


_ARGUMENT_KEYS = ("arguments", "args", "input", "parameters")


def _arguments_text(call: Mapping[str, Any]) -> str:
    """Returns the arguments of a call as text. Tables give each object the keys of all others, with nulls, which are
    left out."""
    return _as_text(_without_nulls(first_value(call, *_ARGUMENT_KEYS)))


def _without_nulls(value: Any) -> Any:
    """Returns a value without the nulls in the objects within it."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def optional_text(item: Mapping[str, Any], key: str, number: int) -> str | None:
    """Returns a text or a whole number under `key` as text, None if there is none.

    Args:
        number: Number of the message, from 1, for the reason of a BadRecord.

    Raises:
        BadRecord: It is something else.
    """
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRecord(f"message {number} has a {key} that is {kind_of(value)}")


def _first_id(part: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """Returns the first value under one of the keys as text, if it is a text, a whole number or a list of texts."""
    value = first_value(part, *keys)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return json_text(value)  # Microsoft's Agent Framework, as Langfuse has it
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


# Answers of tools

_TYPES_OF_ANSWER_VALUE = ("text", "json", "error-text", "error-json")
"""Types of objects that have the answer of a tool under `value`."""


def answer_text(answer: Any) -> str:
    """Returns the answer of a tool as text.

    A text stays as it is, null is an empty one. Of a list it is each part in a line; of an object with a type and a
    `value`, that value; of one whose only key is `output` or `result`, the text under it; of anything else the JSON.
    """
    if isinstance(answer, list):
        return "\n".join(map(_answer_part, answer))
    if isinstance(answer, dict) and answer.get("type") in _TYPES_OF_ANSWER_VALUE:
        return _as_text(answer.get("value", answer))
    if isinstance(answer, dict) and len(answer) == 1:
        ((key, only),) = answer.items()
        if key in ("output", "result") and isinstance(only, str):  # Gemini
            return only
    return _as_text(answer)


def _answer_part(part: Any) -> str:
    """Returns a part of the answer of a tool as text."""
    if not isinstance(part, dict):
        return _as_text(part)
    kind = part_kind(part)
    if kind == "text":
        return _text_of_part(part) or ""
    return media_reference(part) if kind == "media" else json_text(part.get("json", part))


_FAILURES = {"is_error": True, "isError": True, "status": "error", "state": "output-error"}
"""Keys under which a part says that a tool failed, and the value that says so."""


def _failure_facts(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a part says of the failure of a tool; empty where it does not say that it failed."""
    return {key: part[key] for key, failure in _FAILURES.items() if part.get(key) == failure}


# Reasoning


def reasoning_text(value: Any) -> str:
    """Returns what a model thought, as text: of a text, of an object with one, or of a list of these, a line each.

    Null, true, false and what is empty give an empty text; anything else its JSON.
    """
    if value is None or value == [] or value == {} or isinstance(value, bool):
        return ""
    if isinstance(value, list):
        return "\n".join(filter(None, map(reasoning_text, value)))
    return _thought_text(value) if isinstance(value, dict) else _as_text(value)


_THOUGHT_KEYS = (
    "thinking", "reasoning", "reasoningText", "think", "text", "value", "content", "summary", "data",
)  # fmt: skip
"""Keys of what a model thought, the surest first."""


def _thought_text(part: Mapping[str, Any]) -> str:
    """Returns what a part says that a model thought: a text, that of an object, or those of a list; else the JSON of
    the whole part."""
    thought = first_value(part, *_THOUGHT_KEYS)
    if isinstance(thought, dict):
        thought = _text_of_part(thought)
    if isinstance(thought, list):
        return answer_text(thought)
    return thought if isinstance(thought, str) else json_text(part)


# Images, sounds and files

_MEDIA_TYPE_KEYS = ("media_type", "mediaType", "mimeType", "mime_type", "format")
"""Keys of the type of an image, a sound or a file."""

_MEDIA_NAME_KEYS = (
    "filename", "file_name", "title", "path", "file_id", "fileUri", "file_uri", "asset_pointer",
)  # fmt: skip
"""Keys of the name or the place of an image, a sound or a file."""

_MAX_REFERENCE_CHARACTERS = 2_000
"""Most characters that are kept of an address, a name or a type of an image, a sound or a file."""

_MAX_SCHEME_CHARACTERS = 12
"""Number of characters at the beginning of an address within which `://` stands."""


def media_reference(part: Mapping[str, Any]) -> str:
    """Returns what stands for an image, a sound or a file, such as `[image: image/png, 12,345 bytes]`: what it is, with
    its type, size, address and name as far as they are known."""
    kind = str(part.get("type", part.get("content_type")))
    what = _MEDIA_WORDS.get(kind) or next(
        (_MEDIA_WORDS[key] for key in part if key in _MEDIA_WORDS), "file"
    )
    facts: list[str] = []
    for key, text in _keyed_strings(part):
        if text.startswith("data:"):
            head, _, data = text.partition(",")
            media_type, _, _ = head.removeprefix("data:").partition(";")
            facts.append(media_type)
            if data:
                facts.append(_bytes_in_base64(data))
        elif (
            key in _MEDIA_TYPE_KEYS
            or key in _MEDIA_NAME_KEYS
            or "://" in text[:_MAX_SCHEME_CHARACTERS]
        ):
            facts.append(text[:_MAX_REFERENCE_CHARACTERS])
        elif key in ("data", "bytes", "file_data") and text:
            facts.append(_bytes_in_base64(text))
    description = ", ".join(dict.fromkeys(filter(None, facts)))
    return f"[{what}: {description}]" if description else f"[{what}]"


def _bytes_in_base64(data: str) -> str:
    """Returns in words about how many bytes a text in Base64 stands for: three for four characters."""
    return f"{len(data) * 3 // 4:,} bytes"


def _keyed_strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields the texts within a value, each with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _keyed_strings(entry, name)
    elif isinstance(value, list):
        for entry in value:
            yield from _keyed_strings(entry, key)


def _file_text(part: Mapping[str, Any]) -> list[str]:
    """Returns the text of a file that is in the part itself, as the only entry; [] if there is none."""
    source = object_or_empty(part.get("source"))
    if source.get("type") == "content":  # Anthropic: parts in a part
        return [answer_text(source.get("content"))]
    text = source.get("data") if source.get("type") == "text" else part.get("content")
    return [text] if isinstance(text, str) else []
