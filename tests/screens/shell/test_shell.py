"""What concerns every screen: palette, jumping, mouse, title line, faults."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from engine.base.events import JobProgress
from screens.conversations.screen import ConversationsScreen
from screens.overview.screen import OverviewScreen
from screens.reader import ReaderScreen
from screens.shell.app_interface import RecentProject, Shell
from screens.shell.keymap import key_table
from screens.shell.palette import HelpScreen, binding_commands
from screens.shell.themes import DARK, LIGHT
from screens.shell.title_line import MODES, TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.triage.screen import TriageScreen
from screens.watch import WatchScreen
from screens.widgets.keyed import place_of, shown_key
from screens.widgets.row_table import RowTable
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.goals.goal_project import clustered
from tests.screens.project import ScreenProject, project
from workbench.app import WorkbenchApp

JOB = JobProgress(7, "complete", "Scoring", 412, 812, "conversations", 2.5, 160.0, "support/0412")


def app_with(shell: Shell, support: ScreenProject | None = None) -> WorkbenchApp:
    """The app over a support project with what it remembers."""
    support = support or project()
    return WorkbenchApp(support.services(), support.subscribe, shell=shell)


def screens_of(cls: type[WorkbenchScreen[Any]]) -> Iterator[type[WorkbenchScreen[Any]]]:
    """All classes of screens below a class."""
    for one in cls.__subclasses__():
        yield one
        yield from screens_of(one)


async def asked(pilot: Pilot[None], words: str) -> None:
    """Types into the palette and takes the first hit."""
    palette = pilot.app.screen
    assert isinstance(palette, CommandPalette)
    await pilot.press(*["space" if char == " " else char for char in words])
    await until(pilot, lambda: palette.query_one("CommandList").option_count > 0)  # type: ignore[attr-defined]
    await settle(pilot)
    await pilot.press("enter")
    await settle(pilot)


class TestModes:
    async def test_number_keys_from_anywhere(self) -> None:
        """`1 2 3` go to the modes from a list, from the reader, and back again; in the reader the number of its mode
        leads back to the list, with the cursor on what was read. `q` leaves the reader, then the program."""
        async with opened(project()) as pilot:
            for keys, screen in (
                (("down", "down", "enter"), ReaderScreen),
                (("3",), TriageScreen),
                (("1",), OverviewScreen),
                (("2",), ReaderScreen),
                (("2",), ConversationsScreen),
            ):
                await press(pilot, *keys)
                assert type(pilot.app.screen) is screen
            assert pilot.app.screen.query_one("#list", RowTable).cursor_index == 2

            await press(pilot, "enter", "q")
            assert isinstance(pilot.app.screen, ConversationsScreen)
            await pilot.press("q")
            await pilot.pause()
            assert pilot.app._exit

    async def test_click_on_a_mode(self) -> None:
        """The names in the title line are pressed like buttons; that of the present mode closes the screen that lies
        over it, as its key does."""
        async with opened(project(), mode="1") as pilot:
            await press(pilot, "L")
            over = pilot.app.screen
            assert isinstance(over, WatchScreen)
            for offset, screen in (((2, 0), OverviewScreen), ((15, 0), ConversationsScreen)):
                await asyncio.wait_for(pilot.click(TitleLine, offset=offset), 30)
                await asyncio.wait_for(settle(pilot), 30)
                assert type(pilot.app.screen) is screen


class TestPalette:
    async def test_action_of_the_screen(self) -> None:
        """Nothing that has a key on a screen is missing from the palette. It finds an action of the screen in front by
        what it does, and does it. Two quick escapes close it once, and nothing below it."""
        async with opened(project()) as pilot:
            for mode in ("1", "3", "2"):
                await press(pilot, mode)
                screen = pilot.app.screen
                listed = {key for c in binding_commands(screen) for key in c.keys.split()}
                for active in screen.active_bindings.values():
                    if active.node in (screen, pilot.app) and not active.binding.system:
                        key = active.binding.key
                        assert shown_key(key) in listed or "palette" in active.binding.action

            await press(pilot, "enter", "colon")
            palette = pilot.app.screen
            assert isinstance(palette, CommandPalette)
            palette._action_escape()
            palette._action_escape()
            await settle(pilot)
            assert isinstance(pilot.app.screen, ReaderScreen)

            await press(pilot, "ctrl+p")
            await asked(pilot, "Quit")
            assert pilot.app._exit

    async def test_opens_another_project(self) -> None:
        """A recent project is opened after this one was closed; hostile names are only text."""
        name = "/tmp/[/b][@click=app.bell]october\x1b[2J.wb"
        shell = Shell(recent=lambda: [RecentProject(name, "2026-10-01T10:00:00+00:00", 4096)])
        app = app_with(shell)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            await press(pilot, "ctrl+p")
            await asked(pilot, "Open project")
            assert app.next_project == name
            assert app._exit


class TestHelp:
    async def test_keys_of_this_place(self) -> None:
        """`?` lists what works here, with the panes' own keys and those that work everywhere."""
        async with opened(project(), size=(100, 60)) as pilot:
            await press(pilot, "question_mark")
            assert isinstance(pilot.app.screen, HelpScreen)
            shown = text(pilot)
            assert "On this screen" in shown
            assert "Sort" in shown
            assert "↓ j" in shown
            assert "Go to Triage" in shown
            await press(pilot, "question_mark")
            assert isinstance(pilot.app.screen, ConversationsScreen)

    def test_first_keys_exist(self) -> None:
        """Every screen of the tabs names three keys that matter first, of its own or of its panes."""
        known = {action.id for place in key_table(WorkbenchApp) for action in place.actions}
        named = {
            place_of(cls): cls.FIRST_KEYS for cls in screens_of(WorkbenchScreen) if cls.FIRST_KEYS
        }
        assert named.keys() >= {name for name, *_ in MODES}
        for keys in named.values():
            assert len(keys) == 3
            assert known >= set(keys)

    async def test_remapped_key_is_the_one_shown(self) -> None:
        """Help is made of the keys in force, not of those in the source."""
        app = app_with(Shell(keymap={"app.next-theme": "f9"}))
        async with app.run_test(size=(100, 60)) as pilot:
            await settle(pilot)
            await press(pilot, "question_mark")
            line = next(line for line in lines(pilot) if "Next theme" in line)
            assert "f9" in line
            await press(pilot, "escape", "T")
            assert app.theme == DARK.name
            await press(pilot, "f9")
            assert app.theme == LIGHT.name


