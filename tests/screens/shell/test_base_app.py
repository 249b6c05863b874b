"""What both apps share: an app says where a fault of its own ended it, never with which values; any text is copied."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from screens.shell.app_interface import Shell
from screens.shell.picker import PickerApp
from tests.screens.driving import wait_for_idle
from tests.screens.project import project
from workbench.app import WorkbenchApp

CANARY = "sk-canary-in-a-variable"


def workbench() -> WorkbenchApp:
    """The app over a support project."""
    support = project()
    return WorkbenchApp(support.services(), support.subscribe)


def stumble() -> None:
    """Fails with a key among its variables."""
    key = "-".join(("sk", "canary", "in", "a", "variable"))
    headers = {"Authorization": f"Bearer {key}"}
    raise KeyError(len(headers))


async def ended_by(app: App[Any]) -> None:
    """Runs an app until it stumbles."""
    async with app.run_test() as pilot:
        app.call_later(stumble)
        await pilot.pause()


@pytest.mark.parametrize("make", [workbench, lambda: PickerApp(Shell())])
async def test_a_copied_surrogate(make: Callable[[], App[Any]]) -> None:
    """A lone surrogate, as from a pasted text that is no UTF-8, is copied as a replacement character."""
    app = make()
    async with app.run_test():
        app.copy_to_clipboard("a\ud800b")
        assert app.clipboard == "a\ufffdb"


@pytest.mark.parametrize("make", [workbench, lambda: PickerApp(Shell())])
async def test_a_fault_is_told_without_values(
    make: Callable[[], App[Any]],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The terminal and the log name the function that failed; no variable is shown, so no key is."""
    with caplog.at_level(logging.ERROR), pytest.raises(KeyError):
        await ended_by(make())
    for text in (capsys.readouterr().err, caplog.text):
        assert "stumble" in text
        assert "KeyError" in text
        assert CANARY not in text


class ScreenWithALine(Screen[None]):
    """A screen whose key needs its widget."""

    def compose(self) -> ComposeResult:
        """Yields the widget."""
        yield Static(id="line")

    def action_leave(self) -> None:
        """Looks for the widget."""
        self.query_one("#line")


async def test_a_key_before_the_widgets_of_its_screen() -> None:
    """A key that arrives while a screen opens or closes does nothing; it once ended the program."""
    app = PickerApp(Shell())
    async with app.run_test() as pilot:
        screen = ScreenWithALine()
        opening = app.push_screen(screen)
        assert not await app.run_action("leave", screen)
        await opening
        assert await app.run_action("leave", screen)
        app.pop_screen()
        await pilot.pause()
        assert not await app.run_action("leave", screen)


def look_for_a_widget(app: App[Any]) -> None:
    """Looks for a widget that is gone."""
    app.screen.query_one("#nowhere")


def look_for_a_screen(app: App[Any]) -> None:
    """Looks for the screen in front once there is none."""
    app._screen_stack.clear()
    app.screen.refresh()


@pytest.mark.parametrize("look", [look_for_a_widget, look_for_a_screen])
@pytest.mark.parametrize("in_worker", [False, True], ids=["message", "worker"])
async def test_what_is_gone_while_the_app_closes_is_no_fault(
    look: Callable[[App[Any]], None], in_worker: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What was on its way when the person quit, and finds no widgets or no screen, neither fails nor is told."""
    app = workbench()

    async def quit_and_look() -> None:
        app.exit()
        look(app)

    async with app.run_test():
        if in_worker:
            app.call_later(app.run_worker, quit_and_look)
        else:
            app.call_later(quit_and_look)
        await wait_for_idle()
    assert app.return_code == 0
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
