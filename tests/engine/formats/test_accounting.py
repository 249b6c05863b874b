"""The account of a source: all its text went somewhere, and what went nowhere is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats.records import Account, SourceReport
from tests.engine.formats.reading import one, opened, parsed

LONG = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=40
).map(lambda text: f"{text} and so on, to the end")


def account_of(record: Any) -> Account:
    """The account of one record."""
    return one(json.dumps(record).encode()).account


@given(st.lists(LONG, min_size=2, max_size=8), LONG, LONG)
def test_text_in_is_text_out(texts: list[str], note: str, thought: str) -> None:
    """The text of messages, calls, answers, reasoning and other fields is counted where it went, to the character."""
    *spoken, argument = texts
    record = {
        "id": "c",
        "messages": [
            *({"role": "user", "content": text} for text in spoken),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": thought},
                    {"type": "tool_use", "id": "t", "name": "look", "input": {"for": argument}},
                ],
            },
        ],
        "note": note,
    }
    found = account_of(record)
    assert found.lost == {}
    kept = len("".join(texts)) + len(note) + len(thought) + len("c" + "t" + "look")
    assert found.total == kept


def test_what_was_not_read_is_named_by_its_path() -> None:
    """Text that no message, call, field or truth has is counted as nowhere, under its path, with an example."""
    record = {
        "id": "c",
        "messages": [{"role": "assistant", "content": "Yes.", "tool_calls": []}],
        "choices": [
            {"message": {"role": "assistant", "content": "Yes."}},
            {"message": {"role": "assistant", "content": "No, for a reason that is lost."}},
        ],
    }
    found = account_of(record)
    assert found.warns
    (path,) = found.lost
    assert path == "choices[].message.content"
    assert found.lost[path].example == "No, for a reason that is lost."
    assert found.chars["nowhere"] == len("No, for a reason that is lost.")


def test_unknown_parts_are_counted_by_kind_and_kept() -> None:
    """A part of an unknown kind is counted with an example, and its text is in a message."""
    part = {"type": "hologram", "scene": "a long corridor with doors"}
    found = account_of({"messages": [{"role": "user", "content": [part, part]}]})
    assert found.unknown["hologram"].times == 2
    assert found.lost == {}


def test_text_that_is_cut_into_messages_is_not_lost() -> None:
    """The copy of the calls at the end of a text of the uniform form counts as calls."""
    call = {"id": "c1", "name": "book", "arguments": '{"to": "ZRH"}'}
    text = 'I book it.\nTOOL CALLS: [{"name": "book", "args": {"to": "ZRH"}}]'
    record = {
        "id": "c",
        "dataset": "d",
        "messages": [{"role": "assistant", "content": text, "tool_calls": [call]}],
    }
    assert account_of(record).lost == {}


def test_words_of_a_lost_sentence_are_lost() -> None:
    """A sentence that went nowhere does not count as read in part because its words are values elsewhere."""
    lost = "Anna closed the ticket, for a reason that nobody reads."
    record = {
        "id": "c",
        "status": "closed",
        "agent": "Anna",
        "messages": [{"role": "user", "content": "Hello there"}],
        "choices": [{"message": {"role": "assistant", "content": text}} for text in ("Hi!", lost)],
    }
    assert account_of(record).lost["choices[].message.content"].chars == len(lost)


def test_calls_written_as_json_text_are_calls() -> None:
    """The texts of a call that a log has as JSON text count as a call, though its arguments are written anew."""
    call = '{"name":"book","arguments":{"to":"ZRH"}}'
    record = {
        "conversations": [
            {"from": "human", "value": "Go."},
            {"from": "function_call", "value": call},
        ]
    }
    assert account_of(record).chars == {"messages": 3, "calls": len("bookZRH")}


def test_reports_add_up() -> None:
    """The report of a source counts conversations, messages and rejected records, and adds their accounts."""
    row = json.dumps({"messages": [{"role": "user", "content": "a question"}]}).encode()
    source = opened(b"\n".join([row, b"{broken", row]))
    report = SourceReport(source.label, source.detection)
    for record in source.records():
        report.count(record)
    assert (report.conversations, report.messages, report.rejected) == (2, 2, 1)
    assert report.account.chars == {"messages": 2 * len("a question")}


def test_what_is_kept_from_models_is_counted_by_rule() -> None:
    """The account tells by rule, and for a field by its name, what the leak guard hid, with an example."""
    record = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "Action: submit"},
        ],
        "reward": 1,
    }
    account = one(json.dumps(record).encode()).account
    assert {name: (seen.times, seen.example) for name, seen in account.hidden.items()} == {
        "finish-marker": (1, "Action: submit"),
        "truth-field reward": (1, "reward = 1"),
    }


def test_short_text_within_another_is_not_kept() -> None:
    """A word is not counted as read because a sentence happens to have it; a line or a value of its own is."""
    sentence = "I am angry about this, and John too"
    choices = [{"message": {"role": "assistant", "content": text}} for text in ("Sorry!", "angry")]
    for text, lost in ((sentence, ["choices[].message.content"]), ("so\nangry\nam I", [])):
        record = {"id": "c", "messages": [{"role": "user", "content": text}], "choices": choices}
        assert list(account_of(record).lost) == lost


ITEM = {"type": "brand_new", "note": "Something that no program knew of so far."}
"""An item of the Responses API that is of no known kind."""
CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
"""An item that is a call."""


def as_log(items: list[Any]) -> bytes:
    """A logged call with these items as its answer."""
    asked = [{"role": "user", "content": "Where is the store?"}]
    return json.dumps({"request": {"input": asked}, "response": {"output": items}}).encode()


def as_stream(items: list[Any]) -> bytes:
    """The events of a stream with these items."""
    kind = "response.output_item.done"
    events = [{"type": kind, "output_index": n, "item": item} for n, item in enumerate(items)]
    return b"\n".join(json.dumps(event).encode() for event in events)


def as_rollout(items: list[Any]) -> bytes:
    """The lines of a session of Codex with these items."""
    lines = [
        {"type": "response_item", "timestamp": "2026-01-01", "payload": item} for item in items
    ]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@pytest.mark.parametrize("write", [as_log, as_stream, as_rollout])
@pytest.mark.parametrize("items", [[ITEM, CALL], [CALL, ITEM]])
def test_items_of_no_known_kind_stay_and_are_counted(
    write: Callable[[list[Any]], bytes], items: list[Any]
) -> None:
    """What is neither a message nor a call is in the conversation, is counted as unknown, and nothing goes nowhere."""
    record = one(write(items))
    facts = [json.loads(message.facts or "{}") for message in record.conversation.messages]
    assert ITEM["note"] in json.dumps([facts, record.conversation.meta])
    assert record.account.unknown["brand_new"].times == 1
    assert record.account.lost == {}


def test_a_text_beside_items_stays_and_is_counted() -> None:
    """A text among the items of an answer, which is no item, is in the conversation and counted as unknown."""
    record = one(as_log([CALL, "A loose text."]))
    assert "A loose text." in (record.conversation.messages[1].facts or "")
    assert record.account.unknown["text"].times == 1
    assert record.account.lost == {}


NOTE = "This note stands beside the conversations and says something."


@pytest.mark.parametrize(
    "rows",
    [
        [
            {"session_id": f"{n // 2}", "role": "user", "content": "Where is it now?"}
            for n in range(9)
        ],
        [{"messages": [{"role": "user", "content": f"Where is number {n}?"}]} for n in range(9)],
    ],
)
def test_text_beside_wrapped_records_is_kept_and_counted(rows: list[Any]) -> None:
    """The first conversation of a wrapped list, grouped or not, has what stands beside the list as metadata."""
    first, *others = parsed(json.dumps({"note": NOTE, "rows": rows}).encode())
    assert first.conversation.meta["shared"] == {"note": NOTE}
    assert first.account.chars["metadata"] >= len(NOTE)
    assert not any("shared" in other.conversation.meta for other in others)


SPAN = {"traceId": "t", "spanId": "1", "attributes": {"gen_ai.prompt": "What?"}}
OBSERVATION = {"id": "1", "traceId": "t", "type": "GENERATION", "input": "What?", "output": "So."}


@pytest.mark.parametrize(
    "record",
    [
        {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN, {"spanId": "2", "name": NOTE}]}]}]},
        {"resourceSpans": [NOTE, {"scopeSpans": [NOTE, {"spans": [NOTE, SPAN]}]}]},
        {"traceID": "t", "spans": [SPAN, {"spanID": "2", "logs": [NOTE]}]},
        {"trace": {"id": "t"}, "observations": [OBSERVATION, NOTE], "note": NOTE},
        {
            "info": {"trace_id": "t"},
            "data": {"spans": [NOTE, {"inputs": "What?", "outputs": "So."}]},
        },
        {"post": [{"id": "1", "run_type": "llm", "inputs": {"input": "What?"}}, NOTE]},
        {
            "message_tree_id": "t",
            "prompt": {"text": "What?", "role": "prompter", "replies": [NOTE]},
        },
    ],
)
def test_what_stands_among_spans_or_nodes_and_is_none_is_counted(record: Any) -> None:
    """A span without attributes, and a text among spans or replies, stay with the conversation and in the account."""
    found = one(json.dumps(record).encode())
    assert found.account.chars["metadata"] >= json.dumps(record).count(NOTE) * len(NOTE)
    assert NOTE in repr(found.conversation)
