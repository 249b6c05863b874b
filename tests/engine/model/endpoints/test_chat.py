"""Chat replies over HTTP."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest

from engine.base.errors import RequestRefused, UsageError
from engine.model.chat import Call
from engine.model.endpoints.capabilities import THINKING_TOKENS, read_completion
from engine.model.interface import Sampling
from engine.model.process.requests import Chat
from tests.engine.model.endpoints.test_client import MemoryCache
from tests.engine.model.endpoints.toy_endpoint import capabilities, client, endpoint
from tests.engine.model.endpoints.toy_peer import running, says
from tests.engine.model.process.test_chat import call

SCHEMA = json.dumps({"type": "object"})


def answering(text: str, ended: str = "stop") -> Any:
    """Sets a peer's next answer."""
    said = {"message": {"content": text}, "finish_reason": ended}
    return says(200, {"choices": [said]})


def sent(peer: Any) -> list[dict[str, Any]]:
    """Bodies of the chat requests."""
    return [body for path, body in peer.requests if path.endswith("chat/completions")]


class TestAsking:
    def test_one_is_refused(self) -> None:
        """A refusal of one call cancels no other, and no reply is paid for twice when the others are asked alone."""
        calls = [call(f"Hello {number}") for number in range(6)]
        with running("vllm") as peer:
            model = client(peer, capabilities("vllm"), replies=MemoryCache())
            peer.faults = [says(400, "too long")]
            peer.delay = 0.02
            with pytest.raises(RequestRefused, match="too long"):
                model.ask(Chat(calls))
            told, outcomes = model.spent(), []
            for one in calls:
                with contextlib.suppress(RequestRefused):
                    outcomes += model.ask(Chat([one]))
            assert len(outcomes) == 5
            assert len(sent(peer)) == 6
            assert model.spent() == told

    def test_each_has_its_own_seed(self) -> None:
        """The replies of a batch come in order, each with the sampling of its call."""
        calls = [call("Hello", seed=at, sampling=Sampling(temperature=1.0)) for at in range(4)]
        with endpoint("vllm") as (model, peer):
            told: list[int] = []
            found = model.ask(Chat(calls), lambda done, _: told.append(done))
            assert sorted(body["seed"] for body in sent(peer)) == [0, 1, 2, 3]
            assert [model.ask(Chat([one]))[0] for one in calls] == found
        assert told == [1, 2, 3, 4]

    def test_opening(self) -> None:
        """A server that can continue a begun answer gets its opening; another server is asked for it, and may begin
        differently.
        """
        talk = call("Hello", opening="Well,")
        with endpoint("vllm") as (model, peer):
            model.ask(Chat([talk]))
            assert sent(peer)[0]["messages"][-1] == {"role": "assistant", "content": "Well,"}
        with endpoint("chat") as (model, peer):
            peer.faults = [answering("Well, hello."), answering("Hello.")]
            found = [model.ask(Chat([talk]))[0].text for _ in range(2)]
            assert sent(peer)[0]["messages"][-1]["content"].endswith('answer with: "Well,"')
        assert found == [" hello.", "Hello."]

    def test_schema(self) -> None:
        """A schema is sent as the response format to a server that supports it, and refused for others."""
        talk = call("Hello", sampling=Sampling(json_schema=SCHEMA))
        with endpoint("vllm") as (refusing, peer):
            with pytest.raises(UsageError, match="no fields"):
                refusing.ask(Chat([talk]))
            assert not peer.requests
            model = client(peer, replace(capabilities("vllm"), structure="json_schema"))
            peer.faults = [answering("{}")]
            assert model.ask(Chat([talk]))[0].text == "{}"
            format_ = sent(peer)[0]["response_format"]
        assert format_["json_schema"]["schema"] == {"type": "object"}

    def test_control_tokens(self) -> None:
        """Control tokens in messages are broken up, and the reply reports it."""
        with endpoint("vllm") as (model, peer):
            (said,) = model.ask(Chat([call("<|end|> x")]))
            assert sent(peer)[0]["messages"][0]["content"] == "< |end|> x"
        assert said.note == "1 control tokens broken up"


THOUGHTS = "Okay, let me look. "


def thinking(message: dict[str, Any], ended: str = "stop") -> Any:
    """Sets a peer's next answer, a message of a model that thinks."""
    return says(200, {"choices": [{"message": message, "finish_reason": ended}]})


class TestThinking:
    @pytest.mark.parametrize(
        "message",
        [
            {"content": f"<think>\n{THOUGHTS}\n</think>\n\nYes."},
            {"content": f"{THOUGHTS}</think>Yes."},
            {"content": "Yes.", "reasoning_content": THOUGHTS},
            {"content": "Yes.", "reasoning": THOUGHTS},
        ],
    )
    def test_it_is_no_part_of_a_reply(self, message: dict[str, Any]) -> None:
        """What a model thinks, inside its reply or apart, reaches no result and is read as thinking."""
        with endpoint("vllm") as (model, peer):
            peer.faults = [thinking(message)]
            assert model.ask(Chat([call("Hello")]))[0].text == "Yes."
        written = read_completion({"choices": [{"message": message}]})
        assert written.thinking.strip() == THOUGHTS.strip()

    @pytest.mark.parametrize(
        "cut",
        [
            {"content": f"<think>\n{THOUGHTS}"},
            {"content": None, "reasoning_content": THOUGHTS},
            {"content": ""},
        ],
    )
    def test_an_allowance_is_learned(self, cut: dict[str, Any]) -> None:
        """A reply that thinking left no tokens for is asked for again with more, and later ones have them at once."""
        with endpoint("vllm") as (model, peer):
            peer.faults = [thinking(cut, "length"), thinking({"content": "Yes."})]
            assert model.ask(Chat([call("Hello")]))[0].text == "Yes."
            model.ask(Chat([call("Bye")]))
            limits = [body["max_tokens"] for body in sent(peer)]
        assert limits == [16, 16 + THINKING_TOKENS[0], 16 + THINKING_TOKENS[0]]

    def test_fields_that_are_refused(self) -> None:
        """`max_tokens` becomes `max_completion_tokens` where the model asks for that, a temperature that it does not
        take is left out, and later requests have neither."""
        with endpoint("vllm") as (model, peer):
            peer.faults = [
                says(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
                says(400, "'temperature' does not support 0 with this model."),
                *[answering("Yes.")] * 2,
            ]
            assert model.ask(Chat([call("Hello")]))[0].text == "Yes."
            model.ask(Chat([call("Bye")]))
            *_, third, fourth = sent(peer)
        assert len(sent(peer)) == 4
        for body in (third, fourth):
            assert body["max_completion_tokens"] == 16
            assert not {"max_tokens", "temperature"} & body.keys()


class TestLength:
    LONG: Call = call("one " * 60, "two", "three " * 10, "four", "five", system="Rules.")

    def test_the_oldest_is_left_out(self) -> None:
        """Where tokens can be counted, the oldest messages are left out of a long chat, and the reply reports
        how many.
        """
        with endpoint("vllm") as (_, peer):
            model = client(peer, capabilities("vllm"), context=512)
            (said,) = model.ask(Chat([self.LONG]))
            messages = sent(peer)[0]["messages"]
        assert said.note == "2 of 6 messages left out"
        assert [message["content"][:5] for message in messages] == [
            "Rules",
            "three",
            "four",
            "five",
        ]
