"""The reasons of a score by words: they make all of its log-odds, and stand where they say."""

from __future__ import annotations

from typing import get_args

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.base.arrays import Floats
from engine.base.conversation import LogPiece, Message, Role, ToolCall, render_log
from engine.completeness.word_reasons import BoundaryWeights, Reason, ScoreReasons, explain
from engine.completeness.words import (
    COLUMNS,
    DISTANCES,
    END_LENGTH,
    BoundaryWords,
    MessageWords,
    split_words,
    word_columns,
)

TEXTS = st.text(
    st.one_of(st.sampled_from("ab ?.İΣ你 好\n\t\x00\ud800é'"), st.characters()), max_size=40
)
LONG = st.tuples(TEXTS, st.integers(END_LENGTH - 3, 2 * END_LENGTH), TEXTS).map(
    lambda parts: parts[0] + "x " * parts[1] + parts[2]
)
MESSAGES = st.lists(
    st.builds(
        lambda role, text, calls: Message(role, text, tool_calls=calls),
        st.sampled_from(get_args(Role)),
        TEXTS | LONG,
        st.sampled_from([(), (ToolCall("Find_x", '{"a": "Ü b"}'),)]),
    ),
    min_size=1,
    max_size=5,
)
WEIGHTS = np.random.default_rng(0).normal(size=DISTANCES * COLUMNS)
ABSENT = np.array([0.0, 0.25, -0.5])


def explained(pieces: list[LogPiece], weights: Floats = WEIGHTS) -> ScoreReasons:
    """The reasons at the last message."""
    return explain(pieces, len(pieces) - 1, BoundaryWeights(weights, 0.5, -0.25, ABSENT))


def weighed(text: str, **weights: float) -> list[Reason]:
    """The reasons in one message of a user, given the weight of some words; those of pairs have `_` between."""
    values = np.zeros(DISTANCES * COLUMNS)
    for name, weight in weights.items():
        single, pair = word_columns(split_words([name.replace("_", " ")]), ["user"])
        values[pair[1] if "_" in name else single[1]] = weight
    return list(explained(render_log([Message("user", text)]), values).reasons)


class TestParts:
    @given(MESSAGES)
    def test_they_make_the_whole_sum(self, messages: list[Message]) -> None:
        """Those told, the rest, the intercept and the states add up to what the regression computes."""
        pieces = render_log(messages)
        found = explained(pieces)
        last = np.arange(len(pieces) - 1, len(pieces) - 1 - DISTANCES, -1)[None, :]
        words = BoundaryWords(MessageWords.from_pieces(pieces), np.maximum(last, -1))
        computed = words.sums(WEIGHTS, ABSENT)[0] + 0.25

        parts = sum(reason.weight for reason in found.reasons) + found.rest
        assert np.isclose(found.log_odds, computed)
        assert np.isclose(parts + found.intercept + (found.states or 0.0), computed)

    @given(MESSAGES)
    def test_words_stand_at_their_places(self, messages: list[Message]) -> None:
        """The text at each place is the word; tabs, other scripts and the middle of long messages move none."""
        pieces = render_log(messages)
        for reason in explained(pieces).reasons:
            body = next(piece.body for piece in pieces if piece.message == reason.message)
            for start, end in reason.places:
                assert " ".join(body[start:end].lower().split()) == reason.text


class TestTelling:
    def test_a_pair_that_says_more_is_told_once(self) -> None:
        """`thank you` is one reason with all three weights, not three that overlap."""
        (reason,) = weighed("Thank  you so", thank=0.5, you=0.25, thank_you=2.0)
        assert (reason.text, reason.weight, reason.places) == ("thank you", 2.75, ((0, 10),))
