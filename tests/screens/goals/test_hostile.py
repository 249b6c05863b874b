"""Labels, reasons and texts of goals are data on every goal screen: they neither act nor break a layout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.records.goals import Evidence
from screens.shell.control_guard import ControlGuard
from tests.screens.driving import opened, press
from tests.screens.fakes import FakeProject
from tests.screens.goals.goal_project import clustered
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())
LONG = "W" * 10_000


def hostile(payload: str) -> FakeProject:
    """Clusters whose labels, members and evidence are the payload."""
    fake = clustered()
    fake.goals.clusters = [
        (f"{payload} {n}", ids) for n, (_, ids) in enumerate(fake.goals.clusters)
    ]
    fake.goals.floor = 0.0
    fake.goals.answers[frozenset(("c1", "c2"))] = Evidence(
        0.9, 0.9, 0.9, 0.1, 0.1, 0.9, 0.1, payload, payload, payload, payload
    )
    for item in fake.items.values():
        item.row = replace(item.row, opening=payload, external_id=payload)
    fake.goals.merge(fake.goals.pair("c3", "c4"), payload)
    return fake


@pytest.mark.parametrize(
    ("payload", "size"), [(ALL, (80, 24)), (LONG, (200, 60))], ids=["every payload", "ten thousand"]
)
async def test_every_goal_screen_survives(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the net, too, nothing crashes, acts, or leaves a control character in what is drawn."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    async with opened(hostile(payload), size, mode="6") as pilot:
        check(pilot, "desk")
        for keys in (["A"], ["S", "a"], ["m"], ["v"], ["r"], ["e"], ["a"], ["H"]):
            await press(pilot, *keys)
            check(pilot, f"desk {keys}")
            await press(pilot, "escape")
        await press(pilot, "y", "u")
        check(pilot, "toast")
        await press(pilot, "5")
        check(pilot, "goals")
        for keys in (["v"], ["v"], ["M"], ["M"]):
            await press(pilot, *keys)
            check(pilot, f"goals {keys}")
        for keys in (["t"], ["d"], ["r"], ["m"], ["D"], ["enter"], ["c"]):
            await press(pilot, *keys)
            check(pilot, f"goals {keys}")
            await press(pilot, "escape")
        await press(pilot, "enter", "equals_sign")
        check(pilot, "more like this")
        await press(pilot, "escape", "escape", "1")
        check(pilot, "overview")
