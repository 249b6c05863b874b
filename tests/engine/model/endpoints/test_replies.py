"""Replies over HTTP, compared with the same model in process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.base.errors import RequestRefused
from engine.model.batched_replies import generate
from engine.model.endpoints.model import EndpointModel
from engine.model.interface import Sampling
from engine.model.log_windows import log_tokens
from engine.model.process.requests import Generate, WrittenReply
from engine.model.prompt_files import Prompt, tokens_around
from tests.engine.model.endpoints.toy_endpoint import capabilities, client, endpoint
from tests.engine.model.endpoints.toy_peer import Manner, says
from tests.engine.model.tasks import uniform_tasks
from tests.engine.model.toy import ToyModel

RAW = Prompt("raw", False, "Log:\n", "\n\nNext:", "It", "", "", (), 8)
CHAT = replace(RAW, chat=True)
LOGS = [(("Hello ", "there"), 0), (("Where is ", "it?"), 0), (("Bye", "."), 0)]


def in_process(prompt: Prompt) -> list[str]:
    """The same toy's replies without HTTP."""
    model = ToyModel()
    around = tokens_around(prompt, model)
    prompts = []
    for texts, kept in LOGS:
        tokens, _ = log_tokens(model, texts, kept, 2000)
        prompts.append([*around.head, *tokens, *around.tail])
    found = generate(model, uniform_tasks(prompts, sampling=Sampling(), max_tokens=8))
    return [reply.text for reply in found]


def over_http(model: EndpointModel, prompt: Prompt, stop: Sequence[str] = ()) -> list[WrittenReply]:
    return model.ask(Generate(LOGS, replace(prompt, stop=tuple(stop))))


class TestParity:
    @pytest.mark.parametrize("prompt", [RAW, CHAT])
    @pytest.mark.parametrize("manner", ["vllm", "llama-server"])
    def test_greedy(self, manner: Manner, prompt: Prompt) -> None:
        """Greedy replies are the same, with and without a chat template, which the server applies."""
        with endpoint(manner) as (model, _):
            found = over_http(model, prompt)
        assert [reply.text for reply in found] == in_process(prompt)
        assert [reply.note for reply in found] == [None] * 3

    def test_stop_texts(self) -> None:
        """A reply ends before the first stop text, also before one that was not sent to the server."""
        whole = in_process(RAW)[0]
        stop = whole[3]
        with endpoint("vllm") as (model, _):
            told = over_http(model, RAW, [stop])
            many = over_http(model, RAW, ["\x01\x01", "\x02\x02", "\x03\x03", "\x04\x04", stop])
        for found in (told, many):
            assert found[0].text == whole[: whole.index(stop)]
        assert many[0].stopped == "stop"


class TestMessages:
    def test_beginning_of_the_answer(self) -> None:
        """A server that can continue a begun answer gets the prompt's opening, and its continuation is the reply."""
        with endpoint("vllm") as (_, peer):
            can = replace(capabilities("vllm"), completions=False)
            found = over_http(client(peer, can), CHAT)
            body = next(body for path, body in peer.requests if path.endswith("chat/completions"))
        assert body["messages"][-1] == {"role": "assistant", "content": "It"}
        assert body["continue_final_message"] is True
        assert all(not reply.text.startswith("It") for reply in found)

    def test_a_beginning_that_cannot_be_given(self) -> None:
        """A server that cannot is asked to begin with the opening; a reply that does not is refused."""
        with (
            endpoint("chat") as (model, _),
            pytest.raises(RequestRefused, match="did not begin"),
        ):
            over_http(model, CHAT)
        # The first one may still be at work on requests that were given up, and would take their answers from here.
        with endpoint("chat") as (model, peer):
            said = {"message": {"content": "It is done."}, "finish_reason": "stop"}
            peer.faults = [says(200, {"choices": [said]})] * 3
            found = over_http(model, CHAT)
        assert [reply.text for reply in found] == [" is done."] * 3
        asked = peer.requests[0][1]["messages"][-1]["content"]
        assert asked.endswith('Begin your answer with: "It"')


class TestWhatIsRead:
    def test_long_logs(self) -> None:
        """Of a log over the context whole steps are left out, and the reply reports how many."""
        texts = tuple(f"step {number} with some words\n" for number in range(60))
        manners: tuple[Manner, ...] = ("vllm", "llama-cpp-python")
        for manner in manners:
            with endpoint(manner) as (_, peer):
                model = client(peer, capabilities(manner), context=600)
                (reply,) = model.ask(Generate([(texts, 1)], replace(RAW, max_tokens=4)))
            assert "of 60 steps left out" in (reply.note or "")
            prompts = [body["prompt"] for body in peer.completions]
            assert 300 < len(prompts[-1]) <= 600


def test_what_it_cost() -> None:
    """The report of a run has its usage."""
    with endpoint("vllm") as (model, _):
        over_http(model, RAW)
        told = model.spent()
    assert "requests" in told
    assert "tokens read" in told
