"""Curves over HTTP from servers of several kinds, compared with the same model in process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.completeness.model_requests import Score
from engine.completeness.scoring import BoundaryScorer, ItemScore, LogItem, Question, score_block
from engine.model.prompt_files import Prompt
from tests.engine.completeness.test_block import PROMPTED, TALK, item, long_talk
from tests.engine.model.endpoints.toy_endpoint import endpoint
from tests.engine.model.endpoints.toy_peer import Manner, ToyPeer, says
from tests.engine.model.toy import ToyModel

RAW = Question(Prompt("raw", False, "", "", "", "<end>", "\n\nTURN", (), 0))
"""A question of an own prompt that is not laid out as messages."""
PLAIN = [replace(message, content=message.content.replace("<|end|>", "!")) for message in TALK]
"""The talk without a control token, which endpoints read otherwise than the model process."""


def in_process(question: Question, *items: LogItem) -> list[ItemScore]:
    """The scores of the same toy without HTTP."""
    return score_block(BoundaryScorer(ToyModel()), items, question)


def same(found: list[ItemScore], expected: list[ItemScore]) -> None:
    """Asserts equal curves, notes and counts."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.unscored is None
        assert (one.tokens, one.note) == (other.tokens, other.note)
        pairs = zip(one.curve, other.curve, strict=True)
        for point, wanted in pairs:
            assert point.p_end == pytest.approx(wanted.p_end, rel=1e-5)
            assert point.p_continue == pytest.approx(wanted.p_continue, rel=1e-5)


class TestParity:
    @pytest.mark.parametrize("question", [Question(None), RAW, PROMPTED])
    @pytest.mark.parametrize("manner", ["vllm", "llama-server"])
    def test_same_curves(self, manner: Manner, question: Question) -> None:
        """Servers that name tokens by ids give every probability exactly, in their list or not."""
        items = [item(PLAIN, 2, 4), item(long_talk(3), 2, 4, 6)]
        with endpoint(manner) as (model, _):
            same(model.ask(Score(items, question)), in_process(question, *items))

    def test_one_request_a_log(self) -> None:
        """Where a server scores prompts, one request gives all boundaries whose tokens are in its list."""
        with endpoint("vllm") as (model, (peer,)):
            model.ask(Score([item(long_talk(3), 2, 4, 6)], Question(None)))
            echoed = [body for body in peer.completions if body.get("echo")]
            # The whole log once; the end token at a boundary where it is not among the 20 most probable.
            assert len(echoed) <= 1 + 3
            assert len(echoed[0]["prompt"]) == max(len(body["prompt"]) for body in echoed)


class TestHonesty:
    @pytest.mark.parametrize(
        ("manner", "question", "why"),
        [
            ("chat", Question(None), "answers messages only"),
            ("bare", Question(None), "no log-probabilities"),
            ("llama-cpp-python", Question(None), "names tokens by their texts"),
            ("llama-cpp-python", PROMPTED, "does not say how it lays out messages"),
            ("chat", PROMPTED, "answers messages only"),
        ],
    )
    def test_refused_before_anything_is_asked(
        self, manner: Manner, question: Question, why: str
    ) -> None:
        """What an endpoint cannot do is refused with the reason, before a request."""
        with endpoint(manner) as (model, (peer,)):
            with pytest.raises(UsageError, match=why):
                model.ask(Score([item(PLAIN, 2, 4)], question))
            assert not peer.requests

    def test_one_refused_log(self) -> None:
        """A log that the server refuses is unscored with the server's message; the others are scored."""
        items = [item(PLAIN, 2, 4), item(long_talk(3), 2, 4, 6)]
        with endpoint("vllm") as (model, (peer,)):
            peer.faults = [says(400, {"error": "too \x1b[2J long"})]
            scores = model.ask(Score(items, Question(None)))
        refused = [score for score in scores if score.unscored]
        assert len(refused) == 1
        assert "400" in (refused[0].unscored or "")
        assert "\x1b" not in (refused[0].unscored or "")

    @pytest.mark.parametrize(
        "answer",
        [
            {"choices": []},
            {"choices": [{"text": "x", "finish_reason": "length"}]},
            {"choices": [{"text": "x", "logprobs": {"tokens": ["a"], "token_logprobs": ["b"]}}]},
            {"choices": [{"text": "x", "logprobs": {"tokens": ["a"], "token_logprobs": [7.0]}}]},
            {"choices": [{"text": "x", "logprobs": 3}]},
            [],
            "text",
        ],
    )
    def test_answers_that_are_none(self, answer: object) -> None:
        """An answer without the requested probabilities makes a log unscored."""
        with endpoint("vllm") as (model, (peer,)):
            peer.faults = [says(200, answer)] * 50
            (score,) = model.ask(Score([item(PLAIN, 2, 4)], Question(None)))
        assert not score.curve
        assert score.unscored

    def test_other_tokens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where a server of texts only splits a log into other tokens than the model process, that score has a note,
        and no other.
        """
        whole = ToyPeer.post

        def joins(self: ToyPeer, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            """A tokenizer by which three line breaks are two tokens."""
            code, what = whole(self, path, body)
            if path == "/extras/tokenize" and "\n\n\n" in body["input"]:
                what["tokens"].remove(ord("\n"))
            return code, what

        monkeypatch.setattr(ToyPeer, "post", joins)
        empty = [replace(PLAIN[0], content=""), *PLAIN[1:]]
        with endpoint("llama-cpp-python") as (model, _):
            scores = model.ask(Score([item(empty, 2, 4), item(PLAIN, 2, 4)], RAW))
        assert [score.unscored for score in scores] == [None, None]
        notes = [score.note for score in scores]
        assert notes == [
            "the endpoint cuts its text into other tokens than the model process",
            None,
        ]
