"""Being offline on the screens: the mark in the title line."""

from __future__ import annotations

import pytest

from engine.base import network_guard
from tests.screens.driving import lines, opened, press
from tests.screens.project import project


class TestTheMark:
    async def test_is_there_while_nothing_is_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is there in every mode, whatever the width, while the variable is set."""
        support = project()
        async with opened(support, size=(200, 24), mode="1") as pilot:
            assert " offline " not in lines(pilot)[0]
            monkeypatch.setenv(network_guard.VARIABLE, "1")
            for width in (200, 80):
                await pilot.resize_terminal(width, 24)
                for mode in ("2", "3", "1"):
                    await press(pilot, mode)
                    assert " offline " in lines(pilot)[0]
                    # on a narrow terminal the names of the tabs and a screen's own text come before it
                    assert width == 80 or "support-october.wb" in lines(pilot)[0]
