"""The screen that watches logs: events as they come, pause, filter, and the way to the reader."""

from __future__ import annotations

from typing import Any

import pytest

from engine.results.watch.service import WatchRequest
from engine.results.watch.watching import Event
from screens.reader import ReaderScreen
from screens.watch import WatchDialog
from tests.screens.driving import opened, press, settle, text, until
from tests.screens.project import project


def turn(key: int, number: int, p: float, **more: Any) -> Event:
    """An event of one turn."""
    return {
        "event": f"{key}:{number}",
        "at": f"2026-11-23T12:00:{number:02}Z",
        "ended": False,
        "turn": number,
        "step": number,
        "p": p,
        "change": 0.11,
        "state": "incomplete",
        "conversation": f"support/{key:04}",
        "source": "live.jsonl",
        "goal": "Book a table",
        "novel": False,
    } | more


async def test_events_as_they_come() -> None:
    """What came is listed, the newest first, with probability and state; what comes while the screen is open too;
    enter reads the conversation."""
    found = project()
    found.watches.live.add(turn(1, 1, 0.12))
    async with opened(found, size=(80, 24), mode="1") as pilot:
        await press(pilot, "L")
        assert "support/0001" in text(pilot)
        found.watches.live.add(turn(2, 2, 0.03, source="night.jsonl"))
        # the line about the event under the cursor follows the list
        await until(pilot, lambda: ".03  night.jsonl" in text(pilot))
        for size in ((80, 24), (200, 60)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            seen = text(pilot)
            assert seen.index("support/0002") < seen.index("support/0001"), size
            assert ".03  night.jsonl" in seen, size
            assert "broken off" in seen, size
            assert "2 events" in seen, size
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ReaderScreen)
        assert pilot.app.screen.conversation_id == 2
        await press(pilot, "escape")
        assert "2 events" in text(pilot)


async def test_pause_and_filter() -> None:
    """While paused the list stays and says how many wait; a filter lists only events with its words."""
    found = project()
    found.watches.live.add(turn(1, 1, 0.12))
    async with opened(found, mode="1") as pilot:
        await press(pilot, "L", "space")
        found.watches.live.add(turn(2, 2, 0.03, state="complete"))
        await until(pilot, lambda: "paused, 1 new" in text(pilot))
        assert "support/0002" not in text(pilot)
        await press(pilot, "space")
        assert "support/0002" in text(pilot)
        await press(pilot, "f", *"ended", "enter")
        seen = text(pilot)
        assert "support/0002" in seen
        assert "support/0001" not in seen
        await press(pilot, "f", *"none", "enter")
        assert "No event of 2 has these words" in text(pilot)


async def test_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A path that is not there is refused in the dialog; a folder is watched with what the fields say."""
    asked: list[tuple[str, float]] = []
    found = project()

    def start(path: str, request: WatchRequest) -> int:
        asked.append((path, request.idle))
        return 1

    monkeypatch.setattr(found.watches, "start", start)
    async with opened(found, mode="1") as pilot:
        await press(pilot, "L", "w", *"none", "enter")
        assert "There is no such file or folder" in text(pilot)
        await press(pilot, "escape", "w")
        dialog = pilot.app.screen
        assert isinstance(dialog, WatchDialog)
        dialog.query_one("#path").value = str(tmp_path)  # type: ignore[attr-defined]
        await press(pilot, "down", "2", "enter")
        assert asked == [(str(tmp_path), 120.0)]
