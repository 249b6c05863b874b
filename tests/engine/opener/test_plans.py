"""Query plans: the list is answered from indices, and wide rows are read for a page only."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.engine.project.support import fill, give_scores, talk

FILTERS = (
    *("state:incomplete", "state:unscored", "p<.3", "turns>5", "messages:1..4", "messages>=2"),
    *(
        "length:100",
        "source:a",
        "name:7",
        "date:2026",
        "date:2025,2026-01",
        "date>2026",
        "succeeded:any",
        "tag:odd",
    ),
    *("-note:none", "word", "state:complete,borderline -turns:3 messages<9 source:a date<2026-04"),
)


@pytest.fixture
def store(project: Project) -> ConversationService:
    """A few conversations, some scored, so that no filter matches none or all."""
    fill(project, [talk(f"c{n}", f"word {n}", created_at="2026-01-01") for n in range(9)])
    give_scores(project, {n: n / 9 for n in range(1, 8)})
    return ConversationService(project)


def steps(store: ConversationService, query: ListQuery) -> list[str]:
    """The plan of every statement of a find, a count and a histogram."""
    asked: list[str] = []
    with store._project.reading() as conn:
        conn.set_trace_callback(asked.append)
        store.ids(query)
        store.counts(query)
        store.histogram(5)
        conn.set_trace_callback(None)
        found = []
        for sql in asked:
            if sql.startswith("SELECT"):
                found += [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}")]
    return found


def wide(step: str) -> bool:
    """Whether a step of a plan reads rows of conversations, messages or scores."""
    kind, *rest = step.split()
    if kind not in ("SCAN", "SEARCH") or rest[0] not in ("conversation", "message", "score"):
        return False
    return len(rest) > 1 and "COVERING INDEX" not in step  # without more it is the greatest id


@pytest.mark.parametrize("text", FILTERS)
def test_filters(store: ConversationService, text: str) -> None:
    """No filter reads wide rows."""
    found = steps(store, ListQuery(parse_filter(text)))
    assert len(found) > 5
    assert [step for step in found if wide(step)] == []


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("sort", get_args(SortKey))
def test_orders(store: ConversationService, sort: SortKey, down: bool) -> None:
    """No order reads wide rows or sorts more than ties, over all conversations or a part."""
    for text in ("", "turns>0 -name:c3"):
        found = steps(store, ListQuery(parse_filter(text), sort, down))
        assert [step for step in found if wide(step)] == []
        if sort not in ("succeeded", "tag"):  # a few rows, derived
            assert "USE TEMP B-TREE FOR ORDER BY" not in found
