"""What a model is asked, and how answers on parts of a log and votes become one."""

from __future__ import annotations

import math

import pytest

from engine.base.conversation import Message
from engine.model.chat import Call, ChatMessage
from engine.model.endpoints.capabilities import ListedToken, Position
from engine.model.endpoints.replies import value_probability
from engine.model.interface import Sampling
from engine.questions.model_answers import count_votes, join_part_answers, log_parts
from engine.questions.question import Question, QuestionKind
from engine.questions.records import MachineAnswer

LABELS = {"low": "", "middle": "", "high": ""}


def answer(value: str | None, *cites: int, p: float | None = None, note: str = "") -> MachineAnswer:
    places = tuple((index, 0, 0) for index in cites)
    return MachineAnswer(1, value, p, f"says {value}", places, note)


@pytest.mark.parametrize(
    ("kind", "parts", "expected"),
    [
        ("yes-no", [answer("no", p=0.9), answer("yes", 4, p=0.6), answer("yes", 9, p=0.8)],
         ("yes", 0.8, (4, 9), "says yes says yes")),
        ("yes-no", [answer("no", p=0.9), answer("yes", p=0.6)],
         ("unsure", None, (), "says no says yes")),
        ("yes-no", [answer("no", 2, p=0.9), answer("no", p=0.7)],
         ("no", 0.7, (2,), "says no says no")),
        ("choice", [answer("low", 1), answer("high", 2), answer("middle", 3), answer("high")],
         ("high", None, (2,), "says high says high")),
        ("choice", [answer("low"), answer("high")], ("high", None, (), "says high")),
        ("scale", [answer("high"), answer("low"), answer("middle", 5)],
         ("middle", None, (5,), "says middle")),
        ("several", [answer("low,high", 1), answer(""), answer("middle")],
         ("low,middle,high", None, (1,), "says low,high says  says middle")),
        ("number", [answer("3", 1), answer("12", 2), answer("0")], ("12", None, (2,), "says 12")),
        ("text", [answer("a"), answer("b")], ("a b", None, (), "says a says b")),
    ],
)  # fmt: skip
def test_parts(
    kind: QuestionKind, parts: list[MachineAnswer], expected: tuple[str, float | None, object, str]
) -> None:
    """Answers on parts are joined by the rule of the kind, with the places and reasons of those that decide."""
    whole = join_part_answers(Question("q", kind=kind, labels=LABELS), parts)
    cites = tuple(index for index, _, _ in whole.cites)
    assert (whole.value, whole.p, cites, whole.explanation) == expected
    assert whole.note == f"read in {len(parts)} parts"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("yes-no", ["yes", "no", "yes"], ("yes", 2 / 3, "2 of 3 votes")),
        ("yes-no", ["yes", "no"], ("unsure", 0.5, "tied votes")),
        ("choice", ["low", "high"], ("low", 0.5, "1 of 2 votes")),
        ("choice", ["low", None, "low"], ("low", 2 / 3, "2 of 3 votes")),
        ("several", ["low,high", "high", "middle"], ("high", None, "1 of 3 votes")),
        ("number", ["3", "10", "4"], ("4", None, "1 of 3 votes")),
    ],
)
def test_votes(
    kind: QuestionKind, values: list[str | None], expected: tuple[str, float | None, str]
) -> None:
    """The answer of most votes counts, with its share of all votes, failed ones included, as the probability."""
    whole = count_votes(
        Question("q", kind=kind, labels=LABELS), [answer(value) for value in values]
    )
    assert (whole.value, whole.p, whole.note) == expected


def test_parts_of_a_log() -> None:
    """A log that fits is one part; else its parts show every step, each with the system message, and know the message
    of each step; hidden messages have none. The last part alone says what it leaves out, in
    its text too."""
    messages = [
        Message("system", "Be kind."),
        Message("user", "Secret", hidden=True),
        *(Message("user", f"{number} " + "word " * 30) for number in range(10)),
    ]
    (whole,) = log_parts(messages, 10_000, last=False)
    assert (whole.messages[1], whole.messages[2], len(whole.messages)) == (0, 2, 11)
    assert whole.note is None
    parts = log_parts(messages, 900, last=False)
    assert {step for part in parts for step in part.messages} == set(range(1, 12))
    assert all("Be kind." in part.text and len(part.text) < 1_000 for part in parts)
    assert parts[1].text.startswith(f"This is part 2 of {len(parts)} of a long log.")
    (last,) = log_parts(messages, 900, last=True)
    assert [min(last.messages), max(last.messages)] == [1, 11]
    left_out = 11 - len(last.messages)
    assert last.note == f"{left_out} of 11 steps left out"
    assert f"[{left_out} steps are left out here]" in last.text


def listed(*tokens: tuple[str, float]) -> Position:
    """A token with others in its place, each with its probability; the first is chosen."""
    top = tuple(ListedToken(text.encode(), math.log(p)) for text, p in tokens)
    return Position(top[0], top)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([listed(('"ref', 0.6), ('"sol', 0.2), ("x", 0.1)), listed(("used", 0.5), ("und", 0.3))],
         0.75 * 0.625),
        ([listed(('"solved"}', 0.5), ('"ref', 0.25), ('"', 0.25))], 2 / 3),
        ([listed(('"other"', 0.5))], None),
    ],
)  # fmt: skip
def test_probability(value: list[Position], expected: float | None) -> None:
    """The probability of a value is that of its tokens among all that begin a value, also where values begin alike; a
    value that an explanation names is not read."""
    schema = '{"properties": {"value": {"enum": ["refused", "refund", "solved"]}}}'
    sampling = Sampling(json_schema=schema)
    call = Call("", "judge", (ChatMessage("user", ""),), sampling, probability_of="value")
    before = ['{"explanation": "a \\"value\\": \\"refund\\"", ', '"value": ']
    p = value_probability(call, [*(listed((text, 0.9)) for text in before), *value])
    assert p == (None if expected is None else pytest.approx(expected))
