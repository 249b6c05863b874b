"""Chinese text on the screens: found, laid out in cells, and nothing of it lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.opener.open_project import OpenProject
from engine.project.project import Project
from tests.engine.project.support import fill as store
from tests.engine.project.support import talk
from tests.screens.conversations.listing import filtered
from tests.screens.driving import Size, lines, press, settle, text
from workbench.app import WorkbenchApp

WISH = "我想给外甥女准备一份生日礼物，她喜欢音乐和天文，预算大约三百元，最好能自己动手做一点，不要太贵也不要太随便。"
ANSWER = (
    "好的！可以考虑一台入门望远镜，或者一把尤克里里；"
    "也可以亲手做一个星座灯，配一张写着祝福的卡片，让她在夜里看见自己的星座。"
)
SIZES: list[Size] = [(80, 24), (200, 60)]


@asynccontextmanager
async def opened(path: Path, size: Size) -> AsyncIterator[Pilot[None]]:
    """The list of a project file, put together as the program puts it together."""
    with OpenProject(path) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            await press(pilot, "2")
            yield pilot


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of three conversations in Chinese and one in English, in the folder that the program runs in."""
    monkeypatch.chdir(tmp_path)
    with Project.open(tmp_path / "p.wb", create=True) as project:
        store(
            project,
            [
                talk("礼物/甲", WISH, ANSWER),
                talk("旅行/乙", "周末去哪里看海？", "青岛。"),
                talk("菜谱/丙", "音乐会前吃什么？", "一碗面。"),
                talk("plain", "Which gift?", "A lamp."),
            ],
        )
    return tmp_path / "p.wb"


def widths(pilot: Pilot[None]) -> set[int]:
    """In cells, of the lines as they are drawn."""
    return {strip.cell_length for strip in pilot.app.screen._compositor.render_strips()}


def shown(pilot: Pilot[None]) -> str:
    """The signs on the screen in the order of reading, without what stands between lines."""
    return "".join(char for line in lines(pilot) for char in line if ord(char) > 0x2E7F)


@pytest.mark.parametrize("size", SIZES, ids=["small", "large"])
class TestOnTheScreen:
    async def test_list(self, path: Path, size: Size) -> None:
        """A word of two signs finds the conversations that have it, and every line fills the terminal exactly."""
        async with opened(path, size) as pilot:
            assert widths(pilot) == {size[0]}
            await filtered(pilot, "音乐")
            assert "2 of 4" in text(pilot)
            assert "音乐会前吃什么" in text(pilot)
            assert "周末去哪里" not in text(pilot)
            assert widths(pilot) == {size[0]}
