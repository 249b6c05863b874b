"""The simulation screen: sets and tables, plays and transcripts, what is asked for, hostile text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from engine.simulate.simulation_request import SimulationRequest
from screens.reader.screen import ReaderScreen
from screens.shell.base_app import ControlGuard
from screens.simulation.screen import SimulationScreen
from tests.screens.driving import opened, press, settle, text, until
from tests.screens.project import ScreenProject, project
from tests.screens.simulation.played import SHARDED, TRANSCRIPT, result_of, store, store_plays
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS


@pytest.fixture
def fake() -> ScreenProject:
    """A few conversations, and two sets that were played."""
    made = project(6)
    store_plays(made.file)
    return made


@pytest.fixture
def empty() -> ScreenProject:
    """A few conversations; nothing was played."""
    return project(6)


class TestSets:
    async def test_the_papers_columns(self, fake: ScreenProject) -> None:
        """The newest set opens with the columns of its paper, its plays below, those that broke off named."""
        async with opened(fake, (80, 24), mode="9") as pilot:
            shown = text(pilot)
            for part in ("sharded-3fa2c1", "6 played, 1 broke off", "A90", "U90-10", "31.0"):
                assert part in shown
            assert "math/GSM8K-0/full/0" in shown
            assert "math/GSM8K-0/sharded/0" not in shown
            assert "broke off: the process died" in shown

    async def test_going_round(self, fake: ScreenProject) -> None:
        """Arrows go through the tables of a set, brackets through the sets."""
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "right")
            assert "kinds of replies (2 of 2)" in text(pilot)
            await press(pilot, "right")
            assert "by condition (1 of 2)" in text(pilot)
            await press(pilot, "right_square_bracket")
            assert "set 2 of 2" in text(pilot)
            assert "forms-77aa00" in text(pilot)
            await press(pilot, "right_square_bracket", "left_square_bracket")
            assert "forms-77aa00" in text(pilot)

    async def test_sorting(self, fake: ScreenProject) -> None:
        """A column sorts, the largest figure first; the same once more turns it round, and the note says what it is."""
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "s", *["down"] * 4, "enter")
            screen = pilot.app.screen
            assert isinstance(screen, SimulationScreen)

            def order() -> list[object]:
                rows = map(screen.table.item, screen.table.ids)
                return [row.cells[0] for row in rows if row is not None]

            assert order() == ["full", "concat", "sharded"]
            assert "Averaged performance" in text(pilot)
            await press(pilot, "s", "enter")
            assert order() == ["sharded", "concat", "full"]


class TestPlays:
    async def test_every_call(self, fake: ScreenProject) -> None:
        """Enter goes to the plays, then to the calls of one: what the model saw, what it said, what it did not see."""
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "enter", "enter")
            assert "2 calls" in text(pilot)
            assert "You say one shard." in text(pilot)
            await press(pilot, "down")
            assert "cut at the limit" in text(pilot)
            assert "the oldest 2 messages" in text(pilot)
            await press(pilot, "enter", "escape", "escape")
            assert "by condition" in text(pilot)

    async def test_the_conversation(self, fake: ScreenProject) -> None:
        """A play opens as a conversation in the reader, from the list and from its transcript."""
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "enter", "o")
            assert isinstance(pilot.app.screen, ReaderScreen)
            assert pilot.app.screen.conversation_id == 1
            await press(pilot, "escape", "enter", "o")
            assert isinstance(pilot.app.screen, ReaderScreen)
            await press(pilot, "escape", "escape", "down", "down", "o")
            assert "no conversation to read" in text(pilot)


class TestAsking:
    async def test_cost_first(self, fake: ScreenProject) -> None:
        """What it costs is shown before enter starts it."""
        async with opened(fake, (80, 24), mode="9") as pilot:
            await press(pilot, "n")
            assert "12 plays · about 2 min" in text(pilot)
            await press(pilot, "enter")
            assert fake.simulations.started == [SimulationRequest("sharded", instructions="math")]

    async def test_what_is_chosen(self, fake: ScreenProject) -> None:
        """Kind, models, counts and conditions reach what is played; lines of other kinds are not there."""
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "n", "down", "right", "right", "down", "right")
            shown = text(pilot)
            assert "conditions" in shown
            assert "tasks" not in shown
            fields = pilot.app.screen
            fields.query_one("#runs", Input).value = "3"
            fields.query_one("#seed", Input).value = "7"
            fields.query_one("#temperature", Input).value = "0.5"
            fields.query_one("#conditions", Input).value = "full, recap"
            await until(pilot, lambda: "36 plays" in text(pilot))
            await press(pilot, "enter")
            assert fake.simulations.started == [
                SimulationRequest(
                    "sharded", model="larger-7b", user_model="SmolLM2-135M-Instruct", runs=3, seed=7,
                    temperature=0.5, conditions=("full", "recap"),
                )
            ]  # fmt: skip

    async def test_last_time(self, fake: ScreenProject) -> None:
        """The dialog begins with what was asked for last, so that the same goes on with one key."""
        last = SimulationRequest(
            "forms",
            user_model="larger-7b",
            runs=4,
            forms=("med",),
            variants=("baseline",),
            profile="run",
            free_replies=True,
        )
        fake.simulations.remember(last)
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "n", "enter")
            assert fake.simulations.started == [last]


class TestTakingAlong:
    async def test_export(
        self, fake: ScreenProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The set goes to the file that is named."""
        monkeypatch.chdir(tmp_path)
        async with opened(fake, mode="9") as pilot:
            await press(pilot, "right_square_bracket", "X", "enter")
        (exported,) = json.loads((tmp_path / "forms-77aa00.json").read_text("utf-8"))["plays"]
        assert exported["key"] == "forms/med/modular/1"


@pytest.mark.parametrize("payload", [" ".join(PAYLOADS.values())], ids=["all of them"])
async def test_hostile_text(
    empty: ScreenProject, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, results, replies and prompts of any content change nothing but themselves."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    stored = payload.encode(errors="replace").decode()  # text columns hold no surrogates
    named = {**result_of(payload, 0.5, payload), "task": payload, "categories": ["answer_attempt"]}
    line = replace(TRANSCRIPT[1], module=payload, text=payload, note=payload)
    store(
        empty.file,
        replace(SHARDED, models={"user": payload}, params={"language": payload}),
        [
            (f"sharded/{stored}/0", 1, None, named, (line,)),
            (f"sharded/{stored}/1", None, stored, {}, ()),
        ],
    )
    empty.simulations.remember(SimulationRequest("forms", forms=(payload,), instructions=payload))
    async with opened(empty, mode="9") as pilot:
        await settle(pilot)
        check(pilot, "simulation")
        await press(pilot, "n")
        check(pilot, "simulation")
        await press(pilot, "escape", "enter", "enter")
        check(pilot, "simulation")
