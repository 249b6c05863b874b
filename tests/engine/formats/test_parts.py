"""The parts of messages: nothing of them becomes a placeholder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.conversation import Message, ToolCall
from engine.formats.messages.normalize import messages_of
from engine.formats.messages.parts import media_reference
from tests.engine.formats.reading import one


def messages(*items: dict[str, Any]) -> tuple[Message, ...]:
    """The messages of a record with these items."""
    return one(json.dumps({"id": "c", "messages": items}).encode()).conversation.messages


def test_an_answer_of_a_tool_in_a_message_of_the_user_is_the_tools() -> None:
    """A `tool_result` of Anthropic is a tool's message, and the text beside it stays the user's."""
    said = [{"type": "text", "text": "Metropolis"}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": said}
    content = [result, {"type": "text", "text": "Only old ones."}]
    assert messages({"role": "user", "content": content}) == (
        Message("tool", "Metropolis", tool_call_id="t1"),
        Message("user", "Only old ones."),
    )


@pytest.mark.parametrize(
    "call",
    [
        {"type": "tool-call", "toolCallId": "c", "toolName": "sum", "args": {"a": 1}},
        {"type": "tool-call", "toolCallId": "c", "toolName": "sum", "input": {"a": 1}},
        {"toolUse": {"toolUseId": "c", "name": "sum", "input": {"a": 1}}},
        {"functionCall": {"id": "c", "name": "sum", "args": {"a": 1}}},
        {"type": "tool-sum", "toolCallId": "c", "state": "input-available", "input": {"a": 1}},
    ],
    ids=["sdk 4", "sdk 5", "bedrock", "gemini", "sdk ui"],
)
def test_calls_of_other_interfaces_are_calls(call: dict[str, Any]) -> None:
    """A call is a call in the parts of the Vercel AI SDK, Bedrock and Gemini."""
    assert messages({"role": "assistant", "content": [call]}) == (
        Message("assistant", "", tool_calls=(ToolCall("sum", '{"a": 1}', "c"),)),
    )


@pytest.mark.parametrize(
    "answer",
    [
        {
            "type": "tool-result",
            "toolCallId": "c",
            "toolName": "sum",
            "output": {"type": "json", "value": {"s": 2}},
        },
        {"toolResult": {"toolUseId": "c", "name": "sum", "content": [{"json": {"s": 2}}]}},
        {"functionResponse": {"id": "c", "name": "sum", "response": {"s": 2}}},
    ],
    ids=["sdk", "bedrock", "gemini"],
)
def test_answers_of_other_interfaces_are_the_tools_messages(answer: dict[str, Any]) -> None:
    """The answer of a tool is a tool's message in the parts of the Vercel AI SDK, Bedrock and Gemini."""
    assert messages({"role": "user", "content": [answer]}) == (
        Message("tool", '{"s": 2}', "sum", tool_call_id="c"),
    )


def test_parts_of_ui_messages_hold_call_and_answer_in_one() -> None:
    """A tool part of a UI message of the Vercel AI SDK is a call and its answer; the text behind it comes after."""
    assert messages(
        {
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "tool-sum", "toolCallId": "c", "input": {"a": 1}, "output": {"s": 2}},
                {"type": "text", "text": "Two."},
            ],
        }
    ) == (
        Message("assistant", "", tool_calls=(ToolCall("sum", '{"a": 1}', "c"),)),
        Message("tool", '{"s": 2}', tool_call_id="c"),
        Message("assistant", "Two."),
    )


def test_tool_invocations_beside_the_content_are_kept() -> None:
    """The tool invocations of a message of the Vercel AI SDK 4 are calls with their answers, before its text."""
    invocation = {"toolCallId": "c", "toolName": "sum", "args": {"a": 1}, "result": 2}
    found = messages({"role": "assistant", "content": "Two.", "toolInvocations": [invocation]})
    assert found == (
        Message("assistant", "", tool_calls=(ToolCall("sum", '{"a": 1}', "c"),)),
        Message("tool", "2", "sum", tool_call_id="c"),
        Message("assistant", "Two."),
    )


