"""Reading the goals of a project file: groups, members, drift."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.base.conversation import State
from engine.base.errors import NotYet, UsageError
from engine.completeness.records import DecisionRule, StateCounts
from engine.conversations.filters import Term
from engine.goals.service.groups import GoalService
from engine.goals.tables.groups import nearest
from engine.project.project import Project
from engine.project.sql import IdSet
from tests.engine.goals.service.goal_project import TOPIC, members, texts
from tests.engine.project.support import give_scores


class TestLooking:
    def test_groups(self, goals: GoalService) -> None:
        """Groups come largest first and, together with the outliers, contain every conversation with a text."""
        shown = goals.shown()
        assert shown is not None
        rows = goals.groups()
        made = shown.clustering
        assert (made.conversations, made.without, shown.groups) == (32, 1, len(rows))
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True)
        found = [member for key in [*(row.id for row in rows), None] for member in members(goals, key)]  # fmt: skip
        assert sorted(found) == list(range(1, 33))
        assert sum(row.share for row in rows) == pytest.approx(1 - made.outliers / 32)
        assert all(row.label for row in rows)

    def test_states(self, clustered: Project, goals: GoalService) -> None:
        """The states of a group follow the decision rule in force and every new score; a conversation without a score
        is unscored.
        """
        rule = DecisionRule()
        scores: dict[int, float | None] = {n: (n * 37 % 100) / 100 for n in range(1, 29)}

        def counted(key: str) -> StateCounts:
            values = [scores.get(member) for member in members(goals, key)]
            found = Counter(map(rule.state, values))
            above = sum(one is not None and one >= rule.threshold for one in values)
            return StateCounts(
                found[State.COMPLETE], found[State.INCOMPLETE], found[State.BORDERLINE], found[State.UNSCORED], above
            )  # fmt: skip

        assert {row.id: row.states for row in goals.groups()} == {
            row.id: counted(row.id) for row in goals.groups()
        }
        scores = dict.fromkeys(range(1, 33), 0.99)
        give_scores(clustered, scores, "config-b")
        assert all(
            row.states == StateCounts(complete=row.size, above=row.size) for row in goals.groups()
        )

    def test_members(self, goals: GoalService) -> None:
        """Central members are nearest to the center, doubtful ones nearly as near to another group; a limit takes the
        first.
        """
        key = goals.groups()[0].id
        central = goals.members(key)
        distances = [round(row.distance, 5) for row in central]
        assert distances == sorted(distances)
        doubtful = goals.members(key, "doubtful")
        doubts = [round(row.doubt, 5) for row in doubtful]
        assert doubts == sorted(doubts, reverse=True)
        assert {row.conversation_id for row in doubtful} == members(goals, key)
        assert goals.members(key, "central", 2) == central[:2]
        labels = {row.label for row in goals.groups() if row.id != key}
        assert {row.other for row in central} <= labels
        assert central[0].text == texts()[central[0].conversation_id - 1][1]
        with pytest.raises(UsageError, match="no group"):
            goals.members("c77")

    def test_like_words(self, clustered: Project, goals: GoalService) -> None:
        """`like` matches the conversations of a set that are most like the words, the nearest first; of words that no
        conversation has, it says so."""
        with clustered.reading() as conn:
            every = IdSet.every(conn)
            ranked = nearest(conn, Term("like", ":", ("router offline",)), every)
            assert {TOPIC[key] for key in ranked[:5]} == {"wifi"}
            few = every.of(ranked[3:5])
            assert nearest(conn, Term("like", ":", ("router offline",)), few) == ranked[3:5]
            with pytest.raises(NotYet, match="xyzzy"):
                nearest(conn, Term("like", ":", ("xyzzy",)), every)