class TestTitleAndJobs:
    async def test_read_only_is_always_visible(self) -> None:
        """The title line says read-only, where there is room with the reason, and a click tells it anyway."""
        support = project(read_only="Another workbench is writing this project.")
        async with opened(support, size=(140, 24), mode="1") as pilot:
            for width in (140, 80):
                await pilot.resize_terminal(width, 24)
                for mode in ("1", "2", "3"):
                    await press(pilot, mode)
                    assert "read-only" in lines(pilot)[0]
                    assert ("Another workbench" in lines(pilot)[0]) == (width >= 120)
            await pilot.click(TitleLine, offset=(77, 0))
            await settle(pilot)
            toast = " ".join(line[26:].strip() for line in lines(pilot)[1:])
            assert "Another workbench" in toast

    async def test_every_mode_and_key_is_in_sight(self) -> None:
        """However narrow, the key of every mode is in the title line; at 80 columns each has a name where no long text
        stands beside them. From there on each key of the footer stands there whole, and help is the last of them."""
        support = clustered()
        async with opened(support, size=(60, 24), mode="1") as pilot:
            for width in (60, 80, 120, 200):
                await pilot.resize_terminal(width, 24)
                for name, mode, *titles in MODES:
                    await press(pilot, mode)
                    *_, footer, _ = line, *_ = lines(pilot)
                    assert any(f"{mode} {one} " in line for one in titles), (width, name)
                    if width == 80 and name not in ("triage", "desk"):  # which show their place
                        assert all(f"{tab.key} {tab.short} " in line for tab in MODES), name
                        assert line.rstrip()[-6:].rstrip("…") in support.name, name
                    assert all(f" {key}" in f" {line}" for _, key, *_ in MODES), (width, name)
                    assert len(line) == width, name
                    if width >= 80:
                        assert footer.rstrip().endswith("? Help"), (width, name)
                        shown = [*pilot.app.screen.query(FooterKey)]
                        whole = [f"{one.key_display} {one.description}" for one in shown]
                        assert footer.split() == " ".join(whole).split(), (width, name)


class TestFaults:
    async def test_unexpected_exception_is_logged_first(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A fault that nobody catches ends the app, and the log has its traceback."""

        async def fault() -> None:
            async with opened(project()) as pilot:

                def raises() -> None:
                    raise ZeroDivisionError("a fault of the program")

                pilot.app.call_later(raises)
                await pilot.pause()

        with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
            await fault()
        assert "a fault of the program" in caplog.text
        assert "Traceback" in caplog.text

    async def test_problems_of_the_files_are_told_at_the_start(self) -> None:
        """What was wrong with the preferences or the keymap is said once the first screen is there."""
        app = app_with(Shell(problems=["keymap.toml, line 3: there is no action [x]"]))
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            await settle(pilot)
            assert "keymap.toml, line 3: there is no action [x]" in text(pilot)


async def test_escape_leaves_the_innermost() -> None:
    """From whatever dialog, escape leads back to the screen it was opened on."""
    async with opened(project()) as pilot:
        for key in ("question_mark", "ctrl+p", "s", "r", "i", "C"):
            await press(pilot, key)
            assert not isinstance(pilot.app.screen, ConversationsScreen), key
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, ConversationsScreen), key
