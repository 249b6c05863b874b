"""When a conversation took place, taken from its metadata."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.base import folders
from engine.base.errors import NotFound
from engine.formats.coded.spans import time_text
from engine.formats.inputs import open_inputs
from engine.formats.messages.times import as_time, date_of, order_keys, sort_by
from engine.formats.records import Parsed
from engine.formats.registry import mapping_folder, reader_named, unusable_formats
from tests.engine.formats.reading import one


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["1", "10", "2"], "acb"),
        ([3, 1.5, 2], "bca"),
        ([10**400, 1.5, 2], "bca"),
        (["2026-01-01T10:00:00+02:00", "2026-01-01T08:30:00Z", "2026-01-01T10:45:00+02:00"], "abc"),
        (["2026-01-01 10:05", "2026-01-01 10:00", "2026-01-01 09:00"], "cba"),
        (["01/02/2026 9:50 AM", "01/02/2026 10:05 AM", "01/02/2026 1:15 PM"], "abc"),
        (["2026-01-01T10:00", "2026-01-01T09:00Z", "2026-01-01T08:00"], "abc"),
        ([True, False, True], "abc"),
        ([None, "1", "2"], "abc"),
        (["3", "2", "2"], "cba"),
    ],
)
def test_order(values: list[Any], order: str) -> None:
    """Numbers are ordered as numbers, times with offsets as moments; what cannot be compared stays as it was; what
    falls throughout is turned round."""
    assert "".join(sort_by(list("abc"), values)) == order


def messages(path: Path) -> list[tuple[str, str]]:
    """(role, content) of the one conversation of a file."""
    (record,) = [record for one in open_inputs([path]) for record in one.records()]
    assert isinstance(record, Parsed), record
    return [(one.role, one.content) for one in record.conversation.messages]


@pytest.mark.parametrize(
    ("name", "text", "roles"),
    [
        (
            "a.txt",
            "GPT-4: Hello there\n\nUser: cancel it\n\nGPT-4: done\n",
            "assistant user assistant",
        ),
        (
            "b.txt",
            "Customer: I want it\nAgent: I may not\nSupervisor: I take over\nCustomer: thanks\n",
            "user assistant assistant user",
        ),
        (
            "c.srt",
            "1\n00:00:01,000 --> 00:00:02,000\nAgent: Thank you for calling,\n\n"
            "2\n00:00:02,000 --> 00:00:03,000\nhow can I help you?\n\n"
            "3\n00:00:03,000 --> 00:00:04,000\nCustomer: My parcel is late.\n\n"
            "4\n00:00:04,000 --> 00:00:05,000\nMy order number is this: 4711\n",
            "assistant user",
        ),
    ],
)
def test_speakers(tmp_path: Path, name: str, text: str, roles: str) -> None:
    """Who answers is the assistant, also first; a cue without a name goes on; a sentence with a colon is no speaker."""
    path = tmp_path / name
    path.write_text(text.replace("\n", "\n"))
    assert " ".join(role for role, _ in messages(path)) == roles


def test_a_note_is_nobodys_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two take turns, an item that is no message does not change whose turn it is; and a mapping file that cannot
    be used is named and stops no other."""
    monkeypatch.setattr(folders, "config_dir", lambda: tmp_path)
    monkeypatch.setattr("engine.formats.registry.config_dir", lambda: tmp_path)
    mapping_folder().mkdir()
    (mapping_folder() / "mine.toml").write_text(
        'name = "mine"\nwhen = ["talk_of_mine"]\n[[messages]]\neach = "talk_of_mine[]"\n'
        '[[messages.turns]]\nwhen = ["kind!=note"]\nrole = "=user, assistant"\ntext = "said"\n'
    )
    (mapping_folder() / "broken.toml").write_text('name = "broken"\n[roles]\na = "userr"\n')
    talk = [{"kind": kind, "said": kind} for kind in ("question", "note", "answer", "thanks")]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"talk_of_mine": talk}) + "\n")
    assert [role for role, _ in messages(path)] == ["user", "assistant", "user"]
    (error,) = unusable_formats()
    assert "broken.toml" in error.message
    with pytest.raises(NotFound) as refusal:
        reader_named("broken")
    assert "broken.toml" in refusal.value.hint


