"""An hour of work replayed by keys alone, on a real project file: import, filter, search, judge, calibrate, come back.

The scores are stored by the test through the store's own functions: scoring hundreds of logs with the model takes
minutes, and what the model says is not what this test is about. They are right about three times out of four.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from textual.pilot import Pilot

from engine.base.conversation import Verdict
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from screens.triage.calibration_screen import CalibrationScreen
from screens.triage.screen import TriageScreen
from tests.engine.project.support import give_scores
from tests.screens.conversations.listing import filtered
from tests.screens.driving import lines, press, settle, text, until
from tests.screens.triage.ordering import choose_order
from tests.shared_data import shared_file
from workbench.app import WorkbenchApp

JUDGED = 42
TAKEN_BACK = 5


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Pilot[None]]:
    """The program on a project file, put together as the command line does it."""
    with OpenProject(path, create=not path.exists()) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settle(pilot)
            yield pilot


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A public set where it is at hand, else sample conversations; the program runs in this folder."""
    monkeypatch.chdir(tmp_path)
    shared = shared_file("kvret")
    if shared is not None:
        return shared
    made = tmp_path / "samples.jsonl"
    write_jsonl(sample_conversations(160, 3), made)
    return made


def complete(number: int) -> bool:
    """What the person of this test holds of a conversation."""
    return Random(f"truth {number}").random() < 0.6


def score(number: int) -> float:
    """What the model of this test says of it."""
    center = 0.74 if complete(number) else 0.36
    return min(0.99, max(0.01, Random(f"score {number}").gauss(center, 0.15)))


async def test_an_hour_of_work(source: Path, tmp_path: Path) -> None:
    """Import, filter, search, judge forty, calibrate, quit, come back, undo five, export: by keys, and it held."""
    path = tmp_path / "work.wb"
    async with opened(path) as pilot:
        await press(pilot, "2", "i")
        for key in str(source):
            await pilot.press({"/": "slash", "_": "underscore", ".": "full_stop"}.get(key, key))
        await press(pilot, "enter")
        await until(pilot, lambda: "Read " in text(pilot))
        await until(pilot, lambda: "No conversations yet" not in text(pilot))
        await press(pilot, "q")

    with Project.open(path) as project:
        with project.reading() as conn:
            count = conn.execute("SELECT count(*) FROM conversation").fetchone()[0]
        give_scores(project, {number: score(number) for number in range(1, count + 1)})
    assert count > 100

    given: dict[int, Verdict] = {}
    order: list[int] = []
    async with opened(path) as pilot:
        await press(pilot, "2")
        await filtered(pilot, "state:broken-off turns>2")
        shown, _, everything = lines(pilot)[1].split()[:3]
        assert 0 < int(shown.replace(",", "")) < count
        assert int(everything.replace(",", "")) == count
        await press(pilot, "escape", "slash", *"thank", "enter")
        found = lines(pilot)[1].split()[0]
        assert 0 < int(found.replace(",", "")) < count
        await press(pilot, "enter", "right", "q", "escape")

        await press(pilot, "3")
        await choose_order(pilot, "sample")
        assert "calibration sample" in text(pilot)
        triage = pilot.app.screen
        assert isinstance(triage, TriageScreen)
        for _ in range(JUDGED):
            now = triage.conversation
            assert now is not None
            given[now] = Verdict.YES if complete(now) else Verdict.NO
            order.append(now)
            await pilot.press("c" if complete(now) else "i")
            await until(pilot, lambda now=now: triage.conversation != now)  # type: ignore[misc]
        await settle(pilot)
        assert len(given) == JUDGED

        await press(pilot, "K")
        assert isinstance(pilot.app.screen, CalibrationScreen)
        await until(pilot, lambda: "AUROC" in text(pilot))
        complete_ones = sum(verdict is Verdict.YES for verdict in given.values())
        assert f"{complete_ones} yes, {JUDGED - complete_ones} no" in text(pilot)
        await press(pilot, "a")
        await press(pilot, "escape", "1", "q")

    with Project.open(path) as project, project.reading() as conn:
        stored = json.loads(
            conn.execute("SELECT value FROM setting WHERE key = 'rule'").fetchone()[0]
        )
    assert stored["source"] == "calibrated"
    assert 0.2 < stored["threshold"] < 0.8

    async with opened(path) as pilot:
        await press(pilot, "3")
        assert "calibration sample" in text(pilot)
        await press(pilot, *("u",) * TAKEN_BACK)
        await press(pilot, "2")
        await filtered(pilot, "succeeded:any")
        assert f"{JUDGED - TAKEN_BACK} of" in lines(pilot)[1]
        await press(pilot, "X", "down", "down", "enter", "enter")
        await until(pilot, lambda: "Wrote " in text(pilot))

    exported = [json.loads(line) for line in (tmp_path / "answers.jsonl").open()]
    with Project.open(path) as project, project.reading() as conn:
        names = dict(conn.execute("SELECT id, external_id FROM conversation"))
    kept = order[:-TAKEN_BACK]
    assert {(line["id"], line["succeeded"]) for line in exported if line["succeeded"]} == {
        (names[number], str(given[number])) for number in kept
    }
