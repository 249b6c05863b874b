"""Signs of trouble of a small project: read, compared, filtered, ordered, read anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.sign import Sign
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.opener.table_export import table_lines
from engine.project.project import Project
from engine.signs import tables
from engine.signs.stages import SignStage
from tests.engine.goals.service.goal_project import run
from tests.engine.project.support import fill, talk


@pytest.fixture
def project(project: Project) -> Project:
    """Three conversations: a quiet one, one with a refusal, one with a refusal, a complaint and no answer."""
    fill(
        project,
        [
            talk("quiet", "Where is Rome?", "In Italy."),
            talk("refused", "Where is my parcel?", "I am sorry, I do not know."),
            talk("worse", "Where is it?", "I am sorry, I cannot say.", "That is not what I asked"),
        ],
    )
    return project


def ids(project: Project, text: str) -> list[int]:
    """Ids of the conversations that a filter selects."""
    return list(ConversationService(project).ids(ListQuery(parse_filter(text))))


def test_filters_select_and_orders_order_by_signs(project: Project) -> None:
    """Signs are filtered by name, any and none, and most trouble comes first in the order of trouble."""
    stage = SignStage(project)
    run(project, [stage])
    assert stage.counts[Sign.REFUSED] == 2
    assert ids(project, "sign:refused") == [2, 3]
    assert ids(project, "sign:complaint,unanswered") == [3]
    assert ids(project, "sign:none") == [1]
    assert ids(project, "trouble>1") == [3]
    conversations = ConversationService(project)
    order = list(conversations.ids(ListQuery(sort="trouble", descending=True)))
    assert order == [3, 2, 1]
    row = conversations.rows([3])[0]
    assert row.signs[0].reason in ("user: that is not what i asked", "the user has the last word")


def test_a_sign_that_all_have_is_none(tmp_path: Path) -> None:
    """Where all conversations end alike, how they end is no sign of any of them."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("one", "Where is it?"), talk("two", "And where is she?")])
        run(project, [SignStage(project)])
        assert ids(project, "sign:any") == []


def test_a_table_has_trouble_and_signs(project: Project) -> None:
    """Tables have the trouble and the names of the signs, null and empty before they were read."""
    with project.reading() as conn:
        assert [line["trouble"] for line in table_lines(conn, None)] == [None] * 3
    run(project, [SignStage(project)])
    with project.reading() as conn:
        lines = list(table_lines(conn, None))
    assert [bool(line["signs"]) for line in lines] == [False, True, True]
    assert lines[0]["trouble"] < lines[1]["trouble"] < lines[2]["trouble"]


def test_only_what_is_new_is_read(project: Project) -> None:
    """A second run reads nothing, and a later import is compared with all that was there."""
    run(project, [SignStage(project)])
    again = SignStage(project)
    run(project, [again])
    assert again.read == 0
    fill(project, [talk("new", "Who is there?", "I am sorry, nobody.")])
    third = SignStage(project)
    run(project, [third])
    assert (third.read, ids(project, "sign:refused")) == (1, [2, 3, 4])


def test_signs_that_were_read_otherwise_are_read_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where signs are read in another way than when they were stored, all conversations are read again, once."""
    run(project, [SignStage(project)])
    monkeypatch.setattr(tables, "READING", tables.READING + 1)
    for expected in (3, 0):
        stage = SignStage(project)
        run(project, [stage])
        assert (stage.read, ids(project, "sign:refused")) == (expected, [2, 3])
