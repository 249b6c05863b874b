"""Whatever the bytes are, each record is either read or rejected; nothing is raised, nothing lost."""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.conversation import content_hash, render_log
from engine.base.errors import Cancelled, FormatError
from engine.formats import registry
from engine.formats.records import Parsed, Rejected
from tests.engine.formats.reading import one, read
from tests.engine.formats.test_golden import INPUTS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=10)
    | st.sampled_from(["\0", "\ud800", "###STOP###", "user", "assistant", "Action: submit"])
)
KEYS = [
    *("id", "messages", "role", "content", "from", "value", "conversations", "tool_calls"),
    *("function", "name", "arguments", "traj", "task_id", "truth", "reward", "metadata"),
    *("type", "text", "\ud801"),
]
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
CALL = {"id": "c", "function": {"name": "finish", "arguments": '{"answer": 1}'}}
VALID: dict[str, Any] = {
    "id": 1,
    "created": 1.5e9,
    "metadata": {"score": 1},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "function_call": CALL},
        {"role": "tool", "tool_call_id": "c", "name": "finish", "content": "Reward: 1.0"},
    ],
}
"""A valid record of the format `openai`."""

FORMAT = st.sampled_from(["uniform", "openai", "sharegpt", "tau_bench", "sharded_logs", "messages"])
JSON_INPUTS = [path for path in INPUTS if path.suffix in (".json", ".jsonl")]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything within a JSON value."""
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


def check(record: Parsed | Rejected) -> None:
    """Asserts that a record can be stored, shown to a model and exported."""
    if isinstance(record, Rejected):
        assert record.reason
        return
    conversation = record.conversation
    assert conversation.messages
    everything = [conversation.external_id, conversation.created_at or ""]
    for message in conversation.messages:
        everything += [
            message.content,
            message.name or "",
            message.tool_call_id or "",
            message.seen,
        ]
        for call in message.tool_calls:
            everything += [call.name, call.arguments, call.call_id or ""]
        assert not message.hidden or message.model_view == ""
    everything += [leak.found for leak in record.leaks]
    everything += [piece.text for piece in render_log(conversation.messages)]
    for extra in (conversation.meta, conversation.truth):
        everything.append(json.dumps(extra, ensure_ascii=False, allow_nan=False))
    for text in everything:
        text.encode("utf-8")
    content_hash(conversation.messages)


@given(st.lists(JSON, max_size=4), FORMAT)
def test_wrong_types_in_lines(values: list[Any], format: str) -> None:
    """Every line of JSON Lines with arbitrary JSON is read or rejected, in order."""
    rows = [json.dumps(value).encode() for value in values]
    # A closing line keeps the whole from being taken for a single document.
    records = read(b"\n".join([*rows, b"{}", b"{}", b"{}", b"{}"]), format)
    assert [record.line for record in records] == list(range(1, len(rows) + 5))
    assert [record.raw for record in records[: len(rows)]] == rows
    for record in records:
        check(record)


@cache
def records(path: Path) -> list[Any]:
    """The JSON values of a golden input."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines()]


@settings(max_examples=4 * len(JSON_INPUTS))
@given(st.sampled_from(JSON_INPUTS), st.data())
def test_mutated_golden_records(path: Path, data: st.DataObject) -> None:
    """A golden input with one to four values replaced or taken away gives conversations or rejected records."""
    values = copy.deepcopy(records(path))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.sampled_from([*places(values)] or [()]))
        if not where:
            break
        parent = values
        for key in where[:-1]:
            parent = parent[key]
        if data.draw(st.booleans()):
            parent[where[-1]] = data.draw(JSON)
        else:
            del parent[where[-1]]
    rows = b"\n".join(json.dumps(value).encode() for value in values)
    for record in read(rows, path.name.split(".")[0]):
        check(record)


@given(st.data())
def test_damaged_records_do_not_hide_the_next(data: st.DataObject) -> None:
    """A line in which one byte was changed costs at most that line."""
    good = json.dumps(VALID).encode()
    row = bytearray(good)
    position = data.draw(st.integers(0, len(row) - 1))
    row[position] = data.draw(st.integers(0, 255).filter(lambda byte: byte not in b"\r\n"))
    records = read(b"\n".join([good, bytes(row), good]), "openai")
    by_line = {record.line: record for record in records}
    assert isinstance(by_line[1], Parsed)
    assert isinstance(by_line[3], Parsed)
    for record in records:
        check(record)


@given(st.data())
def test_gzip_cut_anywhere(data: st.DataObject) -> None:
    """A gzip file cut at any byte gives a beginning of its records and one rejected tail."""
    rows = [json.dumps({**VALID, "id": n}).encode() for n in range(30)]
    packed = gzip.compress(b"\n".join(rows) + b"\n")
    cut = data.draw(st.integers(2, len(packed) - 1))
    *whole, tail = read(packed[:cut], "openai")
    assert [record.raw for record in whole] == rows[: len(whole)]
    assert isinstance(tail, Rejected)


@given(st.binary(max_size=200))
def test_detection_reads_or_says_why_not(data: bytes) -> None:
    """Without a chosen format the bytes are read, or refused with an error and a hint."""
    try:
        records = read(data)
    except FormatError as error:
        refusal = error
    else:
        for record in records:
            check(record)
        return
    assert refusal.message
    assert refusal.hint


