"""Which conversations a training run trains on, and which it holds out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.training_data import (
    MAX_SELECTION_CONVERSATIONS,
    TrainableConversation,
    split,
    text_digest,
)


def usable(count: int, boundaries: int = 3) -> list[TrainableConversation]:
    """Conversations of different texts."""
    return [
        TrainableConversation(n, f"c/{n}", text_digest([f"text {n}"]), boundaries, 10)
        for n in range(1, count + 1)
    ]


class TestSides:
    @given(st.sets(st.integers(1, 400)), st.sampled_from([0.2, 0.5, 0.8]), st.integers(0, 3))
    def test_a_conversation_keeps_its_side(self, left: set[int], share: float, seed: int) -> None:
        """A conversation is held out or trained on whatever other conversations are there."""
        every = usable(400)
        whole = split(every, seed=seed, held_out=share)
        part = split([one for one in every if one.key in left], seed=seed, held_out=share)

        assert {one.key for one in part.train} == {one.key for one in whole.train} & left
        assert {one.key for one in part.held_out} == {one.key for one in whole.held_out} & left

    def test_equal_texts_are_on_one_side(self) -> None:
        """Conversations with the same text are never on both sides; at most one of them is trained on."""
        every = usable(200)
        twins = [
            TrainableConversation(
                one.key + 1000, f"twin/{one.key}", one.digest, one.boundaries, one.chars
            )
            for one in every
        ]
        found = split([*every, *twins], seed=0, held_out=0.5)

        train = {one.digest for one in found.train}
        held = {one.digest for one in found.held_out}
        assert not train & held
        assert len(train) == len(found.train) == found.twins
        assert len(held) * 2 == len(found.held_out)

    def test_a_name_on_both_sides_is_not_named_as_held_out(self) -> None:
        """Names are unique within a source only: a name that was trained on in one source is not listed as held out."""
        found = split(
            [TrainableConversation(n, "same", text_digest([str(n)]), 2, 1) for n in range(40)],
            seed=0,
            held_out=0.5,
        )

        assert found.train
        assert found.held_out
        assert found.held_out_names() == []


class TestThreeParts:
    @given(st.integers(2, 400), st.sampled_from([0.2, 0.5, 0.8]), st.integers(0, 3))
    def test_the_parts_share_nothing(self, count: int, share: float, seed: int) -> None:
        """No text is in two parts, and what is held out is in one of two."""
        twins = [
            TrainableConversation(o.key + 1000, f"twin/{o.key}", o.digest, 3, 10)
            for o in usable(count)[::3]
        ]
        found = split([*usable(count), *twins], seed=seed, held_out=share)
        train, selection, test = (
            {one.digest for one in part} for part in (found.train, found.selection, found.test)
        )

        assert not train & (selection | test)
        assert not selection & test
        assert {one.digest for one in found.held_out} == selection | test
        assert {*found.selection, *found.test} <= set(found.held_out)

    def test_a_third_selects(self) -> None:
        """About a third of what is held out selects the checkpoint, of many conversations a hundred; the rest tests."""
        few, many = (split(usable(count), seed=0, held_out=0.5) for count in (200, 4000))

        assert 20 < len(few.selection) < 50
        assert len(many.selection) == MAX_SELECTION_CONVERSATIONS
        assert len(many.selection) + len(many.test) == len(many.held_out)
