"""The tour of the keys, on a small real project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from screens.shell.app_interface import Shell
from screens.shell.keymap import key_table
from screens.shell.tour import TOUR, TourLine, keys_of
from screens.widgets.keyed import shown_key
from tests.screens.driving import press, settle, text
from tests.screens.project import project
from workbench.app import WorkbenchApp


@asynccontextmanager
async def touring(
    shell: Shell | None = None,
) -> AsyncIterator[tuple[WorkbenchApp, Pilot[None]]]:
    """The app with the tour on."""
    made = project()
    app = WorkbenchApp(made.services(), made.subscribe, shell=shell, tour=True)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        yield app, pilot


def test_every_step_is_an_action_of_the_key_map() -> None:
    """The tour names actions of the table of keys."""
    known = {action.id for place in key_table(WorkbenchApp) for action in place.actions}
    assert {step.action for step in TOUR} <= known


async def test_each_key_leads_on() -> None:
    """Whoever presses the keys that the tour names comes to its end; each works on the screen where it is named."""
    async with touring() as (app, pilot):
        for at, step in enumerate(TOUR):
            assert app.tour_at == at
            keys = keys_of(app.screen, step.action)
            assert keys, step
            assert f"Tour {at + 1} of {len(TOUR)}" in text(pilot)
            assert f"press  {shown_key(keys[0])} : {step.shows[:20]}" in text(pilot)
            await press(pilot, keys[0])
            if step.action in ("conversations.edit-filter", "app.command-palette"):
                await press(pilot, "escape")
        assert app.tour_at is None
        assert "That was the tour" in text(pilot)
        await press(pilot, "escape")
        assert not app.screen.query(TourLine).first().display


async def test_enter_on_the_overview_goes_on() -> None:
    """On the overview enter takes the step of the tour, and does not lead away from it."""
    async with touring() as (app, pilot):
        await press(pilot, "enter")
        assert (app.tour_at, app.current_mode) == (1, "conversations")
        await press(pilot, "enter")
        assert app.tour_at == 2


async def test_escape_leaves_and_other_keys_work() -> None:
    """A key that the tour does not wait for does what it always does; on another screen the way back is shown."""
    async with touring() as (app, pilot):
        await press(pilot, "2", "5")
        assert app.current_mode == "goals"
        assert "the next key works elsewhere;  2  leads there" in text(pilot)
        await press(pilot, "2", "enter")
        assert "Tour 3 of" in text(pilot)
        await press(pilot, "escape")
        assert app.tour_at is None
        assert "Tour" not in text(pilot)


async def test_while_a_line_has_the_focus_escape_leaves_only_the_line() -> None:
    """In the line for a filter no key of the tour works: escape is named once, for leaving the line."""
    async with touring() as (app, pilot):
        for step in TOUR[:5]:
            await press(pilot, keys_of(app.screen, step.action)[0])
        assert app.tour_at == 5
        assert "first leave this field:  esc" in text(pilot)
        assert "ends it" not in text(pilot)
        await press(pilot, "escape")
        assert app.tour_at == 5


async def test_it_names_the_keys_in_force() -> None:
    """Where a person gave an action another key, the tour names that one and waits for it."""
    keys = {"app.switch-mode-conversations": "f5"}
    async with touring(shell=Shell(keymap=keys)) as (app, pilot):
        assert "press  f5 :" in text(pilot)
        await press(pilot, "f5")
        assert app.tour_at == 1