@pytest.mark.parametrize("depth", [150, 250, 100_000])
@pytest.mark.parametrize("key", ["meta", "truth", "arguments"])
def test_deep_nesting(depth: int, key: str) -> None:
    """Nesting is read up to a limit and rejected beyond it, wherever it occurs."""
    deep = "[" * depth + "]" * depth
    call = f'{{"name": "a", "arguments": {deep if key == "arguments" else 1}}}'
    fields = f', "{key}": {{"a": {deep}}}' if key != "arguments" else ""
    row = (
        f'{{"truth": {{}}, "messages": [{{"role": "user", "content": "", "tool_calls": [{call}]}}]{fields}}}'
    ).encode()
    for data in (row + b"\n" + row, b"[" + row + b"]"):
        for record in read(data, "uniform"):
            check(record)
            assert isinstance(record, Parsed) == (depth < 198)
            if isinstance(record, Rejected):
                assert record.reason == "nesting too deep"


def test_surrogates_are_replaced_everywhere() -> None:
    """Lone surrogates become U+FFFD in contents, names, ids, meta and truth; whole pairs stay emoji."""
    row = (
        rb'{"id": "a\ud800", "truth": {"g\udc00": "\uD800"}, "x\ud800": ["\ud800"], "messages": [{"role": '
        rb'"user", "name": "n\ud800", "content": "hi \ud83d\ude80 \ud83d"}]}'
    )
    found = one(row)
    conversation = found.conversation
    assert found.raw == row
    assert conversation.external_id == "a\ufffd"
    assert conversation.truth == {"g\ufffd": "\ufffd"}
    assert conversation.meta == {"x\ufffd": ["\ufffd"]}
    assert conversation.messages[0].name == "n\ufffd"
    assert conversation.messages[0].content == "hi \U0001f680 \ufffd"


def test_numbers_that_json_cannot_write_become_null() -> None:
    """NaN and infinities in meta and truth are null, so that both can be written as JSON again."""
    row = b'{"truth": {"a": NaN, "b": 1e999, "c": 1.5}, "z": -Infinity, "messages": [{"role": "user", "content": ""}]}'
    conversation = one(row).conversation
    assert conversation.truth == {"a": None, "b": None, "c": 1.5}
    assert conversation.meta == {"z": None}
    assert math.isfinite(conversation.truth["c"])


def test_nul_and_duplicate_keys() -> None:
    """NUL characters are kept, and of duplicate keys the last counts."""
    row = b'{"id": "a", "id": "b", "messages": [{"role": "user", "content": "x\\u0000y"}]}'
    conversation = one(row).conversation
    assert conversation.external_id == "b"
    assert conversation.messages[0].content == "x\0y"


@pytest.mark.parametrize("place", ["guard", "account_for"])
def test_a_fault_of_the_program_costs_one_record(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record at which the program fails is rejected with line and reason, and the next is read; a cancelled reading
    is no such fault."""
    whole = getattr(registry, place)
    fault: Exception = KeyError("x")

    def fails_once(*arguments: Any) -> Any:
        """Does what it replaces, but fails at the second record."""
        if "second" in repr(arguments):
            raise fault
        return whole(*arguments)

    monkeypatch.setattr(registry, place, fails_once)
    rows = [json.dumps({**VALID, "id": name}).encode() for name in ("first", "second", "third")]
    first, second, third = read(b"\n".join(rows), "openai")
    assert isinstance(first, Parsed)
    assert isinstance(third, Parsed)
    assert isinstance(second, Rejected)
    assert second.line == 2
    assert "KeyError in" in second.reason
    fault = Cancelled("stopped")
    with pytest.raises(Cancelled):
        read(b"\n".join(rows), "openai")


ODD_ITEMS = [
    {"type": "message", "role": "assistant", "content": "a", "items": {}},
    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1", "items": "y"},
    {"type": "function_call_output", "call_id": "1"},
    {"type": "reasoning", "summary": [{"text": "so"}], "reasoning_content": 4},
    {"type": "odd"},
]


def test_keys_that_mean_something_else_fail_no_reader() -> None:
    """Items of the Responses API with the names of what is made of them, and odd messages of a span, are read; a tool
    that answered nothing has an empty text."""
    span = {"spanId": "1", "attributes.llm.input_messages": ["odd", {"message.role": "tool"}]}
    read(json.dumps(span).encode())
    found = one(
        json.dumps({"input": [{"role": "user", "content": "a"}], "output": ODD_ITEMS}).encode()
    )
    assert "" in [
        message.content for message in found.conversation.messages if message.role == "tool"
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-32-le", "utf-32-be"])
def test_files_with_a_byte_order_mark_may_follow_each_other(encoding: str) -> None:
    """Text in any Unicode encoding is read, and a byte order mark before a later record is no part of it."""
    row = json.dumps(VALID)
    for text in (f"{row}\n\ufeff{row}\n", f"{row} \ufeff{row}".replace(", ", ",\n")):
        assert [type(record) for record in read(text.encode(encoding))] == [Parsed, Parsed]
