"""Staying offline from the screens: the key, the mark in the title line, and what is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base import network_guard
from tests.screens.driving import lines, opened, press
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
