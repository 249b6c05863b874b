"""Approving shards: what is covered and missing, edits, decisions, errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import UsageError
from screens.shell.control_guard import ControlGuard
from screens.simulation.shards_screen import ShardsScreen, missing_content, text_content
from tests.screens.driving import opened, press, text
from tests.screens.fakes import FakeProject, project
from tests.screens.simulation.fake_simulations import DRAFTS
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

OPEN = ("A", "enter")


@pytest.fixture
def fake() -> FakeProject:
    """A project whose file of shards has two drafts."""
    return project(6)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_what_speaks_against_it(fake: FakeProject, size: tuple[int, int]) -> None:
    """Text, shards, what is lost, what the model misses and what the check found are all in sight."""
    async with opened(fake, size, mode="9") as pilot:
        await press(pilot, *OPEN)
        shown = text(pilot)
        for part in (
            "1 of 2 GSM8K-1 ○ waits for you",
            "She gives Ben 7.",
            "She gives some away.",
            "as in the text",
            "No shard says: 7, Ben",
            "The model misses: that she gives 7 to Ben",
            "FULL 80, CONCAT 50, which is too little",
        ):
            assert part in shown


def test_the_span() -> None:
    """The span of the shard under the cursor is marked, and so is what no shard stands for."""
    draft = replace(DRAFTS[0], shards=DRAFTS[0].shards[1:])
    content = text_content(draft, draft.shards[0])
    assert content.plain == draft.text
    marked = {
        content.plain[span.start : span.end].strip(): str(span.style) for span in content.spans
    }
    assert "tone-tab-back" in marked["Ann has 12 apples."]
    assert "tone-incomplete" in marked["How many are left?"]
    assert "She gives Ben 7." not in marked


def test_nothing_missing() -> None:
    """Where nothing is missing, it is told whether the model was asked about these shards."""
    assert "the model misses nothing" in missing_content(DRAFTS[1]).plain
    edited = replace(DRAFTS[1], missing=None)
    assert "the model was not asked" in missing_content(edited).plain


async def test_editing(fake: FakeProject) -> None:
    """A shard is worded anew, moved and left out; what is lost is told anew each time."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN, "down", "down", "e", *" Ben got 7.", "enter")
        assert "She gives some away. Ben got 7." in text(pilot)
        assert "No shard says" not in text(pilot)
        await press(pilot, "less_than_sign")
        screen = pilot.app.screen
        assert isinstance(screen, ShardsScreen)
        assert [key % 1_000_000 for key in screen.table.ids] == [1, 3, 2]
        await press(pilot, "d")
        assert "No shard says: 7, Ben" in text(pilot)
        assert [key % 1_000_000 for key in screen.table.ids] == [1, 2]


async def test_deciding(fake: FakeProject) -> None:
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


async def test_refused(fake: FakeProject) -> None:
    """What cannot be approved, and a file that cannot be opened, say why."""
    empty = replace(DRAFTS[0].shards[0], text=" ")
    fake.simulations.drafts[0] = replace(DRAFTS[0], shards=(empty,))
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN, "a")
        assert "An empty shard cannot be approved." in text(pilot)
        await press(pilot, "escape", "escape")
        fake.simulations.problem = UsageError("There is no such file.")
        await press(pilot, *OPEN)
        assert "There is no such file." in text(pilot)


async def test_hostile_text(fake: FakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions and shards of any content change nothing but themselves."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    payload = " ".join(PAYLOADS.values())
    shard = replace(DRAFTS[0].shards[0], text=payload, start=3, end=90, by=payload)
    fake.simulations.drafts[0] = replace(
        DRAFTS[0], task_id=payload, text=payload, task=payload, shards=(shard,), lost=(payload,),
        missing=payload,
    )  # fmt: skip
    async with opened(fake, mode="9") as pilot:
        await press(pilot, *OPEN)
        check(pilot, "shards")
        await press(pilot, "e")
        check(pilot, "editing a shard")
