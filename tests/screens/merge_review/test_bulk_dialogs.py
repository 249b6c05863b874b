"""The merge desk: a list of pairs or conversations decided as one act that one undo takes back."""

from __future__ import annotations

from threading import Event

import pytest

from engine.goals.records import Proposal
from engine.goals.service.merge_review import MergeReviewService
from tests.screens.driving import opened, press, text, until
from tests.screens.goals.goal_project import LABELS, clustered, kinds
from tests.screens.merge_review.test_merge_review import FIRST, answer


class TestPairs:
    async def test_accept_all_is_one_act(self) -> None:
        """A lists the pairs above a probability, merges them all, and one undo takes all of it back; where no pair
        is so probable, or what is typed is no probability, enter merges nothing. Where the model for goals follows no
        instructions, the desk says what to do, counts no calls, and has no key that asks."""
        support = clustered()
        async with opened(support, (80, 24), mode="6") as pilot:
            assert "no model that follows instructions: choose one on screen 8 with u" in text(
                pilot
            )
            assert "model call" not in text(pilot)
            assert "g asks it" not in text(pilot)
            assert "g" not in pilot.app.screen.active_bindings
            await press(pilot, "A", *["backspace"] * 3, *"1.0", "enter")
            assert "No pair has so high a probability; the highest is ." in text(pilot)
            await press(pilot, *["backspace"] * 3, *"two", "enter")
            assert "A probability is above 0" in text(pilot)
            await press(pilot, *["backspace"] * 3, *".001")
            assert "7 groups become 1" in text(pilot)
            assert "enter merges all" in text(pilot)
            await press(pilot, *["backspace"] * 3, "1")
            assert "2 pairs: 4 groups become 2" in text(pilot)
            assert FIRST[1] in text(pilot)
            assert kinds(support) == []
            await press(pilot, "enter")
            assert kinds(support) == ["merge", "merge"]
            await until(pilot, lambda: "Merged 2 pairs" in text(pilot))
            await press(pilot, "u")
            assert kinds(support) == []
            assert len(support.goals.groups()) == len(LABELS)

    async def test_a_search_that_ends_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pairs that are found for what was typed before are not merged once something else is typed."""
        released, above = Event(), MergeReviewService.above

        def above_when_released(review: MergeReviewService, p: float) -> list[Proposal]:
            if 0 < p < 0.5:
                released.wait()
            return above(review, p)

        monkeypatch.setattr(MergeReviewService, "above", above_when_released)
        support = clustered()
        async with opened(support, mode="6") as pilot:
            await press(pilot, "A", *["backspace"] * 3, ".")
            await pilot.press("1", "x")
            released.set()
            await press(pilot, "enter")
            assert "A probability is above 0" in text(pilot)
            assert kinds(support) == []

    async def test_what_is_left_to_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The desk says how many pairs are left and about how many of them are to be merged; only likely ones cost
        model calls, of a model that follows instructions."""
        monkeypatch.setattr("engine.model.catalog.CAPABLE_WEIGHTS", 0)
        support = clustered()
        async with opened(support, (160, 34), mode="6") as pilot:
            assert "not asked yet; g asks it" in text(pilot)
            assert "g" in pilot.app.screen.active_bindings
            left, likely = support.merge_review.progress().left, support.merge_review.above(0.05)
            assert len(likely) == 4
            assert f"{left} pairs left of {len(LABELS)} groups, about 1 to merge" in text(pilot)
            assert "model not asked about 4 pairs: 16 model calls" in text(pilot)
            answer(support, likely[0].pair, 0.01, 0.01)
            await until(
                pilot, lambda: "model not asked about 3 pairs: 12 model calls" in text(pilot)
            )
            for pair in likely[1:]:
                answer(support, pair.pair, 0.01, 0.01)
            await until(pilot, lambda: "not asked about" not in text(pilot))
