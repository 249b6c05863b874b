"""Variants of known formats that were misread without a word: each is read with its roles, order and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.formats.reading import one, parsed


def said(*records: Any) -> list[str]:
    """The messages of the only conversation in these records: role, text, calls and, in brackets, reasoning."""
    return spoken(one("\n".join(map(json.dumps, records)).encode()))


def spoken(found: Any) -> list[str]:
    return [
        " ".join(
            filter(
                None,
                (
                    f"{message.role}:",
                    f"[{message.reasoning}]" if message.reasoning else "",
                    message.content,
                    *(f"{call.name}({call.call_id})" for call in message.tool_calls),
                ),
            )
        )
        for message in found.conversation.messages
    ]


def chat(*items: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Go"}, *items]}


TEXT_CALL_TEXT = [
    {"type": "text", "text": "One."},
    {"type": "tool_use", "id": 7, "name": "f", "input": {}},
    {"type": "text", "text": "Two."},
]
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
ERROR_PART: dict[str, Any] = {
    "type": "tool-f",
    "toolCallId": "1",
    "state": "output-error",
    "input": {},
    "output": None,
    "errorText": "It broke.",
}
DOCUMENT = {
    "type": "document",
    "source": {"type": "content", "content": [{"type": "text", "text": "A page."}]},
    "title": "T",
}


@pytest.mark.parametrize(
    ("item", "read"),
    [
        (
            {"role": "assistant", "content": TEXT_CALL_TEXT},
            ["assistant: One. f(7)", "assistant: Two."],
        ),
        (
            {
                "role": "assistant",
                "parts": [ERROR_PART, {"type": "text", "text": "Sorry."}],
            },
            ["assistant: f(1)", "tool: It broke.", "assistant: Sorry."],
        ),
        (
            {"role": "assistant", "content": "Hi", "reasoning": [{"text": "Hm."}]},
            ["assistant: [Hm.] Hi"],
        ),
        (
            {"role": "assistant", "content": "Hi", "reasoning": {"summary": [{"text": "Hm."}]}},
            ["assistant: [Hm.] Hi"],
        ),
        ({"role": "assistant", "content": "", "refusal": "No."}, ["assistant: No."]),
        (
            {"role": "assistant", "content": None, "audio": {"transcript": "Aloud."}},
            ["assistant: Aloud."],
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_call", "name": "f", "args": {}}]},
            ["assistant: f(None)"],
        ),
        ({"role": "user", "content": [DOCUMENT]}, ["user: [file: T]\nA page."]),
    ],
)
def test_parts_keep_order_and_words(item: dict[str, Any], read: list[str]) -> None:
    """Text after a call comes after it; errors, reasoning, refusals, speech and files in parts are read."""
    assert said(chat(item)) == ["user: Go", *read]


@pytest.mark.parametrize("told", [{"is_error": True}, {"status": "error"}])
def test_a_failed_tool_is_told(told: dict[str, Any]) -> None:
    """What a log says of the failure of a tool stands beside its answer."""
    part = {"type": "tool_result", "tool_use_id": "a", "content": "bad", **told}
    answer = one(json.dumps(chat({"role": "user", "content": [part]})).encode())
    assert json.loads(answer.conversation.messages[1].facts or "{}") == told


def test_an_unknown_role_in_a_trace_is_counted() -> None:
    """A role that is no known word is read as the assistant's under its name, and the account counts it."""
    asked = [{"role": "user", "content": "Hi"}, {"role": "planner", "content": "I plan."}]
    span = {
        "traceId": "t",
        "spanId": "s",
        "attributes": {"gen_ai.input.messages": json.dumps(asked), "gen_ai.system": "x"},
    }
    found = one(json.dumps(span).encode())
    assert spoken(found) == ["user: Hi", "assistant: I plan."]
    assert found.account.unknown["role planner"].times == 1