def test_odd_ids_of_calls_stop_nothing() -> None:
    """An id that is neither text nor a number is left out, and the record is read."""
    invocation = {"toolCallId": [5], "toolName": "sum", "args": {"a": 1}, "result": 2}
    found = messages({"role": "assistant", "content": "Two.", "toolInvocations": [invocation]})
    assert found[0].tool_calls == (ToolCall("sum", '{"a": 1}', None),)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_beside_the_content_is_kept(key: str) -> None:
    """Reasoning in a field of the message is its reasoning, and no model reads it."""
    (message,) = messages({"role": "assistant", "content": "42", key: "Six times seven."})
    assert message.reasoning == "Six times seven."
    assert message.seen == "42"


def test_thoughts_of_gemini_are_reasoning() -> None:
    """A text part that is marked as a thought is reasoning."""
    parts = [{"text": "Six times seven.", "thought": True}, {"text": "42"}]
    assert messages({"role": "model", "parts": parts}) == (
        Message("assistant", "42", reasoning="Six times seven."),
    )


@pytest.mark.parametrize("key", ["reasoning", "text", "value"])
def test_the_text_of_a_reasoning_part_is_read_without_its_json(key: str) -> None:
    """A part of type reasoning leaves its text, under whichever of the usual names."""
    parts = [{"type": "reasoning", key: "I look it up."}, {"type": "text", "text": "42"}]
    assert messages({"role": "assistant", "content": parts})[0].reasoning == "I look it up."


def test_parts_about_a_message_are_facts_and_no_text() -> None:
    """Data, sources and requests for leave are no text of a message; a call that was not allowed is answered so."""
    call = {"type": "tool-water", "toolCallId": "c1", "state": "output-denied", "input": {}}
    parts = [
        {"type": "data-progress", "data": {"share": 0.5}},
        {"type": "source-url", "url": "https://example.org"},
        {**call, "approval": {"id": "a1", "approved": False, "reason": "It rains."}},
        {"type": "text", "text": "I did not water them."},
    ]
    called, denied, said = messages_of({"role": "assistant", "parts": parts}, 1)
    assert [(m.role, m.content) for m in (called, denied, said)] == [
        ("assistant", ""),
        ("tool", "It rains."),
        ("assistant", "I did not water them."),
    ]
    assert json.loads(called.facts or "")["parts"] == parts[:2]


def test_the_sender_beside_a_role_is_kept() -> None:
    """`from` is the role only where there is no `role`; else it is kept with what else the log says."""
    (message,) = messages({"role": "user", "content": "Hello", "from": "ann@example.org"})
    assert json.loads(message.facts or "") == {"from": "ann@example.org"}


def test_a_part_of_an_unknown_kind_keeps_its_json() -> None:
    """A part that nobody knows is its JSON, not a placeholder."""
    part = {"type": "hologram", "scene": {"depth": 3, "title": "Église"}}
    (message,) = messages({"role": "user", "content": [{"type": "text", "text": "See"}, part]})
    assert message.content == "See\n" + json.dumps(part, ensure_ascii=False)


@pytest.mark.parametrize(
    ("part", "reference"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}, "https://x.org/a.png"),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}},
            "image/png, 300 bytes",
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "A" * 40},
            },
            "image/jpeg, 30 bytes",
        ),
        ({"type": "image", "source": {"type": "file", "file_id": "file_7"}}, "file_7"),
    ],
)
def test_media_keep_type_and_size(part: dict[str, Any], reference: str) -> None:
    """An image leaves its type and size, or where it is."""
    assert media_reference(part) == f"[image: {reference}]"


def test_the_first_message_has_the_facts() -> None:
    """All of them, also where it is the answer of a tool, which may have failed."""
    answer = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    parts = [answer, {"type": "source", "url": "u"}, {"type": "text", "text": "hi"}]
    first, second = messages_of({"role": "user", "content": parts}, 1, facts={"x": 1})
    facts = {"is_error": True, "x": 1, "parts": [{"type": "source", "url": "u"}]}
    assert json.loads(first.facts or "") == facts
    assert second.facts is None
