"""The merge desk: a list of pairs or conversations decided as one act that one undo takes back."""

from __future__ import annotations

from tests.screens.driving import opened, press, text, until
from tests.screens.goals.goal_project import LABELS, clustered, kinds
from tests.screens.merge_review.test_merge_review import FIRST, answer


class TestPairs:
    async def test_accept_all_is_one_act(self) -> None:
        """A lists the pairs above a probability, merges them all, and one undo takes all of it back; where no pair
        is so probable, or what is typed is no probability, enter merges nothing."""
        support = clustered()
        async with opened(support, mode="6") as pilot:
            await press(pilot, "A", *["backspace"] * 3, *"1.0", "enter")
            assert "No pair has so high a probability." in text(pilot)
            await press(pilot, *["backspace"] * 3, *"two", "enter")
            assert "A probability is above 0" in text(pilot)
            await press(pilot, *["backspace"] * 3, *".1")
            assert "2 pairs will be merged" in text(pilot)
            assert FIRST[1] in text(pilot)
            assert kinds(support) == []
            await press(pilot, "enter")
            assert kinds(support) == ["merge", "merge"]
            await until(pilot, lambda: "Merged 2 pairs" in text(pilot))
            await press(pilot, "u")
            assert kinds(support) == []
            assert len(support.goals.groups()) == len(LABELS)

    async def test_refuse_the_rest_is_one_act(self) -> None:
        """R lists the pairs below a probability, the likeliest first, refuses them all, and the desk is at its end; one
        line of the history says so, and one undo takes all of it back."""
        support = clustered()
        async with opened(support, (120, 34), mode="6") as pilot:
            left = support.merge_review.progress().left
            await press(pilot, "R", *["backspace"] * 3, *".05")
            listed = [p.evidence.probability for p in support.merge_review.below(0.05)]
            assert listed == sorted(listed, reverse=True)
            assert f"{len(listed)} pairs will be kept apart" in text(pilot)
            assert kinds(support) == []
            await press(pilot, *["backspace"] * 3, *"1.0", "enter")
            assert kinds(support) == ["apart"] * left
            await until(pilot, lambda: f"Refused {left} pairs" in text(pilot))
            assert "every current pair was refused" in text(pilot)
            await press(pilot, "H")
            assert f"kept {left} pairs apart at once" in text(pilot)
            assert "1 act " in text(pilot)
            await press(pilot, "escape", "u")
            assert kinds(support) == []
            undone = f"Undone: kept {left} pairs apart at once"
            await until(pilot, lambda: undone in text(pilot))
            assert support.merge_review.progress().left == left

    async def test_what_is_left_to_the_end(self) -> None:
        """The desk says how many pairs are left, how many of them are to be merged, and how many R refuses; only likely
        ones cost model calls."""
        support = clustered()
        async with opened(support, (160, 34), mode="6") as pilot:
            left, likely = support.merge_review.progress().left, support.merge_review.above(0.05)
            assert len(likely) == 4
            assert f"{left} left, 0 to 4 to merge" in text(pilot)
            assert f"R refuses {left - 4} unlikely" in text(pilot)
            assert "model not asked about 4 pairs: 16 model calls" in text(pilot)
            answer(support, likely[0].pair, 0.01, 0.01)
            await until(
                pilot, lambda: "model not asked about 3 pairs: 12 model calls" in text(pilot)
            )
            for pair in likely[1:]:
                answer(support, pair.pair, 0.01, 0.01)
            await until(pilot, lambda: "not asked about" not in text(pilot))
            progress = support.merge_review.progress()
            assert f"R refuses {left - progress.likely} unlikely" in text(pilot)
