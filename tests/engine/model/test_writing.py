"""Replies of the real model: seeds, stop texts, schemas and grammars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.model.batched_replies import generate
from engine.model.generation import Reply
from engine.model.interface import Sampling
from engine.model.llamacpp.model import LlamaModel
from tests.engine.model.tasks import uniform_tasks
from tests.engine.model.weights import SMALL

WARM = Sampling(temperature=0.9)
PROMPTS = ("The customer said", "My favourite colour is", "Dear sir or madam,")


def write(
    model: LlamaModel,
    *prompts: str,
    sampling: Sampling,
    max_tokens: int = 12,
    stop: tuple[str, ...] = (),
    seed: int = 0,
) -> list[Reply]:
    """Replies to some texts."""
    tokens = [model.tokenize(prompt) for prompt in prompts]
    return generate(
        model, uniform_tasks(tokens, sampling=sampling, max_tokens=max_tokens, stop=stop, seed=seed)
    )


class TestSampling:
    def test_neighbors_do_not_matter(self, model: LlamaModel) -> None:
        """A reply is the same with and without others beside it, its seed being its number's."""
        together = write(model, *PROMPTS, sampling=WARM, seed=7)
        for number, prompt in enumerate(PROMPTS):
            (alone,) = write(model, prompt, sampling=WARM, seed=7 + number)
            assert alone == together[number]


class TestStopping:
    def test_the_end_token(self, quick_weights: Path) -> None:
        """A chat answer of the whole model ends by its own end token, which is no part of it."""
        model = LlamaModel(quick_weights, SMALL, lambda: False)
        chat = model.render_chat([{"role": "user", "content": "Say only: yes"}])
        tokens = model.tokenize(chat, special=True)
        (reply,) = generate(model, uniform_tasks([tokens], sampling=Sampling(), max_tokens=60))
        assert reply.stopped == "end"
        assert not model.stop_tokens & set(reply.tokens)
        assert "<|im_end|>" not in reply.text


class TestConstrained:
    SCHEMA = json.dumps(
        {
            "type": "object",
            "properties": {
                "done": {"type": "boolean"},
                "label": {"type": "string", "maxLength": 12},
                "score": {"enum": [1, 2, 3]},
            },
            "required": ["done", "label", "score"],
            "additionalProperties": False,
        }
    )

    @pytest.mark.parametrize("temperature", [0.0, 1.2])
    def test_json_schema(self, model: LlamaModel, temperature: float) -> None:
        """Replies under a schema parse and fulfil it, greedy and sampled."""
        sampling = Sampling(temperature=temperature, json_schema=self.SCHEMA)
        for reply in write(model, *PROMPTS, sampling=sampling, max_tokens=60, seed=3):
            assert reply.stopped == "end"
            value = json.loads(reply.text)
            assert set(value) == {"done", "label", "score"}
            assert isinstance(value["done"], bool)
            assert len(value["label"]) <= 12
            assert value["score"] in (1, 2, 3)

    @pytest.mark.parametrize("text", ['a "b" \\ c', "two\nlines", "名 é 😀", '"', "\\u0041"])
    def test_keys_and_values_of_a_schema(self, model: LlamaModel, text: str) -> None:
        """A key or value with quotes, backslashes, line breaks or any letters is generated unchanged."""
        schema = {"type": "object", "properties": {text: {"enum": [text]}}, "required": [text]}
        sampling = Sampling(json_schema=json.dumps({**schema, "additionalProperties": False}))
        (reply,) = write(model, PROMPTS[0], sampling=sampling, max_tokens=60)
        assert json.loads(reply.text) == {text: text}
