"""Logged calls of chat APIs whose messages stand under other names than `messages`: OpenAI Responses, Anthropic,
Bedrock Converse and Gemini; a request, its response, or both."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from engine.base.conversation import Conversation
from engine.formats.json_values import BadRecord, object_or_empty
from engine.formats.messages.call_messages import messages_answered, messages_given, text_given
from engine.formats.messages.normalise import created_at, read_messages, record_id
from engine.formats.paths import Condition, Path, read_condition, read_path, without
from engine.formats.reader import ParsedRecord, Reader

_IDS = ("custom_id", "id", "request_id", "requestId", "response_id", "responseId")


class _Call(NamedTuple):
    """The form of a call: what a record of it has, and where request and response are in it.

    Attributes:
        used: Paths of what becomes messages; the rest of the record is metadata.
    """

    name: str
    title: str
    sample: str
    when: tuple[Condition, ...]
    given: Path | None
    answered: Path | None
    used: tuple[Path, ...]


def _call(
    name: str, title: str, sample: str, when: str, given: str, answered: str, used: str
) -> Reader:
    """A reader for a form of call; conditions and used paths are divided by commas."""
    call = _Call(
        name,
        title,
        sample,
        tuple(map(read_condition, when.split(","))),
        read_path(given) if given else None,
        read_path(answered) if answered else None,
        tuple(map(read_path, used.split(","))),
    )
    return Reader(
        name,
        partial(_recognise, call),
        partial(_read, call),
        conditions=len(call.when),
        title=title,
        sample=sample,
    )


def _recognise(call: _Call, record: Any) -> str | None:
    if not isinstance(record, dict) or not all(one.holds(record) for one in call.when):
        return None
    asked = " and ".join(f"`{one.path.text}`" for one in call.when if not one.absent)
    return f"the records have {asked}, as {call.title}"


def _read(call: _Call, record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    if not isinstance(record, dict):
        raise BadRecord("the record is no object")
    given = call.given.first(record) if call.given else None
    items = messages_given(given)
    if not items and (text := text_given(given)):
        items = [{"role": "user", "content": text}]
    answered = call.answered.first(record) if call.answered else None
    messages = read_messages([*items, *messages_answered(answered)])
    trails = [one.trail or () for path in call.used for one in path.find(record)]
    rest = without(record, trails)
    found = record_id(record, _IDS, fallback_id)
    conversation = Conversation(found, messages, created_at=created_at(record))
    return ParsedRecord(conversation, object_or_empty(rest))


MODEL_CALLS: tuple[Reader, ...] = (
    _call(
        "openai_responses", "calls of OpenAI's Responses API", "doc/openai_responses_log.jsonl",
        "request.input, response.output[].type", "request", "response",
        "request.input, request.instructions, response.output",
    ),
    _call(
        "openai_response", "responses of OpenAI's Responses API", "doc/openai_responses_object.json",
        "object=response, output[].type", "input", ".", "input, output",
    ),
    _call(
        "openai_items", "conversations of OpenAI's Responses API", "doc/openai_responses_items.jsonl",
        "items[].type | items[].role, !messages, !history", "items", "", "items",
    ),
    _call(
        "openai_responses_batch", "batches of OpenAI's Responses API", "",
        "custom_id, url!=*/embeddings, url!=*/moderations, body.input | response.body.output[].type",
        "body", "response.body", "body.input, body.instructions, response.body.output",
    ),
    _call(
        "anthropic_response", "responses of Anthropic's Messages API", "anthropic_response_tool.json",
        "type=message, role=assistant, content[].type", "", ".", "content, role, type",
    ),
    _call(
        "anthropic_batch", "results of Anthropic's Message Batches", "",
        "custom_id, result.type", "params", "result.message",
        "params.messages, params.system, result.message.content, result.message.role, result.message.type",
    ),
    _call(
        "bedrock_log", "logs of calls in Amazon Bedrock", "doc/bedrock_invocation_log.jsonl",
        "input.inputBodyJson, output.outputBodyJson", "input.inputBodyJson", "output.outputBodyJson",
        "input.inputBodyJson.messages, input.inputBodyJson.system, output.outputBodyJson.output.message,"
        "output.outputBodyJson.content",
    ),
    _call(
        "bedrock_response", "responses of Bedrock Converse", "bedrock_tool_call.json",
        "output.message.content[], output.message.role", "", ".", "output.message",
    ),
    _call(
        "gemini", "requests to Gemini", "doc/gemini_contents.jsonl",
        "contents[].parts[]", ".", "response",
        "contents, systemInstruction, system_instruction, response.candidates[].content",
    ),
    _call(
        "gemini_call", "calls of Gemini", "",
        "request.contents[].parts[]", "request", "response",
        "request.contents, request.systemInstruction, request.system_instruction, response.candidates[].content",
    ),
    _call(
        "gemini_response", "responses of Gemini", "gemini_response_tool.json",
        "candidates[].content.parts[], !contents", "", ".", "candidates[].content",
    ),
)  # fmt: skip