def test_nodes_of_one_id_are_kept(tmp_path: Path) -> None:
    """Of a tree in which two messages have one id, none is lost."""
    said = [
        ("1", None, "first question"),
        ("2", "1", "first answer"),
        ("1", "2", "second question"),
    ]
    record = {
        "conversationId": "c",
        "messages": [
            {
                "messageId": key,
                "parentMessageId": parent,
                "sender": "x",
                "text": text,
                "isCreatedByUser": n % 2 == 0,
            }
            for n, (key, parent, text) in enumerate(said)
        ],
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    assert [content for _, content in messages(path)] == [text for _, _, text in said]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (10**400, None),
        ("2026-01-01 10:05", "2026-01-01 10:05"),
        ("1/2/2026 10:05 AM", "1/2/2026 10:05 AM"),
        (1767225900, "2026-01-01T00:05:00+00:00"),
        (1767225900000, "2026-01-01T00:05:00+00:00"),
        ({"$date": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z"),
        ("by Bob, see ticket 7", None),
        ("soon", None),
        (7, None),
        (True, None),
    ],
)
def test_what_is_a_time(value: object, time: str | None) -> None:
    """Only what has a date or a clock in it, or may be seconds since 1970, is a time."""
    assert as_time(value) == time


MESSAGES = [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi"}]
MOMENTS = st.datetimes(datetime(1991, 1, 1), datetime(2099, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)


@given(MOMENTS)
def test_every_usual_form_of_a_date_is_the_same_moment(moment: datetime) -> None:
    """ISO 8601, RFC 2822 and seconds, milli-, micro- and nanoseconds since 1970, also as text, mean one time."""
    seconds = int(moment.timestamp())
    forms: list[Any] = [moment.isoformat(), moment.strftime("%a, %d %b %Y %H:%M:%S +0000")]
    if seconds > 10**9:  # 10 digits, as every log since 2001
        for unit in (1, 10**3, 10**6, 10**9):
            forms += [seconds * unit, str(seconds * unit)]
    for form in forms:
        found = date_of(form)
        assert found is not None, form
        assert datetime.fromisoformat(found) == moment, form


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("Sat Mar 14 2026 09:30:05 GMT+0100 (CET)", "2026-03-14T09:30:05+01:00"),
        ("March 14, 2026 9:30 PM UTC", "2026-03-14T21:30:00+00:00"),
        ("14.03.2026 09:30:05Z", "2026-03-14T09:30:05+00:00"),
        ("14.03.2026 09:30-11:00", "2026-03-14T09:30:00"),
        ("2026-03-14 9:30 PM", "2026-03-14T21:30:00"),
        ("1st Mar 2026, 10:00", "2026-03-01T10:00:00"),
        ("Sunday, 1 March 2026 10:00:00", "2026-03-01T10:00:00"),
        ("3/3/2026 10:00 am", "2026-03-03T10:00:00"),
        ("20260101T100000+0000", "2026-01-01T10:00:00+00:00"),
        ("/Date(1767261600000)/", "2026-01-01T10:00:00+00:00"),
        ({"_seconds": 1767261600, "_nanoseconds": 0}, "2026-01-01T10:00:00+00:00"),
        ({"$date": {"$numberLong": "1767261600000"}}, "2026-01-01T10:00:00+00:00"),
    ],
)
def test_other_forms_of_a_date(value: Any, date: str) -> None:
    """Dates as people write them, where day and month are certain, and as programs do. The offset from UTC after a time
    of day is part of it; the end of a span of time is none."""
    assert date_of(value) == date


NUMBERS = (
    st.integers()
    | st.integers(-400, 400).map(lambda power: (-1) ** (power % 2) * 10 ** abs(power))
    | st.floats()
)
TEXTS = (
    st.text(max_size=30)
    | st.from_regex(r"\A\d{1,30}\Z")
    | st.from_regex(r"\A\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?([+-]\d\d:\d\d)?)?\Z")
    | st.from_regex(r"\A\d{1,2} (Jan|Feb) \d{4} \d\d:\d\d [+-]\d{1,20}\Z")
)


@given(NUMBERS | TEXTS)
@example("1 Jan 2024 10:00 +99999999999999999999")
@example(-(10**400))
@example("\u00b2")
@example("9" * 5_000)
def test_any_text_or_number_is_a_time_or_none(value: Any) -> None:
    """Whatever stands where a time is expected, reading it gives a time or nothing, and never an error."""
    assert isinstance(date_of(value), str | None)
    assert isinstance(time_text(value), str)
    assert isinstance(order_keys([value]), list | None)


@pytest.mark.parametrize(
    "value",
    [
        "03/04/2026", "2026", "2026-13-01", "2026-02-30", "morning", "12:30", 5, 9e8 * 10, True, None, "1" * 30,
        "2026-03-14 10:foo", "3 May 2026 hello 10:30 world",
    ],
)  # fmt: skip
def test_what_may_be_no_date_is_none(value: Any) -> None:
    """A date whose day and month could be either, a time of day, or a small number is not taken."""
    assert date_of(value) is None


@pytest.mark.parametrize(
    ("facts", "time"),
    [
        ({"metadata": {"date": "2026-03-14"}}, "2026-03-14"),
        ({"date": "2026/03/14"}, "2026-03-14"),
        ({"Start Time": 1773446400000}, "2026-03-14T00:00:00+00:00"),
        ({"date": "Sat, 14 Mar 2026 09:30:00 GMT"}, "2026-03-14T09:30:00+00:00"),
        ({"info": {"meta": {"ts": "1773446400"}}}, "2026-03-14T00:00:00+00:00"),
        ({"date": "2026-03-14", "metadata": {"created": "2026-03-13"}}, "2026-03-13"),
    ],
)
def test_a_date_of_the_metadata_is_the_time_of_the_conversation(
    facts: dict[str, Any], time: str
) -> None:
    """A date under a usual name is taken, and its text is counted as metadata."""
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at == time
    assert record.account.lost == {}


@pytest.mark.parametrize(
    "facts", [{"booking": {"date": "2026-05-01"}}, {"metadata": {"birthday": "1990-05-01"}}]
)
def test_other_dates_are_not_the_time_of_the_conversation(facts: dict[str, Any]) -> None:
    """A date of something that the conversation is about is not taken."""
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at is None


def test_a_time_that_the_format_has_is_made_to_sort() -> None:
    """A time of RFC 2822 in the usual field is ISO 8601, and no other date is taken."""
    facts = {"created_at": "Sat, 14 Mar 2026 09:30:00 +0100", "date": "2020-01-01"}
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at == "2026-03-14T09:30:00+01:00"
    assert record.account.lost == {}


def test_the_first_message_dates_a_conversation_without_a_date() -> None:
    """Where nothing else says when a conversation began, its first message with a date does."""
    timed = [dict(message, timestamp=f"03.08.2026 11:2{n}") for n, message in enumerate(MESSAGES)]
    record = one(json.dumps({"id": "c", "messages": timed}).encode())
    assert record.conversation.created_at == "2026-08-03T11:20:00"
    dated = one(json.dumps({"id": "c", "messages": timed, "date": "2026-03-14"}).encode())
    assert dated.conversation.created_at == "2026-03-14"
