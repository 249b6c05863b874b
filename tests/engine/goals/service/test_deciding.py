"""Decisions of a person on the goals of a project file."""

from __future__ import annotations

from itertools import combinations

import pytest

from engine.base.errors import UsageError
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from tests.engine.goals.service.goal_project import TOPIC, members, topic_of


class TestDeciding:
    def test_merging(self, goals: GoalService, review: MergeReviewService) -> None:
        """A merge makes one group of two with the given label; its parts stay known, and undo and redo switch between
        both.
        """
        a, b = goals.groups()[0], goals.groups()[1]
        both = members(goals, a.id) | members(goals, b.id)
        done = review.merge(review.pair(a.id, b.id), "  Trips \n and more ")
        merged = goals.group(done.made[0])
        assert merged is not None
        assert (merged.label, merged.size) == ("Trips and more", len(both))
        assert set(merged.made_of) == {a.id, b.id}
        assert members(goals, merged.id) == both
        gone = goals.group(a.id)
        assert gone is not None
        assert (gone.size, gone.number) == (a.size, 0)
        assert members(goals, a.id) < both
        assert goals.group("c99") is None
        undone = review.undo()
        assert undone is not None
        assert (undone.id, undone.active) == (done.id, False)
        assert goals.groups()[0].id == a.id
        assert review.redo() is not None
        assert goals.groups()[0].id == merged.id
        assert [row.id for row in review.history()] == [done.id]

    def test_a_group_that_is_gone(self, goals: GoalService, review: MergeReviewService) -> None:
        """A decision on a former group is an error that says what it became."""
        a, b, c, *_ = (row.id for row in goals.groups())
        review.merge(review.pair(a, b), "both")
        with pytest.raises(UsageError, match="no group"):
            review.merge(review.pair(a, c))
        with pytest.raises(UsageError, match="no group"):
            review.rename(b, "x")
        with pytest.raises(UsageError, match="no group"):
            review.split(a, [[1]])

    def test_splitting(self, goals: GoalService, review: MergeReviewService) -> None:
        """The preview partitions all members; a split with it makes those groups, labelled with phrases
        of their members.
        """
        a, b = next(
            (x.id, y.id)
            for x, y in combinations(goals.groups(), 2)
            if topic_of(goals, x.id) != topic_of(goals, y.id)
        )
        mixed = review.merge(review.pair(a, b)).made[0]
        everyone = members(goals, mixed)
        parts = review.split_preview(mixed)
        assert sorted(key for part in parts for key in part.conversation_ids) == sorted(everyone)
        assert [part.size for part in parts] == [len(part.conversation_ids) for part in parts]
        topics = [{TOPIC[key] for key in part.conversation_ids} for part in parts]
        assert [len(found) for found in topics] == [1, 1]
        assert topics[0] != topics[1]
        done = review.split(mixed, [part.conversation_ids for part in parts[:1]])
        assert [members(goals, key) for key in done.made] == [
            set(p.conversation_ids) for p in parts
        ]
        labels = [group.label for key in done.made if (group := goals.group(key))]
        for label, part in zip(labels, parts, strict=True):
            assert len(label.split()) > 1
            assert set(label.casefold().split()) & set(part.words)
        with pytest.raises(UsageError, match="not in the group"):
            review.split(done.made[0], [list(parts[1].conversation_ids)[:1]])

    def test_moving(self, goals: GoalService, review: MergeReviewService) -> None:
        """Members move to another group or to none; a conversation that the clustering does not know cannot be
        moved.
        """
        a, b, *_ = (row.id for row in goals.groups())
        one, two = sorted(members(goals, a))[:2]
        review.move([one], b)
        review.move([two], None)
        assert one in members(goals, b)
        assert two in members(goals, None)
        assert not {one, two} & members(goals, a)
        with pytest.raises(UsageError, match="does not know"):
            review.move([33], a)

    def test_names_and_pins(self, goals: GoalService, review: MergeReviewService) -> None:
        """A pinned group keeps its name in a merge and is not proposed; an empty name is refused."""
        a, b, *_ = (row.id for row in goals.groups())
        review.rename(b, "Keep me")
        review.pin(b, on=True)
        left = review.proposal()
        assert left is None or b not in left.pair
        made = review.merge(review.pair(a, b)).made[0]
        group = goals.group(made)
        assert group is not None
        assert (group.label, group.pinned) == ("Keep me", True)
        with pytest.raises(UsageError, match="needs a name"):
            review.rename(made, "   ")
