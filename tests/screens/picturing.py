"""A screen after some keys, held against the picture of it that was looked at last."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot

from tests.screens.driving import StartedApp, mode_of, press, settle
from tests.screens.project import ScreenProject

Picture = tuple[tuple[int, int], bool, list[str]]
"""Size in cells, whether the theme is light, and the keys that lead there."""


def looks_as_before(
    snap_compare: Callable[..., bool], support: ScreenProject, picture: Picture
) -> bool:
    """Whether the app on this project looks as in its stored picture."""
    size, light, keys = picture
    mode, *keys = keys
    app = StartedApp(support.services(), support.subscribe)
    app.first_mode = mode_of(mode)

    async def act(pilot: Pilot[None]) -> None:
        await settle(pilot)
        if light:
            await press(pilot, "T")
        await press(pilot, *keys)

    return snap_compare(app, terminal_size=size, run_before=act)
