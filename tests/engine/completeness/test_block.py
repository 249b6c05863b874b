"""Scoring a block, and its packing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.conversation import Message, render_log
from engine.completeness.boundaries import BoundaryReading
from engine.completeness.packing import PREFIX_SEQUENCE, Segment, plan_groups
from engine.completeness.scoring import (
    NOT_A_NUMBER,
    BoundaryScorer,
    ItemScore,
    LogItem,
    Question,
    prepare_log,
    score_block,
)
from engine.model.log_windows import GAP
from engine.model.prompt_files import Prompt
from tests.engine.model.toy import END, ROOMY, START, TURN, ToyModel, log_prob

BARE = Question(None)
PROMPTED = Question(
    Prompt("over", True, "Log:\n", "\n\nDone?", "Answer:", " yes", " no", (), 0),
)
TALK = [
    Message("system", "Sell shoes."),
    Message("user", "Two pairs, please."),
    Message("assistant", "Which size?"),
    Message("user", "42 <|end|>"),
    Message("assistant", "Done."),
]


def chance(prefix: list[int], answer: list[int]) -> float:
    """The probability of an answer after a prefix."""
    return math.exp(log_prob(prefix, answer))


def item(messages: list[Message], *boundaries: int) -> LogItem:
    """A log to score at these pieces."""
    return LogItem(tuple(piece.text for piece in render_log(messages)), boundaries, 1)


def long_talk(turns: int, text: str = "some words") -> list[Message]:
    """A system message and so many exchanges."""
    exchanges = [Message("user", text), Message("assistant", text)] * turns
    return [Message("system", "Sell."), *exchanges]


def score(model: ToyModel, question: Question, *items: LogItem) -> list[ItemScore]:
    """Scores on a fresh scorer and asserts that it leaves nothing behind."""
    scores = score_block(BoundaryScorer(model), items, question)
    model.check_empty(but=frozenset({PREFIX_SEQUENCE}))
    return scores


class TestWhatTheModelReads:
    def test_bare_log(self) -> None:
        """A tuned model reads the start token and the log; `p_end` is its end token's probability there."""
        (scored,) = score(ToyModel(), BARE, item(TALK, 2, 4))
        texts = item(TALK, 2, 4).texts
        for point, text in zip(scored.curve, ("".join(texts[:3]), "".join(texts)), strict=True):
            prefix = [START, *text.encode()]
            assert point.p_end == pytest.approx(chance(prefix, [END]))
            expected = chance(prefix, list(b"\n\nTURN"))
            assert point.p_continue == pytest.approx(expected)
        assert (scored.note, scored.unscored) == (None, None)
        assert scored.tokens == len("".join(texts).encode())

    def test_chat_question(self) -> None:
        """A prompt is put around the log in the model's chat template; control tokens come from the program only,
        not from the log.
        """
        (scored,) = score(ToyModel(), PROMPTED, item(TALK, 4))
        log = "".join(item(TALK, 4).texts)
        prefix = [START, *f"user\nLog:\n{log}\n\nDone?".encode(), TURN]
        prefix += b"\nassistant\nAnswer:"
        assert END not in prefix
        assert scored.curve[0].p_end == pytest.approx(chance(prefix, list(b" yes")))
        assert scored.curve[0].p_continue == pytest.approx(chance(prefix, list(b" no")))


