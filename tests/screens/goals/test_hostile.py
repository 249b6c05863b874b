"""Labels, reasons and texts of goals are data on every goal screen: they neither act nor break a layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.conversation import without_surrogates
from screens.shell.base_app import ControlGuard
from tests.screens.driving import opened, press
from tests.screens.goals.goal_project import build
from tests.screens.merge_review.test_merge_review import answer
from tests.screens.project import ScreenProject, open_copy
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())
LONG = "W" * 10_000


def hostile(payload: str, path: Path) -> ScreenProject:
    """A project whose labels, members, reasons and evidence are the payload."""
    payload = without_surrogates(payload)
    build(path, payload)
    support = open_copy(path)
    first = support.merge_review.proposal()
    assert first is not None
    answer(support, first.pair, 0.9, 0.1, said=payload)
    groups = [group for group in support.goals.groups() if group.id not in first.pair]
    support.merge_review.merge(support.merge_review.pair(groups[0].id, groups[1].id), payload)
    return support


@pytest.mark.parametrize(
    ("payload", "size"), [(ALL, (80, 24)), (LONG, (200, 60))], ids=["every payload", "ten thousand"]
)
async def test_every_goal_screen_survives(
    payload: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the net, too, nothing crashes, acts, or leaves a control character in what is drawn."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    async with opened(hostile(payload, tmp_path / "hostile.wb"), size, mode="6") as pilot:
        check(pilot, "desk")
        for keys in (["A"], ["e"], ["a"], ["H"]):
            await press(pilot, *keys)
            check(pilot, f"desk {keys}")
            await press(pilot, "escape")
        await press(pilot, "y", "u")
        check(pilot, "toast")
        await press(pilot, "5")
        check(pilot, "goals")
        for keys in (["v"], ["v"]):
            await press(pilot, *keys)
            check(pilot, f"goals {keys}")
        for keys in (["d"], ["r"], ["m"], ["D"], ["enter"], ["c"]):
            await press(pilot, *keys)
            check(pilot, f"goals {keys}")
            await press(pilot, "escape")
        await press(pilot, "1")
        check(pilot, "overview")
