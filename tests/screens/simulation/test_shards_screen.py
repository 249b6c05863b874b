"""Approving shards: what is covered and missing, edits, decisions, errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.simulate.draft import Draft
from engine.simulate.service.sharded import opened_drafts
from screens.shell.base_app import ControlGuard
from screens.simulation.shards_screen import ShardsScreen, text_content
from tests.screens.driving import opened, press, text
from tests.screens.project import ScreenProject, project
from tests.screens.simulation.played import DRAFTS, write_drafts
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

OPEN = ("A", "enter")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScreenProject:
    """A project; a file of shards with two drafts is in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_drafts(tmp_path)
    return project(6)


def drafts(tmp_path: Path) -> list[Draft]:
    """The two drafts as the screen gets them."""
    write_drafts(tmp_path)
    return opened_drafts(str(tmp_path / "shards.jsonl"), list).items()


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_what_speaks_against_it(fake: ScreenProject, size: tuple[int, int]) -> None:
    """Text, shards, what is lost, what the model misses and what the check found are all in sight."""
    async with opened(fake, size, mode="9") as pilot:
        await press(pilot, *OPEN)
        shown = text(pilot)
        for part in (
            "1 of 2 GSM8K-1 ○ waits for you",
            "She gives Ben 7.",
            "She gives some away.",
            "as in the text",
            "In no shard: Ben, 7",
            "The model misses: that she gives 7 to Ben",
            "FULL 80, CONCAT 50, which is too little",
        ):
            assert part in shown


def test_the_span(tmp_path: Path) -> None:
    """The span of the shard under the cursor is marked, and so is what no shard stands for."""
    first = drafts(tmp_path)[0]
    draft = replace(first, candidates=first.candidates[1:])
    content = text_content(draft, draft.candidates[0])
    assert content.plain == draft.text
    marked = {
        content.plain[span.start : span.end].strip(): str(span.style) for span in content.spans
    }
    assert "tone-tab-back" in marked["Ann has 12 apples."]
    assert "tone-incomplete" in marked["How many are left?"]
    assert "She gives Ben 7." not in marked


def shard_ids(screen: ShardsScreen) -> list[int]:
    """The ids of the shards in the order of the list."""
    rows = map(screen.table.item, screen.table.ids)
    return [row[1].shard_id for row in rows if row is not None]


async def test_editing(fake: ScreenProject) -> None:
    """A shard is worded anew, moved and left out; what is lost is told anew each time."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN, "down", "down", "e", *" Ben got 7.", "enter")
        assert "She gives some away. Ben got 7." in text(pilot)
        assert "In no shard" not in text(pilot)
        await press(pilot, "less_than_sign")
        screen = pilot.app.screen
        assert isinstance(screen, ShardsScreen)
        assert shard_ids(screen) == [1, 3, 2]
        await press(pilot, "d")
        assert "In no shard: Ben, 7" in text(pilot)
        assert shard_ids(screen) == [1, 2]


async def test_deciding(fake: ScreenProject) -> None:
    """Approving and rejecting go on to what waits; a decision is taken back."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN, "a")
        assert "2 of 2 GSM8K-2 ○ waits for you" in text(pilot)
        await press(pilot, "r")
        assert "✗ rejected" in text(pilot)
        await press(pilot, "left")
        assert "1 of 2 GSM8K-1 ● approved" in text(pilot)
        await press(pilot, "p")
        assert "1 of 2 GSM8K-1 ○ waits for you" in text(pilot)


async def test_hostile_text(
    fake: ScreenProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instructions and shards of any content change nothing but themselves."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    payload = " ".join(PAYLOADS.values())
    sharding = {
        **DRAFTS[0]["sharding"],
        "text": payload,
        "missing": payload,
        "pieces": [[3, 90, payload]],
    }
    shards = [{"shard_id": 1, "shard": payload}]
    hostile = {"task_id": payload, "task": payload, "shards": shards, "sharding": sharding}
    write_drafts(tmp_path, [{**DRAFTS[0], **hostile}])
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN)
        check(pilot, "shards")
        await press(pilot, "e")
        check(pilot, "editing a shard")
