"""Data of the conversation list: tags, histogram of scores, dates, hits of words."""

from __future__ import annotations

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.tables.answers import tags_of
from tests.engine.project.support import fill, give_scores, mark, talk, with_tools


@pytest.fixture
def store(project: Project) -> ConversationService:
    """Four conversations, three of them scored."""
    fill(
        project,
        [
            talk("a", "I want a red bicycle", "Red?", "Yes", created_at="2026-03-01"),
            talk("b", "Where is it?", created_at="2023-12-24T18:00:00Z"),
            talk("c", "hello"),
            with_tools("t"),
        ],
    )
    give_scores(project, {1: 1.0, 2: 0.5, 3: 0.0, 4: None})
    return ConversationService(project)


class TestTags:
    def test_tags_in_force(self, project: Project, store: ConversationService) -> None:
        """A tag is in force until it is removed; rows and the list of tags agree."""
        for key, tag in [(1, "spam"), (1, "late"), (2, "spam"), (3, "odd"), (1, "spam")]:
            mark(project, key, "tag", tag)
        mark(project, 3, "untag", "odd")
        mark(project, 2, "note", "spam, surely")
        assert store.tags() == [("late", 1), ("spam", 2)]
        assert [row.tags for row in store.rows([3, 2, 1])] == [(), ("spam",), ("late", "spam")]
        assert list(store.ids(ListQuery(parse_filter("tag:spam -tag:late")))) == [2]

    def test_undone(self, project: Project, store: ConversationService) -> None:
        """Undoing an untag restores the tag; undoing a tag removes it."""
        mark(project, 1, "tag", "spam")
        mark(project, 1, "untag", "spam")
        mark(project, 2, "tag", "spam")
        project.write(
            lambda conn: conn.execute(
                "INSERT INTO answer (conversation_id, question, kind, given_at, target)"
                " VALUES (1, '', 'undo', '2026', 2), (2, '', 'undo', '2026', 3)"
            )
        )
        assert store.tags() == [("spam", 1)]
        assert [row.tags for row in store.rows([1, 2])] == [("spam",), ()]

    def test_rows_are_read_by_key(self, store: ConversationService) -> None:
        """The tags of a page are found through the conversations of the page, not among all verdicts."""
        with store._project.reading() as conn:
            steps: list[str] = []
            conn.set_trace_callback(steps.append)
            tags_of(conn, [1, 2])
            conn.set_trace_callback(None)
            plan = conn.execute(f"EXPLAIN QUERY PLAN {steps[0]}").fetchall()
        assert not [step[3] for step in plan if step[3].startswith("SCAN v")], plan


def test_dates(project: Project, store: ConversationService) -> None:
    """The first and the last known date; None without dates."""
    assert store.dates() == ("2023-12-24T18:00:00Z", "2026-03-01")
