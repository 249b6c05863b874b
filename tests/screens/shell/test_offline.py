"""Staying offline from the screens: the key, the mark in the title line, and what is said."""

from __future__ import annotations

import pytest

from screens.shell.workbench_screen import TitleLine
from tests.screens.driving import lines, opened, press, settle, text
from tests.screens.fakes import project


class TestTheMark:
    @pytest.mark.parametrize("width", [80, 200])
    async def test_is_there_while_nothing_is_reached(self, width: int) -> None:
        """The key turns it on and off, in every mode, whatever the width."""
        fake = project()
        async with opened(fake, size=(width, 24), mode="1") as pilot:
            assert " offline " not in lines(pilot)[0]
            await press(pilot, "ctrl+o")
            assert fake.network.stays_offline()
            for mode in ("1", "2", "3"):
                await press(pilot, mode)
                assert " offline " in lines(pilot)[0]
                assert "support-october.wb" in lines(pilot)[0]
            await press(pilot, "ctrl+o", "1")
            assert not fake.network.stays_offline()
            assert " offline " not in lines(pilot)[0]

    async def test_a_click_says_why(self) -> None:
        """A click beside the project's name names all that is on."""
        fake = project()
        fake.network.own, fake.network.on = True, ["`--offline`"]
        async with opened(fake, size=(140, 24), mode="1") as pilot:
            await pilot.click(TitleLine, offset=(137, 0))
            await settle(pilot)
            assert "setting and" in text(pilot)
            assert "`--offline`." in text(pilot)


class TestTheKey:
    async def test_what_it_means_is_said(self) -> None:
        """Both ways, and with another switch on, that this one is not all."""
        fake = project()
        async with opened(fake, size=(140, 30), mode="1") as pilot:
            await press(pilot, "ctrl+o")
            assert "reaches nothing" in text(pilot)
            await press(pilot, "ctrl+o")
            assert "What is configured may be reached" in text(pilot)
        fake.network.own, fake.network.on = True, ["the variable WORKBENCH_OFFLINE"]
        async with opened(fake, size=(140, 30), mode="1") as pilot:
            await press(pilot, "ctrl+o")
            assert "setting is off." in text(pilot)
            assert "WORKBENCH_OFFLINE" in text(pilot)
            assert " offline " in lines(pilot)[0]

    async def test_a_project_that_cannot_be_written(self) -> None:
        """Its setting stays, and the reason is shown."""
        fake = project()
        fake.read_only = "Another workbench is writing this project."
        async with opened(fake, size=(140, 30), mode="2") as pilot:
            await press(pilot, "ctrl+o")
            assert "Another workbench is writing" in text(pilot)
            assert not fake.network.stays_offline()
