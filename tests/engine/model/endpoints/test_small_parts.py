"""Unit tests of pace, control tokens, addresses and answer formats."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import RequestRefused
from engine.model.endpoints.capabilities import read_completion
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.pacing import MAX_PARALLEL_REQUESTS, RequestLimit
from engine.model.endpoints.tokens import break_up_controls

_NAMES = [
    *("choices", "text", "message", "content", "logprobs", "tokens", "top_logprobs"),
    *("token_logprobs", "token", "logprob", "bytes", "id"),
]


class TestPace:
    def test_grows_while_all_is_well(self) -> None:
        """While answers take the same time, the number of concurrent requests grows up to a bound."""
        pace = RequestLimit()
        before = pace.limit
        for _ in range(20_000):
            pace.record_answer(0.1)
        assert before < pace.limit == MAX_PARALLEL_REQUESTS

    def test_halves_when_it_is_too_much(self) -> None:
        """A burst of refusals of concurrent requests halves the limit once, not once for each."""
        pace = RequestLimit()
        for _ in range(500):
            pace.record_answer(0.1)
        limit = pace.active = pace.limit
        for _ in range(limit):
            pace.record_refusal()
            pace.active -= 1
        assert pace.limit == limit // 2


class TestControlTokens:
    @pytest.mark.parametrize(
        "token",
        ["<|im_end|>", "<|endoftext|>", "</s>", "<s>", "<end_of_turn>", "[/INST]", "<｜User｜>"],
    )
    def test_broken_up(self, token: str) -> None:
        """A control token in a text is broken up so that it no longer is one, and is counted."""
        text, count = break_up_controls(f"before {token} after {token}")
        assert count == 2
        assert token not in text
        assert text.replace(" ", "") == f"before {token} after {token}".replace(" ", "")


class TestAddress:
    @pytest.mark.parametrize(
        ("name", "url"),
        [("completions", "http://h:8/v1/completions"), ("/tokenize", "http://h:8/tokenize")],
    )
    def test_paths(self, name: str, url: str) -> None:
        """A server's own paths are beside /v1."""
        assert parse_address("http://h:8/v1/#m").url(name) == url


class TestAnswers:
    def test_listed_tokens(self) -> None:
        """The most probable of the listed tokens comes first; its bytes count before its text."""
        listed = [{"token": "a", "logprob": -1.0}, {"token": "?", "bytes": [98], "logprob": -0.5}]
        told = {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": listed}]}
        (step,) = read_completion({"choices": [{"text": "a", "logprobs": told}]}).positions
        assert step.chosen.text == b"a"
        assert [one.text for one in step.top] == [b"b", b"a"]

    @pytest.mark.parametrize(
        "choice",
        [
            {"text": {}},
            {"text": 7},
            {"text": "a", "logprobs": {"content": [{"token": "a", "logprob": -(10**400)}]}},
        ],
    )
    def test_other_types(self, choice: object) -> None:
        """What is no text, and a number beyond every float, are refused."""
        with pytest.raises(RequestRefused):
            read_completion({"choices": [choice]})

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(_NAMES),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        )
    )
    def test_anything(self, answer: object) -> None:
        """Any answer is parsed or refused; a log-probability is never above 0 or NaN."""
        try:
            found = read_completion(answer)
        except RequestRefused:
            return
        for step in found.positions:
            for one in (*step.top, step.chosen):
                assert one.log_p <= 0
                assert not math.isnan(one.log_p)
