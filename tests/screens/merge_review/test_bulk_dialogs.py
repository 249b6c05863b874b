"""The merge desk: what is decided of a whole list, as one act that one undo takes back."""

from __future__ import annotations

from itertools import combinations

import pytest

from engine.events import DataChanged
from engine.records.goals import Evidence
from tests.screens.driving import opened, press, text, until
from tests.screens.goals.fake_goals import CLUSTERS
from tests.screens.goals.goal_project import clustered
from tests.screens.merge_review.test_merge_review import FIRST, kinds


class TestPairs:
    async def test_accept_all_is_one_act(self) -> None:
        """A lists the pairs above a probability, merges them all, and one undo takes all of it back."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "A", *["backspace"] * 3, *".4")
            assert "of groups become one each" in text(pilot)
            assert FIRST[1] in text(pilot)
            assert fake.goals.decisions == []
            await press(pilot, "enter")
            assert len(fake.goals.decisions) > 1
            merged = f"Merged {len(fake.goals.decisions)} pairs"
            await until(pilot, lambda: merged in text(pilot))
            await press(pilot, "u")
            assert fake.goals.decisions == []
            assert len(fake.goals.groups()) == len(CLUSTERS)

    async def test_accept_nothing(self) -> None:
        """Where no pair is so probable, or what is typed is no probability, enter merges nothing."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "A", *["backspace"] * 3, *"1.0", "enter")
            assert "No pair is so probable." in text(pilot)
            await press(pilot, *["backspace"] * 3, *"two", "enter")
            assert "A probability lies above 0" in text(pilot)
            await press(pilot, "escape")
            assert fake.goals.decisions == []

    async def test_refuse_the_rest_is_one_act(self) -> None:
        """R lists the pairs below a probability, the likeliest first, refuses them all, and the desk is at its end; one
        line of the history tells of it, and one undo takes all of it back."""
        fake = clustered()
        async with opened(fake, (120, 34), mode="6") as pilot:
            left = fake.goals.progress().left
            await press(pilot, "R", *["backspace"] * 3, *".5")
            listed = [p.evidence.probability for p in fake.goals.below(0.5)]
            assert listed == sorted(listed, reverse=True)
            assert f"{len(listed)} pairs of groups are kept apart" in text(pilot)
            assert fake.goals.decisions == []
            await press(pilot, *["backspace"] * 2, *"1.0", "enter")
            assert kinds(fake.goals) == ["apart"] * left
            await until(pilot, lambda: f"Refused {left} pairs" in text(pilot))
            assert "every current pair was refused" in text(pilot)
            await press(pilot, "H")
            assert f"kept {left} pairs apart at once" in text(pilot)
            assert "1 act " in text(pilot)
            await press(pilot, "escape", "u")
            assert fake.goals.decisions == []
            taken = f"Taken back: kept {left} pairs apart at once"
            await until(pilot, lambda: taken in text(pilot))
            assert fake.goals.progress().left == left

    async def test_what_is_left_to_the_end(self) -> None:
        """The likely pairs are counted apart from those that one act refuses; only likely ones cost model calls."""
        fake = clustered()
        async with opened(fake, (160, 34), mode="6") as pilot:
            left = fake.goals.progress().left
            assert f"{left} left" in text(pilot)
            assert f"{left} unasked" in text(pilot)
            fake.goals.answers[frozenset(("c1", "c3"))] = Evidence(0.01, 0.9, 0.8, 0.1)
            fake.emit(DataChanged(frozenset({"goal_answer"})))
            await until(
                pilot, lambda: f"{left - 1} likely left, then R refuses 1 at" in text(pilot)
            )
            assert f"{left - 1} unasked" in text(pilot)
            for pair in combinations([f"c{n}" for n in range(1, 8)], 2):
                fake.goals.answers[frozenset(pair)] = Evidence(0.01, 0.9, 0.8, 0.1)
            fake.emit(DataChanged(frozenset({"goal_answer"})))
            await until(
                pilot, lambda: f"nothing likely left: R refuses {left} at once" in text(pilot)
            )
            assert "unasked" not in text(pilot)


class TestSettling:
    @pytest.mark.parametrize("size", [(80, 24), (200, 60)])
    async def test_settling_is_one_act(self, size: tuple[int, int]) -> None:
        """t lists the groups that draw conversations, enter moves them, and one undo takes all of it back."""
        fake = clustered()
        async with opened(fake, size, mode="6") as pilot:
            await press(pilot, "t")
            await until(pilot, lambda: "5 conversations have most nearest" in text(pilot))
            assert "2 outliers among them" in text(pilot)
            assert fake.goals.decisions == []
            await press(pilot, "enter")
            assert kinds(fake.goals) == ["move", "move"]
            await until(pilot, lambda: "Moved 5 conversations" in text(pilot))
            await press(pilot, "t")
            await until(pilot, lambda: "where most of its neighbours are" in text(pilot))
            await press(pilot, "enter", "escape", "u")
            assert fake.goals.decisions == []

    async def test_escape_moves_nothing(self) -> None:
        """What was only looked at stays."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "t", "escape")
            assert fake.goals.decisions == []
