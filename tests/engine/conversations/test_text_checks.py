"""Personal data in texts: what is found, what is not, and that nothing found survives redaction."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversations.text_checks import Redactor, find_kinds, find_personal_data

# numbers that are printed as examples by those who issue such numbers; no person has them
FOUND = [
    ("email", "write to jane.doe+shop@mail.example.co.uk, please", "jane.doe+shop@mail.example.co.uk"),
    ("email", "[mail](mailto:jo@example.com)", "jo@example.com"),
    ("phone", "call (555) 123-4567 now", "(555) 123-4567"),
    ("phone", "call 555-123-4567.", "555-123-4567"),
    ("phone", "work: (213)445-0399x85208", "(213)445-0399x85208"),
    ("phone", "from abroad: +44 20 7946 0958", "+44 20 7946 0958"),
    ("phone", "dial 0049 30 901820", "0049 30 901820"),
    ("phone", "My phone number is 09700166582", "09700166582"),
    ("card", "card 4111 1111 1111 1111, exp 04/30", "4111 1111 1111 1111"),
    ("card", "amex 3782-822463-10005", "3782-822463-10005"),
    ("card", "5555555555554444", "5555555555554444"),
    ("iban", "IBAN GB82 WEST 1234 5698 7654 32 PLEASE", "GB82 WEST 1234 5698 7654 32"),
    ("iban", "DE89370400440532013000", "DE89370400440532013000"),
    ("ip", "from 142.250.80.46.", "142.250.80.46"),
    ("ip", "host 2001:4860:4860::8888 answers", "2001:4860:4860::8888"),
]  # fmt: skip
NOT_FOUND = [
    "order 4111111111111112",  # no valid check digit
    "find . -size +1048576",
    "it costs 1,234,567.89 dollars, or $5551234567",
    "version 1.2.3.4 and 10.0.0.1 and 127.0.0.1",
    "1.0.0.127.in-addr.arpa",
    "2026-11-23 12:30:45 and 12:30:45:00",
    "1700000000 seconds, id 550e8400-e29b-41d4-a716-446655440000",
    "GB82 WEST 1234 5698 7654 33",
    "ff02::1 and fe80::1",
    "reservation HATHAT, flight HAT170, ticket 0000-000-0000",
    "user@localhost and @name and a@b",
    "3.14159265358979",
    "EN63 001 49.8285 22.6494",
]


@pytest.mark.parametrize(("kind", "text", "piece"), FOUND)
def test_found(kind: str, text: str, piece: str) -> None:
    """Each kind is found in the ways that it is written, from its first character to its last."""
    (one,) = find_personal_data(text)
    assert (one.kind, text[one.start : one.end]) == (kind, piece)


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    """Prices, versions, times, ids and numbers with a wrong check digit are no personal data."""
    assert find_personal_data(text) == []


pieces = st.sampled_from([piece for _, _, piece in FOUND])
words = st.text('abc xyz,.\n"\\ü', max_size=12)


@settings(max_examples=20)
@given(st.lists(st.tuples(words, pieces), max_size=6), words)
def test_nothing_survives(parts: list[tuple[str, str]], end: str) -> None:
    """After redaction no text, field name or text inside JSON holds what was found, and the rest is unchanged."""
    text = " ".join(f"{before} {piece} " for before, piece in parts) + end
    redactor = Redactor()
    value = {"a": [text, {text: 1}], "arguments": json.dumps({"note": text})}
    redacted = json.dumps(redactor.value(value), ensure_ascii=False)
    assert find_kinds(redacted) == set()
    assert sum(redactor.counts.values()) == len(
        {
            re.sub(r"[ ().-]", "", text[one.start : one.end]).lower()
            for one in find_personal_data(text)
        }
    )
    assert Redactor().value({"n": 5, "t": "no data", "x": None}) == {
        "n": 5,
        "t": "no data",
        "x": None,
    }


def test_the_same_gets_the_same_name() -> None:
    """An address has one pseudonym however its letters and spaces are written, another address another one."""
    redactor = Redactor()
    assert redactor.text("a@x.org A@X.org b@x.org") == "[email 1] [email 1] [email 2]"
    assert redactor.text("+44 20 7946 0958, +442079460958") == "[phone 1], [phone 1]"
    assert redactor.counts == {"email": 2, "phone": 1}
