"""Staying offline from the screens: the key, the mark in the title line, and what is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base import network_guard
from tests.screens.driving import lines, opened, press, text
from tests.screens.project import project


@asynccontextmanager
async def also_offline(name: str) -> AsyncIterator[None]:
    """Another switch than the project's setting is on, too."""
    turn_off = network_guard.turn_on(network_guard.Switch(name, "It goes off."))
    yield
    turn_off()


class TestTheMark:
    @pytest.mark.parametrize("width", [80, 200])
    async def test_is_there_while_nothing_is_reached(self, width: int) -> None:
        """The key turns it on and off, in every mode, whatever the width."""
        support = project()
        async with opened(support, size=(width, 24), mode="1") as pilot:
            assert " offline " not in lines(pilot)[0]
            await press(pilot, "ctrl+o")
            assert support.network.stays_offline()
            for mode in ("1", "2", "3"):
                await press(pilot, mode)
                assert " offline " in lines(pilot)[0]
                # on a narrow terminal the names of the tabs and a screen's own text come before it
                assert width == 80 or "support-october.wb" in lines(pilot)[0]
            await press(pilot, "ctrl+o", "1")
            assert not support.network.stays_offline()
            assert " offline " not in lines(pilot)[0]


class TestTheKey:
    async def test_what_it_means_is_said(self) -> None:
        """Both ways, and with another switch on, that this one is not all."""
        support = project()
        async with opened(support, size=(140, 30), mode="1") as pilot:
            await press(pilot, "ctrl+o")
            assert "uses no network" in text(pilot)
            await press(pilot, "ctrl+o")
            assert "The network may be used" in text(pilot)
        support.network.stay_offline(True)
        async with (
            also_offline("the variable WORKBENCH_OFFLINE"),
            opened(support, (140, 30), mode="1") as pilot,
        ):
            await press(pilot, "ctrl+o")
            assert "setting is off." in text(pilot)
            assert "WORKBENCH_OFFLINE" in text(pilot)
            assert " offline " in lines(pilot)[0]
