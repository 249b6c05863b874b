"""Common prefixes of prompts are decoded once while trees start and end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trees.growth import Grower, Job, Work
from engine.trees.options import TreeOptions
from engine.trees.tree import Tree
from tests.engine.model.toy import ROOMY, ToyModel
from tests.engine.trees.enumerated import STOPS, enumerate_paths

ALPHA = 0.02
OPTIONS = TreeOptions(ALPHA, max_tokens=2)
SYSTEM = b"You are a patient assistant of a small shop. "


def grow(model: ToyModel, prompts: list[bytes], width: int = 32) -> tuple[list[Tree], Work]:
    trees = [Tree(OPTIONS, STOPS, model.token_bytes) for _ in prompts]
    jobs = [Job(tree, tuple(prompt)) for tree, prompt in zip(trees, prompts, strict=True)]
    return trees, Grower(model, width=width).grow(jobs)


def masses(tree: Tree) -> dict[tuple[int, ...], float]:
    return {tuple(tree.tokens(at)): tree.nodes[at].mass for at in tree.leaves()}


class TestShared:
    @settings(max_examples=40, deadline=None)
    @given(
        tails=st.lists(st.binary(min_size=1, max_size=30), min_size=2, max_size=9),
        nested=st.booleans(),
        cells=st.integers(180, 700),
        sequences=st.integers(4, 20),
        width=st.integers(2, 16),
    )
    def test_any_prompts_in_any_room(
        self, tails: list[bytes], nested: bool, cells: int, sequences: int, width: int
    ) -> None:
        """With few or many cells, together or one after another, the tree of each prompt is the same, and nothing is
        left in the cache.
        """
        prompts, said = [], SYSTEM
        for tail in tails:
            said = said + tail if nested else SYSTEM + tail
            prompts.append(said)
        longest = max(map(len, prompts))
        room = replace(ROOMY, cells=max(cells, longest + 70), sequences=sequences, batch=48)
        model = ToyModel(room)
        trees, work = grow(model, prompts, width)

        assert work.finished
        for prompt, tree in zip(prompts, trees, strict=True):
            expected = enumerate_paths(tuple(prompt), ALPHA, 2).leaves
            assert masses(tree) == pytest.approx({path: p for (path, _), p in expected.items()})
        model.check_empty()

    def test_one_system_message_is_read_once(self) -> None:
        """The system message of ten prompts is decoded once, though only a few grow at a time."""
        prompts = [SYSTEM * 4 + f"{n} is my question.".encode() for n in range(10)]
        _, shared = grow(ToyModel(), prompts, width=4)
        _, apart = grow(ToyModel(), [bytes([n]) + prompt for n, prompt in enumerate(prompts)], 4)

        assert shared.tokens < apart.tokens - 8 * len(SYSTEM * 4)

    def test_places_of_one_conversation_are_one_prompt(self) -> None:
        """Prompts that each extend the one before cost together little more than the longest."""
        turns = [
            f"TURN {n}, and some forty characters of what was said. ".encode() for n in range(8)
        ]
        prompts = [b"".join(turns[: n + 1]) for n in range(8)]
        trees, work = grow(ToyModel(), prompts)

        read = sum(len(tree.nodes) for tree in trees)
        assert work.tokens < len(prompts[-1]) + 3 * read
