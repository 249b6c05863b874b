"""When a conversation took place, taken from its metadata."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.formats.coded.spans import time_text
from engine.formats.messages.times import date_of, order_keys
from tests.engine.formats.reading import one

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
    ["03/04/2026", "2026", "2026-13-01", "2026-02-30", "morning", "12:30", 5, 9e8 * 10, True, None, "1" * 30],
)  # fmt: skip
def test_what_may_be_no_date_is_none(value: Any) -> None:
    """A date whose day and month could be either, a time of day, or a small number is not taken."""
    assert date_of(value) is None


@pytest.mark.parametrize(
    ("facts", "field", "time"),
    [
        ({"metadata": {"date": "2026-03-14"}}, "metadata.date", "2026-03-14"),
        ({"date": "2026/03/14"}, "date", "2026-03-14"),
        ({"Start Time": 1773446400000}, "Start Time", "2026-03-14T00:00:00+00:00"),
        ({"date": "Sat, 14 Mar 2026 09:30:00 GMT"}, "date", "2026-03-14T09:30:00+00:00"),
        ({"info": {"meta": {"ts": "1773446400"}}}, "info.meta.ts", "2026-03-14T00:00:00+00:00"),
        ({"date": "2026-03-14", "metadata": {"created": "2026-03-13"}}, "metadata.created", "2026-03-13"),
    ],
)  # fmt: skip
def test_a_date_of_the_metadata_is_the_time_of_the_conversation(
    facts: dict[str, Any], field: str, time: str
) -> None:
    """A date under a usual name is taken, the account names its field, and its text is counted once as metadata."""
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at == time
    assert list(record.account.dates) == [field]
    assert record.account.lost == {}


@pytest.mark.parametrize(
    "facts", [{"booking": {"date": "2026-05-01"}}, {"metadata": {"birthday": "1990-05-01"}}]
)
def test_other_dates_are_not_the_time_of_the_conversation(facts: dict[str, Any]) -> None:
    """A date of something that the conversation is about is not taken."""
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at is None
    assert record.account.dates == {}


def test_a_time_that_the_format_has_is_made_to_sort() -> None:
    """A time of RFC 2822 in the usual field is ISO 8601, and no field of the metadata is named for it."""
    facts = {"created_at": "Sat, 14 Mar 2026 09:30:00 +0100", "date": "2020-01-01"}
    record = one(json.dumps({"id": "c", "messages": MESSAGES, **facts}).encode())

    assert record.conversation.created_at == "2026-03-14T09:30:00+01:00"
    assert record.account.dates == {}
    assert record.account.lost == {}
