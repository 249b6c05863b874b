"""The layout of the cache for replies that are generated concurrently, on the toy and on the real model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.model.batched_replies import (
    MIN_SEPARATE_SEQUENCES,
    MIN_SEQUENCE_CELLS,
    count_separate,
    divided_capacity,
    generate,
    layouts,
)
from engine.model.generation import PARALLEL, Task, write
from engine.model.interface import Sampling, Span
from engine.model.llamacpp.model import LlamaModel
from tests.engine.model.toy import ROOMY, ToyModel
from tests.engine.model.weights import probabilities

CELLS = 22_000
WARM = Sampling(temperature=1.0)


def room(length: int) -> int:
    return count_separate(CELLS, length)


@given(st.lists(st.integers(2, 9000), max_size=60))
def test_every_reply_is_in_one_layout(needs: list[int]) -> None:
    """Each reply is in one layout whose sequences hold it; only the shared layout may have few sequences."""
    found = layouts(needs, room)
    assert sorted(number for layout in found for number in layout.members) == [*range(len(needs))]
    for layout in found:
        if sequences := layout.separate_sequences:
            assert len(layout.members) >= MIN_SEPARATE_SEQUENCES <= sequences <= PARALLEL
            own = divided_capacity(replace(ROOMY, context=9000), CELLS, sequences)
            assert max(needs[number] for number in layout.members) <= own.context
    assert sum(not layout.separate_sequences for layout in found) <= 1


class TestToy:
    def test_ranks_are_closed(self) -> None:
        """Ended replies leave no gap, so each decode holds sequences with consecutive numbers."""
        model = ToyModel(replace(ROOMY, cells=PARALLEL * MIN_SEQUENCE_CELLS))
        stop = tuple(chr(code) for code in range(60, 127))
        tasks = [Task([9, n], WARM, 200, stop, seed=n) for n in range(40)]
        replies = generate(model, tasks)
        assert len({len(reply.tokens) for reply in replies}) > 4
        assert model.parts == model.decodes

    def test_as_in_a_shared_cache(self) -> None:
        """Replies with common prefixes are the same with cells of their own as in a shared cache."""
        head = list(b"What a library lends, and to whom, is written on its door. ")
        tasks = [Task([*head, n % 5, n], WARM, 20, seed=n) for n in range(30)]
        model = ToyModel(replace(ROOMY, cells=9 * MIN_SEQUENCE_CELLS))
        shared = write(ToyModel(), tasks, range(8))
        assert generate(model, tasks) == shared
        assert model.capacity.separate
        assert model.decoded < sum(len(task.prompt) for task in tasks)


class TestRealModel:
    def test_a_copy_is_the_same_past(self, model: LlamaModel) -> None:
        """A forked sequence continues as if it had been decoded alone, also when its source is gone."""
        text = model.tokenize("The library lends no maps. The library lends")
        model.arrange(0)
        alone = model.decode([Span(text, 0, (0,), (len(text) - 1,))])[0].copy()
        model.arrange(5)
        model.decode([Span([*text[:-2], 40, 41, 42], 0, (4,))])
        model.fork(4, 0, len(text) - 2)
        model.fork(4, 2, len(text) - 2)
        model.drop(4)
        rows = model.decode(
            [Span(text[-2:], len(text) - 2, (number,), (1,)) for number in (0, 2)]
        ).copy()
        model.arrange(0)
        for row in rows:
            assert np.abs(probabilities(row) - probabilities(alone)).max() < 1e-5

    def test_each_as_alone(self, model: LlamaModel) -> None:
        """On F32 weights a reply is the same alone and beside others of any length."""
        text = "The customer said that "
        tasks = [
            Task(model.tokenize(text + "very " * length), WARM, 4 + length, seed=length)
            for length in (30, 1, 9, 4, 22, 2)
        ]
        together = generate(model, tasks)
        assert together == [generate(model, [task])[0] for task in tasks]
