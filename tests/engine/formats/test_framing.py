"""Records are cut out of files one at a time; a broken one does not affect the others."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.opening import framing
from engine.formats.opening import json_records as values
from engine.formats.opening.framing import Frame
from engine.formats.opening.json_records import Slices
from engine.formats.opening.source import Source
from engine.formats.records import Account, Parsed, Rejected
from tests.engine.formats.reading import opened, parsed, read

SAMPLES = [
    {"id": n, "messages": [{"role": "user", "content": f"{n} " + "wörd " * (n % 7 * 10)}]}
    for n in range(400)
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything over 100 KiB is large, and slices have one KiB."""
    monkeypatch.setattr(values, "LARGE", 100 << 10)
    monkeypatch.setattr(values, "SLICE", 1 << 10)
    monkeypatch.setattr(values, "_MAX_FIELD", 10 << 10)


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


def large(times: int) -> dict[str, Any]:
    """An object of more than 100 KiB, from which it may be large."""
    return {"version": 1, "samples": SAMPLES * times, "note": "the end"}


@pytest.mark.usefixtures("small")
def test_records_in_a_list_of_a_large_object() -> None:
    """The conversations of a large object are those of a small one, with the same ids and places."""
    data = json.dumps(large(4), ensure_ascii=False).encode()
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
    data = json.dumps(large(16)).encode()  # half of it is more than is looked at beforehand
    whole = contents_of(read(data))
    cut = contents_of(read(data[: len(data) // 2]))
    assert len(cut) > 100
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


@settings(max_examples=40, deadline=None)
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
        patch.setattr(values, "_MAX_FIELD", 400)
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
    entries = {f"SNG{n}": {**SAMPLES[n % 400], "id": f"a{n}"} for n in range(800)}
    found_slices = slices_of(json.dumps(entries).encode())
    assert len(found_slices) > 20
    assert {key: value for frame in found_slices for key, value in frame.value.items()} == entries
    assert len(read(json.dumps(entries).encode())) == 800


def record(name: str, text: str = "hi") -> dict[str, object]:
    return {"id": name, "messages": [{"role": "user", "content": text}]}


def line(name: str, text: str = "hi") -> bytes:
    return json.dumps(record(name, text)).encode()


def ids(records: list[Parsed | Rejected]) -> list[str]:
    """Ids of the records that were read, and reasons of those that were rejected."""
    return [
        r.conversation.external_id if isinstance(r, Parsed) else f"! {r.reason}" for r in records
    ]


SHAPES: list[tuple[str, Callable[[list[bytes]], bytes], list[int | None]]] = [
    ("lines", lambda rows: b"\n".join(rows) + b"\n", [1, 2, 3]),
    ("no newline at the end", lambda rows: b"\n".join(rows), [1, 2, 3]),
    ("blank lines", lambda rows: b"\n\n  \n".join(rows), [1, 4, 7]),
    ("Windows line ends", lambda rows: b"\r\n".join(rows) + b"\r\n", [1, 2, 3]),
    ("byte order mark", lambda rows: b"\xef\xbb\xbf" + b"\n".join(rows), [1, 2, 3]),
    ("list", lambda rows: b"[" + b",".join(rows) + b"]", [1, 2, 3]),
    ("list, one a line", lambda rows: b"[\n" + b",\n".join(rows) + b"\n]\n", [1, 2, 3]),
    ("list without commas", lambda rows: b"[ " + b" ".join(rows) + b" ]", [1, 2, 3]),
    ("list after a mark", lambda rows: b"\xef\xbb\xbf [" + b",".join(rows) + b"]", [1, 2, 3]),
]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("make", "lines"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES])
def test_raw_bytes_and_places_are_exact(
    make: Callable[[list[bytes]], bytes], lines: list[int | None], packed: bool
) -> None:
    """In whatever shape the records stand, each comes with its own bytes and its line or position."""
    rows = [line("a"), line("b", "Grüße \U0001f680".encode().decode()), line("c")]
    data = make(rows)
    records = parsed(gzip.compress(data) if packed else data)
    assert [r.raw for r in records] == rows
    assert [r.line for r in records] == lines
    assert [r.conversation.external_id for r in records] == ["a", "b", "c"]


def test_single_object_has_no_line() -> None:
    """A document that is one record, written over many lines, has no line number and takes the input's name."""
    data = json.dumps({"messages": [{"role": "user", "content": "hi"}]}, indent=2).encode()
    (found,) = parsed(data)
    assert (found.line, found.conversation.external_id, found.raw) == (None, "stdin", data)


def test_objects_written_one_after_another() -> None:
    """Pretty-printed objects that follow one another are one record each."""
    data = b"\n".join(json.dumps(record(name), indent=2).encode() for name in "abc")
    assert ids(read(data)) == ["a", "b", "c"]


def test_list_of_messages_is_one_conversation() -> None:
    """A file that is one list of messages is one conversation; a line that is one list is one too."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    (whole,) = parsed(json.dumps(messages, indent=1).encode())
    assert (whole.line, len(whole.conversation.messages)) == (None, 2)
    (whole,) = parsed(json.dumps(messages).encode(), "messages")
    assert len(whole.conversation.messages) == 2
    many = parsed(json.dumps([messages, messages]).encode())
    assert [len(r.conversation.messages) for r in many] == [2, 2]
    many = parsed((json.dumps(messages) + "\n").encode() * 3)
    assert [r.line for r in many] == [1, 2, 3]


def test_broken_line_is_named_and_the_rest_is_read() -> None:
    """A line that is not JSON is rejected with the place of the fault and its bytes; its neighbors are read."""
    broken = b'{"id": "b", "messages": [}'
    records = read(b"\n".join([line("a"), broken, line("c")]))
    assert ids(records) == ["a", "! line is not JSON: Expecting value at character 26", "c"]
    assert (records[1].line, records[1].raw) == (2, broken)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"id": "b", "messages": [}',
        b'{"id": "b, "messages": [{"role": "user", "content": "hi"}]}',
        b'{"id": "b", "messages": [{"role": "user", "content": "hi"]}',
        b'{"id": "b", "messages": [{"role": "user", "content": "hi"}, {"role": "user"',
        b'{"id": "b", "messages": [{"role": "user", "content": "h\x01i"}]}',
        b"nonsense",
        b'{"id": 1' + b"1" * 5000 + b"}",
        b'{"id": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
    ids=lambda broken: broken[:50].decode(errors="replace"),
)
def test_list_goes_on_after_a_broken_element(broken: bytes) -> None:
    """The elements after a broken one are read, and the broken one keeps its bytes."""
    rows = [line("a"), broken, line("c"), line("d")]
    records = read(b"[" + b", ".join(rows) + b"]", "openai")
    assert [name for name in ids(records) if name[0] != "!"] == ["a", "c", "d"]
    (rejected,) = [r for r in records if isinstance(r, Rejected)]
    assert (rejected.line, rejected.raw) == (2, broken)


def test_list_that_is_cut_off() -> None:
    """A list that ends in the middle gives what was whole and says that it was cut off."""
    data = b"[" + line("a") + b", " + line("b")
    assert ids(read(data)) == ["a", "b", "! the list is not closed: the file was cut off"]
    assert ids(read(data[:-5]))[0] == "a"
    assert len(read(data[:-5])) == 2


def test_text_after_a_list_is_rejected() -> None:
    """Text after a closed list is a rejected record."""
    records = read(b"[" + line("a") + b"]\ntrailing")
    assert ids(records) == ["a", "! there is something else after the list"]
    assert records[1].raw == b"trailing"


def test_damaged_gzip_says_so() -> None:
    """A gzip file whose checksum is wrong gives its records and a rejected tail."""
    packed = bytearray(gzip.compress(line("a") + b"\n" + line("b") + b"\n"))
    packed[-8] ^= 0xFF
    records = read(bytes(packed))
    assert ids(records)[:2] == ["a", "b"]
    assert "damaged" in ids(records)[2]


def test_gzip_of_several_members_and_padding() -> None:
    """Concatenated gzip files read as one, zero padding at the end is ignored, other bytes are reported."""
    packed = gzip.compress(line("a") + b"\n") + gzip.compress(line("b") + b"\n")
    assert ids(read(packed + b"\0" * 700)) == ["a", "b"]
    assert ids(read(packed + b"junk"))[2] == "! there is something else after the gzip data"


def test_oversized_record_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record over the limit is rejected with its beginning, in lines and in lists, and the rest is read."""
    for module in (framing, values):
        monkeypatch.setattr(module, "MAX_RECORD", 1 << 20)
        monkeypatch.setattr(module, "KEPT_OF_OVERSIZED", 1 << 10)
    rows = [line("a"), line("b", "x" * (3 << 20)), line("c"), line("d")]
    for data in (b"\n".join(rows), b"[" + b",".join(rows) + b"]"):
        records = read(data)
        assert ids(records) == ["a", "! record is larger than 1 MiB", "c", "d"]
        assert records[1].raw == rows[1][: 1 << 10]


def test_position_counts_compressed_bytes(tmp_path: Path) -> None:
    """The position rises from the first to the last byte on disk while records are read."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(line(str(n)) for n in range(8_000)), 0))
    (found,) = open_inputs([path])
    assert found.size == path.stat().st_size
    positions = [found.position() for _ in found.records()]
    assert positions == sorted(positions)
    assert 0 < positions[0] < found.size
    assert positions[-1] == found.size


def test_broken_utf8_is_rejected_with_its_place() -> None:
    """A record that is not UTF-8 names the byte; decoding never guesses."""
    broken = line("b").replace(b"hi", b"h\xff")
    at = broken.index(b"\xff")
    for data in (
        b"\n".join([line("a"), broken, line("c")]),
        b"[" + b",".join([line("a"), broken, line("c")]) + b"]",
    ):
        records = read(data)
        assert ids(records) == ["a", f"! broken UTF-8 at byte {at}", "c"]
        assert records[1].raw == broken


def test_format_stays_open_for_a_second_reading(tmp_path: Path) -> None:
    """A file can be read a second time from its beginning, and the beginning of a stream can be looked at before it is
    read.
    """
    path = tmp_path / "a.jsonl"
    path.write_bytes(line("a") + b"\n" + line("b"))
    (found,) = open_inputs([path])
    assert ids(list(found.records())) == ids(list(found.records())) == ["a", "b"]
    assert opened(path.read_bytes()).detection == found.detection