class TestWindows:
    def test_over_the_context(self) -> None:
        """Every boundary of an over-long log has a score, the same as if the log ended there, and a note says so."""
        model = ToyModel(replace(ROOMY, context=600))
        marks = tuple(range(2, 41, 2))
        (scored,) = score(model, BARE, item(long_talk(20), *marks))
        assert len(scored.curve) == len(marks)
        assert scored.note is not None
        assert scored.note.startswith("over the context of 600 tokens, read in ")
        assert scored.unscored is None
        for number, reading in enumerate(scored.curve, 1):
            (cut,) = score(model, BARE, item(long_talk(20), *marks[:number]))
            assert cut.curve[-1] == reading

    def test_shortened_to_fit(self) -> None:
        """Of a shortened step, beginning and end are in the window, which reaches back over half the context."""
        talk = [*TALK[:3], Message("user", "begin" + "x" * 2000 + "finish"), TALK[4]]
        model = ToyModel(replace(ROOMY, context=900))
        (scored,) = score(model, BARE, item(talk, 4))
        assert scored.note == (
            "over the context of 900 tokens, 1 long step shortened, read in 1 window"
        )
        longest = (900 - 1 - 6) // 3
        step = item(talk, 4).texts[3].encode()
        front = (longest - len(GAP.encode())) // 2
        back = longest - len(GAP.encode()) - front
        system, _, answer, _, last = (text.encode() for text in item(talk, 4).texts)
        shortened = step[:front] + GAP.encode() + step[-back:]
        expected = chance([START, *system, *answer, *shortened, *last], [END])
        assert scored.curve[0].p_end == pytest.approx(expected)


@pytest.mark.parametrize("place", ["log_end", "log_continue"])
def test_probabilities_that_are_no_numbers(place: str) -> None:
    """A conversation whose probabilities are not numbers is unscored, with the model named as the reason."""
    model = ToyModel()
    prepared = prepare_log(model, item(TALK, 2, 4), [], 1000, 1000)
    readings = [BoundaryReading(-1.0, -1.0), BoundaryReading(-1.0, -1.0)]
    setattr(readings[1], place, math.nan)

    scored = prepared.score([readings])

    assert scored.curve == ()
    assert scored.unscored == NOT_A_NUMBER


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e5])
def test_states_that_are_no_numbers(number: float) -> None:
    """A conversation is unscored if one of its states is no number in the 16 bits in which states are kept."""
    prepared = prepare_log(ToyModel(), item(TALK, 2, 4), [], 1000, 1000)
    readings = [BoundaryReading(state=np.ones(4, dtype=np.float32)) for _ in range(2)]
    assert prepared.score([readings]).states is not None
    readings[1].state = np.array([1, number, 1, 1], dtype=np.float32)

    scored = prepared.score([readings])

    assert (scored.curve, scored.states) == ((), None)
    assert scored.unscored == NOT_A_NUMBER


def test_the_order_of_scores_is_that_of_the_logs() -> None:
    """A block of windowed logs, short logs and logs with a common prefix gives the scores in the order of the logs,
    each as when it is scored alone.
    """
    model = ToyModel(replace(ROOMY, context=600))
    items = [
        item(TALK, 2, 4),
        item(long_talk(12), *range(2, 25, 2)),
        item(TALK, 4),
        item(long_talk(14, "others"), 28),
        item(long_talk(2, "z" * 80), 2, 4),
    ]
    for question in (BARE, PROMPTED):
        together = score(model, question, *items)
        for one, alone in zip(together, items, strict=True):
            assert one == score(ToyModel(replace(ROOMY, context=600)), question, alone)[0]


CHUNK = 4


@st.composite
def segment_lists(draw: st.DrawFn) -> list[Segment]:
    """Segments over two letters, so that many share prefixes of some chunks."""
    segments = []
    for _ in range(draw(st.integers(0, 12))):
        tokens = draw(st.lists(st.integers(0, 1), min_size=1, max_size=14))
        marks = draw(st.sets(st.integers(1, len(tokens)), min_size=1))
        segments.append(Segment(tokens, tuple(sorted(marks))))
    return segments


@given(segment_lists())
def test_groups(segments: list[Segment]) -> None:
    """Every segment is in one group; the members of a group share whole chunks that end before the first mark
    of each.
    """
    groups = plan_groups(segments, CHUNK)
    assert sorted(i for group in groups for i in group.members) == list(range(len(segments)))
    for group in groups:
        assert group.shared % CHUNK == 0
        assert list(group.members) == sorted(group.members)
        prefixes = {tuple(segments[i].tokens[: group.shared]) for i in group.members}
        assert len(prefixes) == 1
        assert all(group.shared < segments[i].marks[0] for i in group.members)
