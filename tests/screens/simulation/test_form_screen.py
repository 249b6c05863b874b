"""A person answers a form: questions, answers, modules turn by turn, stopping, coming back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engine.simulate.records import AskedField, LiveLine
from screens.reader.screen import ReaderScreen
from screens.shell.base_app import ControlGuard
from screens.shell.dialogs import ChoiceDialog
from screens.simulation.form_screen import FormScreen, question_of
from screens.simulation.screen import SimulationScreen
from tests.screens.driving import opened, press, settle, text, until
from tests.screens.project import ScreenProject, project
from tests.screens.simulation.played import store_plays
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS


@pytest.fixture
def fake() -> ScreenProject:
    """A project with a form that asks its first question."""
    made = project(6)
    store_plays(made.file)
    made.simulations.session.ask("What is your name?")
    return made


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_turn_by_turn(fake: ScreenProject, size: tuple[int, int]) -> None:
    """The question is seen, the answer is taken, and each module tells what it made of it."""
    session = fake.simulations.session
    async with opened(fake, size, mode="9") as pilot:
        await press(pilot, "F", "enter")
        assert fake.simulations.filled == [("ss5", "modular", None)]
        assert "What is your name?" in text(pilot)
        assert "question_generation" in text(pilot)
        await press(pilot, *"Ann", "enter")
        assert session.answers == ["Ann"]
        assert "The modules are at work" in text(pilot)
        await press(pilot, *"more", "enter")
        assert session.answers == ["Ann"]
        assert "The next question" in text(pilot)
        session.ask("Do you smoke?", "follow_up_question")
        await until(pilot, lambda: "follow_up_question" in text(pilot))
        assert "Your answer, then enter." in text(pilot)


async def test_what_a_question_is_for(fake: ScreenProject) -> None:
    """The fields of the open question stand under it, with the answers that are allowed, the first few of many."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "enter")
        told = text(pilot)
        assert "for   Your name" in told
        assert "Title (optional): Dr | Prof" in told
        assert "and 2 more" in told
        assert "Field 8" not in told
        await press(pilot, *"Ann", "enter")
        assert "Your name" not in text(pilot)


async def test_another_form(fake: ScreenProject) -> None:
    """Form, variant and model are chosen; a file has a line of its own and nothing begins without it."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "left", "enter")
        assert fake.simulations.filled == []
        await press(pilot, "down", *"my.json", "down", "right", "down", "left", "enter")
        assert fake.simulations.filled == [("my.json", "baseline", "larger-7b")]


async def test_stopping(fake: ScreenProject) -> None:
    """Escape asks; stopping says what came of it, and the conversation opens."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "enter", "escape", "enter")
        assert fake.simulations.session.stopped
        assert "Ended by you. Score .10." in text(pilot)
        await press(pilot, "ctrl+r")
        assert isinstance(pilot.app.screen, ReaderScreen)
        assert pilot.app.screen.conversation_id == 3
        await press(pilot, "escape", "escape")
        assert "by condition" in text(pilot)


async def test_leaving_it_waiting(fake: ScreenProject) -> None:
    """A form that is left waits; F comes back to it with what was said, and begins no other."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "enter", *"Ann", "enter", "escape", "down", "enter")
        assert not isinstance(pilot.app.screen, FormScreen)
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, FormScreen)
        assert "Ann" in text(pilot)
        assert len(fake.simulations.filled) == 1


async def test_the_mode_of_an_open_form(fake: ScreenProject) -> None:
    """Going to the mode that the form belongs to asks once, as escape does; an answer leads there."""
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "enter")
        for _ in range(2):
            await asyncio.wait_for(pilot.app.run_action("switch_mode('simulation')"), 30)
            await settle(pilot)
            assert isinstance(pilot.app.screen, ChoiceDialog)
        assert len(pilot.app.screen_stack) == 3
        await press(pilot, "down", "enter")
        assert isinstance(pilot.app.screen, SimulationScreen)


def test_questions_of_modules() -> None:
    """A question is found in what modules write, and nothing where they write something else."""

    def of(said: str) -> str:
        return question_of(LiveLine("m", "assistant", said))

    assert of('{"question": "Who?"}') == "Who?"
    assert of('{"new question": "Who again?"}') == "Who again?"
    assert of('{"question": 7}') == of("[1]") == of("no JSON") == of("[" * 9_000) == ""


async def test_hostile_text(fake: ScreenProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """What modules and people say changes nothing but itself."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    session, payload = fake.simulations.session, " ".join(PAYLOADS.values())
    session.answer(payload)
    session.ask(payload, payload)
    session.now = replace(session.now, asked=(AskedField(payload, False, (payload,)),))
    async with opened(fake, mode="9") as pilot:
        await press(pilot, "F", "enter")
        check(pilot, "form")
