"""A large object with a long list in it is read in slices, and gives the same conversations as in one piece."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import FormatError
from engine.formats.opening import framing
from engine.formats.opening import json_records as values
from engine.formats.opening.framing import Frame
from engine.formats.opening.json_records import Slices
from engine.formats.opening.source import Source
from engine.formats.records import Account, Parsed, Rejected
from tests.engine.formats.reading import opened, read

SAMPLES = [
    {"id": n, "messages": [{"role": "user", "content": f"{n} " + "wörd " * (n % 7 * 10)}]}
    for n in range(400)
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything over a megabyte is large, and slices have ten kilobytes."""
    monkeypatch.setattr(values, "LARGE", 1 << 20)
    monkeypatch.setattr(values, "SLICE", 10 << 10)
    monkeypatch.setattr(values, "_LARGEST_FIELD", 100 << 10)


def slices_of(data: bytes) -> list[Frame]:
    """The slices of an object."""
    return list(Slices(Source(io.BytesIO(data))))


def contents_of(records: list[Parsed | Rejected]) -> list[str]:
    """What is said in conversations, and why records were rejected."""
    return [
        r.conversation.messages[0].content if isinstance(r, Parsed) else f"! {r.reason}"
        for r in records
    ]


def account_of(records: list[Parsed | Rejected]) -> Account:
    """Where the text of records went."""
    account = Account()
    for record in records:
        if isinstance(record, Parsed):
            account.include(record.account)
    return account


LONG = {"version": 1, "samples": SAMPLES * 40, "note": "the end"}
"""More than 1 MiB, from which an object may be large."""


@pytest.mark.usefixtures("small")
def test_records_in_a_list_of_a_large_object() -> None:
    """The conversations of a large object are those of a small one, with the same ids and places."""
    data = json.dumps(LONG, ensure_ascii=False).encode()
    sliced = read(data)
    assert len(slices_of(data)) > 50
    values.LARGE = 1 << 30
    whole = read(data)
    assert contents_of(sliced) == contents_of(whole)
    assert [(r.line, r.raw) for r in sliced] == [(r.line, r.raw) for r in whole]
    ids = [[r.conversation.external_id for r in one if isinstance(r, Parsed)] for one in (sliced, whole)]  # fmt: skip
    assert ids[0] == ids[1]
    assert [accounts.total for accounts in map(account_of, (sliced, whole))] == [
        sum(len(content) for content in contents_of(whole)) + len("the end")
    ] * 2


@pytest.mark.usefixtures("small")
def test_one_large_conversation_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object whose long list are the messages of one conversation is read in one piece, or refused."""
    message = {"role": "user", "content": "word " * 2000}
    data = json.dumps({"messages": [message] * 200}).encode()
    (record,) = read(data)
    assert isinstance(record, Parsed)
    assert len(record.conversation.messages) == 200
    for module in (framing, values, values):
        monkeypatch.setattr(module, "MAX_RECORD", 1 << 20)
    with pytest.raises(FormatError, match="larger than 1 MiB"):
        opened(data)


@pytest.mark.usefixtures("small")
def test_large_object_that_ends_early() -> None:
    """Of an object that was cut off, all whole records are read, and the end is told."""
    data = json.dumps(LONG).encode()
    whole = contents_of(read(data))
    cut = contents_of(read(data[: len(data) // 2]))
    assert len(cut) > 1000
    assert cut[:-1] == whole[: len(cut) - 1]
    assert cut[-1] == "! the file was cut off"
    middle = data.index(b'{"id": 7,', len(data) // 2)
    broken = contents_of(read(data[:middle] + b"@" + data[middle:]))
    assert broken[:-1] == whole[: len(broken) - 1]
    assert broken[-1] == "! element is not JSON: Expecting value at character 1"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
json_values = st.recursive(
    st.none() | st.integers() | texts,
    lambda value: st.lists(value, max_size=3) | st.dictionaries(texts, value, max_size=3),
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(texts, json_values, max_size=3),
    st.lists(json_values, min_size=1, max_size=30),
    st.dictionaries(texts, json_values, max_size=3),
    st.booleans(),
)
def test_slices_have_all_of_an_object(
    before: dict[str, Any], elements: list[Any], after: dict[str, Any], spread: bool
) -> None:
    """All fields and all elements of a list are in the slices, in order, whatever they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "SLICE", 40)
        patch.setattr(values, "_LARGEST_FIELD", 400)
        long = [*elements, *["x" * 50] * 20, *elements]
        whole = {**before, "the list": long}
        whole |= {key: value for key, value in after.items() if key not in whole}
        found_slices = slices_of(json.dumps(whole, indent=2 if spread else None).encode())
    assert [frame.reason for frame in found_slices] == [None] * len(found_slices)
    found = [element for frame in found_slices for element in frame.value.get("the list", [])]
    assert found == long
    assert {**found_slices[0].value, **found_slices[-1].value} == {
        **whole,
        "the list": found_slices[-1].value["the list"],
    }
    counts = [len(frame.value["the list"]) for frame in found_slices]
    assert [frame.before for frame in found_slices] == [sum(counts[:n]) for n in range(len(counts))]


@pytest.mark.usefixtures("small")
def test_entries_of_a_large_object_of_objects() -> None:
    """An object with an object for each conversation is read some entries at a time."""
    entries = {f"SNG{n}": {**SAMPLES[n % 400], "id": f"a{n}"} for n in range(16_000)}
    found_slices = slices_of(json.dumps(entries).encode())
    assert len(found_slices) > 20
    assert {key: value for frame in found_slices for key, value in frame.value.items()} == entries
    assert len(read(json.dumps(entries).encode())) == 16_000