def test_a_row_of_an_unknown_role_leaves_the_others() -> None:
    """One bad row costs no conversation: it is kept as metadata, and counted."""
    rows = [
        {"conversation_id": "a", "role": role, "content": text}
        for role, text in (("user", "Hi"), ("ROBOT", "Beep boop"), ("assistant", "Good day"))
    ]
    found = one("\n".join(map(json.dumps, rows)).encode())
    assert spoken(found) == ["user: Hi", "assistant: Good day"]
    assert found.account.unknown["row of ROBOT"].times == 1
    assert "Beep boop" in json.dumps(found.conversation.meta["rows not read"])


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v A>Hi\n\n00:03.000 --> 00:04.000\n<v B>Ho\n",
        "01/02/2024, 10:00 - A: Hi\n01/02/2024, 10:01 - B: Ho\n",
    ],
)
def test_people_called_a_and_b_are_no_answers(text: str) -> None:
    """Where speakers are called A and B the first is the user; A answers only where Q asks."""
    assert spoken(one(text.encode())) == ["user: Hi", "assistant: Ho"]
    assert spoken(one(b"Q: Hi\nA: Ho\n")) == ["user: Hi", "assistant: Ho"]


def test_events_of_genai_may_be_log_records() -> None:
    """The log records of OTLP are read as the events of the span that they name, also those of several lines."""
    words = (("user", "Where is it?"), ("choice", "In Kiel."))
    logs = [
        {
            "timeUnixNano": f"170000000000000000{number}",
            "attributes": [
                {
                    "key": "event.name",
                    "value": {
                        "stringValue": f"gen_ai.{kind}" + (".message" if kind == "user" else "")
                    },
                }
            ],
            "traceId": "t",
            "spanId": "s",
            "body": {
                "kvlistValue": {"values": [{"key": "content", "value": {"stringValue": text}}]}
            },
        }
        for number, (kind, text) in enumerate(words)
    ]
    for lines in ([logs], [logs[:1], logs[1:]]):
        records = [{"resourceLogs": [{"scopeLogs": [{"logRecords": line}]}]} for line in lines]
        assert said(*records) == ["user: Where is it?", "assistant: In Kiel."]


@pytest.mark.parametrize(
    "events",
    [
        [
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "In "}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Kiel."}},
            {"type": "content_block_start", "index": 1, "content_block": USE},
            {"type": "content_block_delta", "index": 1, "delta": {"partial_json": "{}"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ],
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "In "}}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Kiel."}}},
            {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}},
            {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{}"}}}},
            {"messageStop": {"stopReason": "end_turn"}},
        ],
    ],
    ids=["anthropic", "converse"],
)  # fmt: skip
def test_a_streamed_answer_is_put_together(events: list[Any]) -> None:
    """The answer of a logged call that was streamed is the message that its events add up to."""
    call = {
        "requestId": "q",
        "input": {"inputBodyJson": {"messages": [{"role": "user", "content": "Where?"}]}},
        "output": {"outputBodyJson": events},
    }
    assert said(call) == ["user: Where?", "assistant: In Kiel. f(t)"]


def test_messages_of_one_second_that_are_listed_newest_first() -> None:
    """Rows whose times only fall are turned over as they stand, also those of the same time."""
    rows = [
        {"thread_id": "t", "created_at": time, "role": "user", "content": text}
        for time, text in ((20, "third"), (10, "second"), (10, "first"))
    ]
    (found,) = parsed("\n".join(map(json.dumps, rows)).encode())
    assert [message.content for message in found.conversation.messages] == [
        "first",
        "second",
        "third",
    ]


def test_the_question_and_the_tools_beside_a_response_are_kept() -> None:
    """A logged response has its question as a message, and items that are no messages among its facts."""
    tools = {"type": "mcp_list_tools", "tools": [{"name": "find", "description": "Finds things."}]}
    answer = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "There."}],
    }
    found = one(
        json.dumps({"object": "response", "input": "Where?", "output": [tools, answer]}).encode()
    )
    assert spoken(found) == ["user: Where?", "assistant: There."]
    assert "Finds things." in str(found.conversation.messages[1].facts)


@pytest.mark.parametrize("key", ["conversation_id", "conversationId", "thread_id", "threadId"])
def test_a_conversation_has_the_id_of_its_record(key: str) -> None:
    """The id of a conversation is found under the usual names, also in camel case."""
    assert one(json.dumps({key: "c-7", **chat()}).encode()).conversation.external_id == "c-7"
