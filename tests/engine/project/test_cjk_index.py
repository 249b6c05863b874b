"""Search in scripts without spaces between words."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.engine.project.support import check_whole, fill, talk, with_tools


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Four conversations, three of them with Chinese or Japanese text."""
    project = Project.open(tmp_path / "p.wb", create=True)
    fill(
        project,
        [
            talk("a", "我想学习音乐制作，用iPhone录音", "好的：先听音阶。"),
            talk("b", "Any good music lessons?", "Try 音乐 school."),
            talk("c", "東京タワーへ行きたい", "はい"),
            talk("d", "An iPhone, please", "Sold"),
        ],
    )
    return project


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("音乐", [1, 2]),  # two signs inside a run, and a word between spaces
        ("学习音乐", [1]),
        ("乐音", []),  # the signs in another order
        ("音", [1, 2]),
        ('"音乐"', [1, 2]),
        ("音乐 -lessons", [1]),
        ("iPhone", [1, 4]),  # between signs, and between spaces
        ("iPho", [1, 4]),
        ("iPhone录音", [1]),
        ("タワー", [3]),
        ("-音", [3, 4]),
        ('"音乐" school', [2]),
    ],
)
def test_what_is_found(project: Project, text: str, found: list[int]) -> None:
    """A Chinese or Japanese word is found anywhere in a text, other words from their beginning only."""
    assert list(ConversationService(project).ids(ListQuery(parse_filter(text)))) == found


def test_the_file_is_sound(tmp_path: Path) -> None:
    """SQLite's integrity checks pass with the second index, and tool calls are in it."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("a", "音乐"), with_tools("t")])
    check_whole(tmp_path / "p.wb")
