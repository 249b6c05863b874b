"""Batched generation on a toy model whose every reply is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import Cancelled, ModelError
from engine.model.batched_replies import generate
from engine.model.generation import Reply, write
from engine.model.interface import Capacity, Sampling
from tests.engine.model.tasks import uniform_tasks
from tests.engine.model.toy import ROOMY, ToyModel, next_logits

GREEDY = Sampling()
WARM = Sampling(temperature=1.0)


def rollout(prompt: Sequence[int], sampling: Sampling, limit: int, seed: int) -> list[int]:
    """The tokens that a model generates one at a time without a stop."""
    model = ToyModel()
    chooser = model.sampler(sampling, seed)
    tokens: list[int] = []
    for _ in range(limit):
        tokens.append(chooser.pick(next_logits([*prompt, *tokens])))
    return tokens


def expected(
    prompt: Sequence[int], sampling: Sampling, limit: int, seed: int, stops: Sequence[bytes]
) -> Reply:
    """The reply by the definition."""
    model = ToyModel()
    tokens = rollout(prompt, sampling, limit, seed)
    for count in range(1, limit + 1):
        data = b"".join(model.token_bytes(token) for token in tokens[:count])
        if tokens[count - 1] in model.stop_tokens:
            text = data.decode("utf-8", "replace")
            return Reply(tuple(tokens[: count - 1]), text, "end")
        places = [data.find(stop) for stop in stops if stop in data]
        if places:
            text = data[: min(places)].decode("utf-8", "replace")
            return Reply(tuple(tokens[:count]), text, "stop")
    data = b"".join(model.token_bytes(token) for token in tokens)
    return Reply(tuple(tokens), data.decode("utf-8", "replace"), "length")


prompts = st.lists(st.lists(st.integers(1, 255), min_size=1, max_size=30), max_size=40)
capacities = st.builds(
    lambda batch, sequences, spare: Capacity(
        context=64, cells=64 + spare, batch=batch, rows=batch, sequences=sequences, forkable=True
    ),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 300),
)


@settings(max_examples=80, deadline=None)
@given(
    prompts=prompts,
    capacity=capacities,
    sampling=st.sampled_from([GREEDY, WARM, Sampling(temperature=0.3)]),
    limit=st.integers(1, 20),
    seed=st.integers(0, 1000),
    letters=st.lists(st.integers(1, 255), max_size=3),
)
def test_replies(
    prompts: list[list[int]],
    capacity: Capacity,
    sampling: Sampling,
    limit: int,
    seed: int,
    letters: list[int],
) -> None:
    """Each reply depends on its prompt and seed alone, not on other replies or the size of the cache."""
    model = ToyModel(capacity)
    stops = [chr(letter) for letter in letters]
    told: list[int] = []
    replies = generate(
        model,
        uniform_tasks(prompts, sampling=sampling, max_tokens=limit, stop=stops, seed=seed),
        told.append,
    )
    assert replies == [
        expected(prompt, sampling, limit, seed + number, [stop.encode() for stop in stops])
        for number, prompt in enumerate(prompts)
    ]
    assert told == sorted(told)
    assert told[-1:] == ([len(prompts)] if prompts else [])
    model.check_empty()
    assert model.open_choosers == 0


class TestStopTexts:
    def test_a_stop_text_that_straddles_tokens(self) -> None:
        """A stop text is found across tokens, and the reply ends before it."""
        model = ToyModel()
        tokens = rollout(b"abc", WARM, 40, 3)
        data = b"".join(model.token_bytes(token) for token in tokens)
        at = next(
            n for n in range(5, 38) if data[n] < 128 and data[n + 1] < 128 and data[n + 2] < 128
        )
        stop = data[at : at + 3].decode()
        (reply,) = generate(
            model, uniform_tasks([b"abc"], sampling=WARM, max_tokens=40, stop=[stop], seed=3)
        )
        assert reply.stopped == "stop"
        assert reply.text == data[:at].decode("utf-8", "replace")
        assert stop not in reply.text


class TestLimits:
    @pytest.mark.parametrize(("prompt", "message"), [([], "empty"), ([7] * 13, "leaves no room")])
    def test_a_prompt_that_does_not(self, prompt: list[int], message: str) -> None:
        """An empty prompt, or one without room for the reply, is refused before anything is decoded."""
        model = ToyModel(replace(ROOMY, context=20, cells=20))
        with pytest.raises(ModelError, match=message):
            generate(model, uniform_tasks([[7], prompt], sampling=GREEDY, max_tokens=8))
        assert model.decoded == 0
        with pytest.raises(ValueError, match="no sequence"):
            write(model, uniform_tasks([[7]], sampling=GREEDY, max_tokens=8), ())

    @pytest.mark.parametrize("number", [1, 2, 5])
    def test_cancelled(self, number: int) -> None:
        """A cancel leaves neither samplers nor tokens behind."""
        model = ToyModel()
        model.cancel_after = number
        with pytest.raises(Cancelled):
            generate(model, uniform_tasks([[n] for n in range(1, 60)], sampling=WARM, max_tokens=6))
        model.check_empty()
        assert model.open_choosers == 0
