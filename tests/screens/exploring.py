"""Driving the tree explorer: what its tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from screens.trees.layout import TreeLayout
from screens.trees.screen import TreeScreen
from screens.trees.tree_view import TreeView
from screens.widgets.row_table import ItemTable
from tests.screens.driving import press, settle
from tests.screens.trees.tree_growth import GrowableProject
from workbench.app import WorkbenchApp

LAST = 12
"""The conversation whose tree is largest, and so the first in the list."""


@asynccontextmanager
async def explored(
    growing: GrowableProject, size: tuple[int, int] = (120, 36), place: tuple[int, int] = (LAST, 2)
) -> AsyncIterator[Pilot[None]]:
    """The app with the tree at a step of a conversation open."""
    app = WorkbenchApp(growing.services(), growing.subscribe)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, "4")
        table = app.screen.query_one("#trees", ItemTable)
        table.move_to_key(place[0] << 20 | place[1])
        await press(pilot, "enter")
        assert isinstance(app.screen, TreeScreen)
        yield pilot


def view(pilot: Pilot[None]) -> TreeView:
    """The lines of the tree."""
    screen = next(s for s in pilot.app.screen_stack if isinstance(s, TreeScreen))
    return screen.pane.view


def layout(pilot: Pilot[None]) -> TreeLayout:
    """Its segments."""
    shown = view(pilot).layout_shown
    assert shown is not None
    return shown
