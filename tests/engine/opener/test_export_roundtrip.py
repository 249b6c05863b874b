"""What is exported in the uniform form is imported again as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.conversation import Conversation, Message, ToolCall
from engine.formats.inputs import open_inputs
from engine.formats.json_values import json_text
from engine.formats.leaks import guard
from engine.formats.records import Parsed, Rejected
from engine.opener.conversation_forms import (
    ENDINGS,
    RECORD_MAKERS,
    ConversationForm,
    ExportedConversation,
    write_form,
)
from engine.opener.exports import conversation_line
from tests.engine.formats.test_golden import INPUTS

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
TABLES = st.dictionaries(
    st.sampled_from(["score", "messages", "meta", "dataset", "when", "x"]), VALUES, max_size=3
)
CALLS = st.builds(ToolCall, NAMES, TEXTS, st.none() | NAMES)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    TEXTS,
    st.none() | NAMES,
    st.lists(CALLS, max_size=2).map(tuple),
    st.none() | NAMES,
    reasoning=st.none() | TEXTS.filter(bool),
    facts=st.none() | st.dictionaries(
        st.sampled_from(["role", "content", "timestamp", "name", "facts", "reasoning"]), VALUES, min_size=1, max_size=3
    ).map(json_text),
)  # fmt: skip
CONVERSATIONS = st.builds(
    Conversation,
    NAMES,
    st.lists(MESSAGES, min_size=1, max_size=4).map(tuple),
    TABLES,
    st.none() | TABLES,
    st.none() | st.just("2025-01-01T10:00:00Z"),
).map(lambda conversation: guard(conversation)[0])

OBJECTS = st.dictionaries(NAMES, VALUES, max_size=2).map(json_text)
PLAIN_MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), TEXTS.filter(str.strip)),
    st.builds(
        Message,
        st.just("assistant"),
        TEXTS.filter(str.strip),
        tool_calls=st.lists(st.builds(ToolCall, NAMES, OBJECTS, NAMES), max_size=2).map(tuple),
        reasoning=st.none() | TEXTS.filter(str.strip),
    ),
)
PLAIN = st.builds(
    Conversation,
    NAMES.filter(lambda name: not name.isdecimal()),
    st.lists(PLAIN_MESSAGES, min_size=1, max_size=4).map(tuple),
)
"""Conversations with the parts that all reversible forms have a place for."""


def again(conversations: Sequence[Conversation], folder: Path) -> list[Conversation]:
    """The conversations, exported and imported."""
    file = folder / "export.jsonl"
    lines = [json.dumps(conversation_line(one, "logs/a.jsonl")) for one in conversations]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    (found,) = open_inputs([file])
    assert found.detection.format == "uniform"
    read = []
    for record in found.records():
        assert isinstance(record, Parsed), record
        assert record.account.chars.get("nowhere", 0) == 0
        read.append(record.conversation)
    return read


@settings(max_examples=200, deadline=None)
@given(CONVERSATIONS)
def test_any_conversation(
    tmp_path_factory: pytest.TempPathFactory, conversation: Conversation
) -> None:
    """Messages, calls, reasoning, facts, metadata, truth, time, id, and what models may not see come back the same."""
    # Not `mktemp`: it finds a free number by reading all earlier names.
    assert again([conversation], tmp_path_factory.getbasetemp()) == [conversation]


@pytest.fixture(scope="module")
def golden() -> list[Conversation]:
    """The conversations of every format, with ids of their own."""
    return [
        replace(record.conversation, external_id=f"{path.name} {record.conversation.external_id}")
        for path in INPUTS
        for opened in open_inputs([path], format=path.name.split(".")[0])
        for record in opened.records()
        if isinstance(record, Parsed)
    ]


def test_golden_files(golden: list[Conversation], tmp_path: Path) -> None:
    """The conversations of every format come back the same."""
    assert again(golden, tmp_path) == golden


READ_AS: dict[ConversationForm, str] = {
    "openai": "openai",
    "anthropic": "openai",
    "sharegpt": "sharegpt",
    "inspect": "inspect",
    "csv": "rows",
    "parquet": "rows",
}
"""The formats in which an import reads the forms; tasks of Label Studio are not read."""


def in_form(
    form: ConversationForm, read: Sequence[Conversation], path: Path, left_behind: Counter[str]
) -> list[Any]:
    """The conversations, written in a form and read again, in the order of their ids."""
    items = [
        ExportedConversation(one, "logs/a.jsonl", f"key{number}", {}, one.truth is not None)
        for number, one in enumerate(read)
    ]
    write_form(RECORD_MAKERS[form](items, left_behind), form, path, "demo", formulas=True)
    (written,) = open_inputs([path], format=READ_AS[form])
    return list(written.records())


@pytest.mark.parametrize("form", READ_AS)
def test_forms_of_others(
    golden: list[Conversation], form: ConversationForm, tmp_path: Path
) -> None:
    """In the form of others, what is said and called is read as the same by an import, and losses are counted."""
    left_behind: Counter[str] = Counter()
    records = in_form(form, golden, tmp_path / f"export.{ENDINGS[form]}", left_behind)
    assert [one for one in records if isinstance(one, Rejected)] == []
    for before, record in zip(golden, records, strict=True):
        assert isinstance(record, Parsed)
        after = record.conversation
        assert said(after) == said(before)
        assert [call.name for one in after.messages for call in one.tool_calls] == [
            call.name for one in before.messages for call in one.tool_calls
        ]
    facts = sum(message.facts is not None for one in golden for message in one.messages)
    kept = form in ("inspect", "csv", "parquet")
    assert left_behind["times and other facts"] == (0 if kept else facts)


@pytest.mark.parametrize("form", ["inspect", "csv", "parquet"])
@settings(max_examples=40, deadline=None)
@given(PLAIN)
def test_texts_of_any_conversation(
    tmp_path_factory: pytest.TempPathFactory, form: ConversationForm, conversation: Conversation
) -> None:
    """Roles, texts, calls and reasoning of any conversation come back the same from an Inspect log and from tables."""
    path = tmp_path_factory.getbasetemp() / f"export.{ENDINGS[form]}"
    (record,) = in_form(form, [conversation], path, Counter())
    assert isinstance(record, Parsed), record
    after = record.conversation.messages
    assert [core(one) for one in after] == [core(one) for one in conversation.messages]
    assert record.conversation.truth in (None, {"target": ""})  # which a log of Inspect must have


def core(message: Message) -> tuple[Any, ...]:
    """What a message says; arguments of calls as JSON values."""
    calls = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    return message.role, message.content, message.reasoning or None, calls


def said(conversation: Conversation) -> set[str]:
    """The lines of all texts."""
    return {line for one in conversation.messages for line in one.content.split("\n") if line}
