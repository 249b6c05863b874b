"""The screen that watches logs: events as they come, pause, filter, the chart, and the way to the reader."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from engine.conversations.filters import ListQuery
from engine.results.watch.service import WatchRequest
from engine.results.watch.watching import Event
from screens.conversations.screen import ConversationsBehindScreen
from screens.reader.screen import ReaderScreen
from screens.watch.screen import WatchDialog, WatchScreen, completion_figures
from tests.screens.driving import Size, opened, press, text, until
from tests.screens.project import ScreenProject, project

STALLED = {
    "name": "hand over",
    "meaning": "not risen for 3 answers",
    "precision": 0.86,
    "low": 0.7,
    "high": 0.95,
}


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
        "signals": [],
        "conversation": f"support/{key:04}",
        "source": "live.jsonl",
        "goal": "Book a table",
        "novel": False,
    } | more


def watched(found: ScreenProject) -> ScreenProject:
    """Twenty past conversations of which half were complete, then twenty of which two were, and one that runs."""

    def work(conn: sqlite3.Connection) -> None:
        rows = [
            (key, 0.9 if key % 2 else 0.1, "2026-11-23T12:00:00.000Z", 1) for key in range(1, 21)
        ]
        rows += [
            (key, 0.9 if key > 38 else 0.1, f"2026-11-23T12:00:{key}.000Z", 1)
            for key in range(21, 41)
        ]
        rows.append((41, 0.2, "2026-11-23T12:00:50.000Z", 0))
        conn.executemany(
            "INSERT INTO watched (conversation_id, boundaries, p, grew_at, ended) VALUES (?, 2, ?, ?, ?)",
            rows,
        )

    found.file.write(work)
    return found


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_events_as_they_come(size: Size) -> None:
    """What came is listed, the newest first, with probability, state and signals with their precision; what comes
    while the screen is open too; enter reads the conversation."""
    found = project()
    found.watches.live.add(turn(1, 1, 0.12))
    async with opened(found, size=size, mode="1") as pilot:
        await press(pilot, "L")
        assert "support/0001" in text(pilot)
        found.watches.live.add(turn(2, 2, 0.03, signals=[STALLED]))
        # the line about the event under the cursor follows the list
        await until(pilot, lambda: "hand over: not risen" in text(pilot))
        seen = text(pilot)
        assert seen.index("support/0002") < seen.index("support/0001")
        assert "hand over .86" in seen or size[0] == 80
        assert (
            "hand over: not risen for 3 answers; 86% of the past" in seen
        )  # the event under the cursor
        assert "2 events" in seen
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
        found.watches.live.add(turn(2, 2, 0.03, signals=[STALLED]))
        await until(pilot, lambda: "paused, 1 new" in text(pilot))
        assert "support/0002" not in text(pilot)
        await press(pilot, "space")
        assert "support/0002" in text(pilot)
        await press(pilot, "f", *"hand over", "enter")
        seen = text(pilot)
        assert "support/0002" in seen
        assert "support/0001" not in seen
        await press(pilot, "f", *"none", "enter")
        assert "No event of 2 has these words" in text(pilot)


async def test_completion_with_control_limits() -> None:
    """The rate of those that ended stands between limits of the past one; a point beyond them is counted."""
    async with opened(watched(project(41)), size=(200, 60), mode="1") as pilot:
        await press(pilot, "L")
        seen = text(pilot)
        assert "past 50% of 20" in seen
        assert "limits 3% to 97%" in seen  # twenty against twenty
        assert "20 conversations each" in seen
        assert "1 running" in seen


async def test_what_is_behind_a_chart() -> None:
    """Enter on the chart of completion lists its points, and enter on one its conversations; escape leads back."""
    async with opened(watched(project(41)), size=(200, 60), mode="1") as pilot:
        await press(pilot, "L", "tab", "enter")
        assert "2 of 20 ended, up to 2026-11-23 12:00" in text(pilot)
        await press(pilot, "down", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, ConversationsBehindScreen)
        assert str(screen.query_shown.filter) == "ended:1..20"
        found = screen.services.conversations.ids(screen.query_shown)
        assert list(found) == list(range(21, 41))
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, WatchScreen)


def test_every_figure_has_its_conversations() -> None:
    """The filter of a figure selects as many conversations as the figure says."""
    found = project()
    found.file.write(
        lambda conn: conn.executemany(
            "INSERT INTO watched (conversation_id, boundaries, p, grew_at, ended) VALUES (?, 1, .9, ?, ?)",
            [
                (key, f"2026-11-23T12:00:0{0 if key <= 8 else key % 9 + 1}.000Z", int(key < 20))
                for key in range(1, 25)
            ],
        )
    )
    chart = found.watches.chart()
    assert chart is not None
    for figure in completion_figures(chart):
        ids = found.conversations.ids(ListQuery(figure.filter))
        assert figure.count in (None, len(ids)), figure


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
