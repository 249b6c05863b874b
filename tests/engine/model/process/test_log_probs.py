"""Log-probabilities of given continuations, on the toy model whose every probability is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import Cancelled
from engine.model.process.log_probs import PrefixQuestion, continuation_log_probs
from tests.engine.model.toy import ROOMY, ToyModel, log_prob

HEAD = list(b"What all of them begin with, long enough to be shared. ")

texts = st.binary(min_size=1, max_size=60).map(list)
continuations = st.lists(st.binary(max_size=30).map(list), max_size=6)


@st.composite
def questions(draw: st.DrawFn) -> list[PrefixQuestion]:
    """A few questions, most with a common prefix, some equal."""
    head = draw(st.sampled_from([[], HEAD[:4], HEAD]))
    return [
        PrefixQuestion([*head, *draw(texts)], draw(continuations))
        for _ in range(draw(st.integers(0, 12)))
    ]


def expected(asked: list[PrefixQuestion]) -> list[list[float]]:
    return [[log_prob(one.prefix, tokens) for tokens in one.continuations] for one in asked]


class TestSums:
    @settings(max_examples=40, deadline=None)
    @given(questions(), st.integers(8, 64), st.sampled_from([4, 6, 64]))
    def test_every_batch_size(
        self, asked: list[PrefixQuestion], batch: int, sequences: int
    ) -> None:
        """With any size of batch and cache each sum is that of the tokens one by one, and the cache is empty
        afterwards.
        """
        model = ToyModel(replace(ROOMY, batch=batch, rows=max(1, batch // 3), sequences=sequences))
        found = continuation_log_probs(model, asked)
        for got, wanted in zip(found, expected(asked), strict=True):
            assert got == pytest.approx(wanted, abs=1e-4)
        model.check_empty()

    def test_what_is_shared_is_decoded_once(self) -> None:
        """A common prefix, and a prefix with many continuations, is decoded once."""
        asked = [
            PrefixQuestion([*HEAD, 1], [[2, 3]] * 10),
            PrefixQuestion([*HEAD, 4], [[5, 6]] * 10),
        ]
        model = ToyModel()
        continuation_log_probs(model, asked)
        assert model.decoded == len(HEAD) + 2 + 20

    def test_cancelled(self) -> None:
        """After a cancel the next question starts from an empty cache."""
        asked = [PrefixQuestion([*HEAD, n], [[2, 3], [4, 5]]) for n in range(3)]
        model = ToyModel()
        model.cancel_after = 2
        with pytest.raises(Cancelled):
            continuation_log_probs(model, asked)
        model.check_empty()
        assert continuation_log_probs(model, asked)[0] == pytest.approx(expected(asked)[0])
