"""Driving the app in tests the way a person does: press keys, wait for what they set off, read the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any
from unittest.mock import patch

from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import AwaitMount
from textual.worker import WorkerCancelled

from screens.shell.title_line import MODES
from tests.screens.project import ScreenProject
from workbench.app import WorkbenchApp

Size = tuple[int, int]

MAX_WAIT = 60.0
"""Most seconds that `until` pauses."""

render_update = Compositor.render_update
"""Textual's own method, which `draw_nothing` stands in for."""


class StartedApp(WorkbenchApp):
    """The app in any mode from the start: to mount the overview too takes as long as most of what a test then does.

    Attributes:
        first_mode: The mode to begin in; None once it has begun.
    """

    first_mode: str | None = None

    def switch_mode(self, mode: str) -> AwaitMount:
        """Goes to the first mode instead of the overview, after that to the one named."""
        mode, self.first_mode = self.first_mode or mode, None
        return super().switch_mode(mode)


def mode_of(key: str) -> str:
    """The name of the mode that has this key."""
    return next(name for name, own, *_ in MODES if own == key)


@asynccontextmanager
async def opened(
    project: ScreenProject,
    size: Size = (120, 36),
    mode: str = "2",
) -> AsyncIterator[Pilot[None]]:
    """The app on a support project, in the mode of this key."""
    app = StartedApp(project.services(), project.subscribe)
    app.first_mode = mode_of(mode)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield pilot
        lines(pilot)  # what is left at the end can be drawn


@contextmanager
def one_parse_of_each_style() -> Iterator[None]:
    """Each style sheet is parsed once for each theme; Textual forgets the rules with the app, and they are a fifth of
    what a short test takes."""
    parse, known = Stylesheet._parse_rules, {}

    def remembered(self: Stylesheet, css: str, *where: Any, **more: Any) -> list[RuleSet]:
        key = (css, where, *sorted(more.items()), *sorted(self._variables.items()))
        if key not in known:
            known[key] = parse(self, css, *where, **more)
        return known[key]

    with (
        patch.object(Stylesheet, "_parse_rules", remembered),
        # Equal to Textual's, which is `id` in Python and is called for every rule whenever a widget gets its styles.
        patch.object(RuleSet, "__hash__", object.__hash__),
    ):
        yield


def draw_nothing(
    self: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False
) -> Any:
    """Draws a frame only where a picture of the whole screen is wanted: in place of Textual's, which without a terminal
    draws every frame and throws it away, a third of what a test of a screen takes."""
    if full:
        return render_update(self, full, screen_stack, simplify)
    visible_screen_stack.set(screen_stack or [])
    self._dirty_regions.clear()
    return None


async def wait_for_idle(min_sleep: float = 0.02, max_sleep: float = 1) -> None:
    """Waits until the event loop has nothing left to do: in place of Textual's, which sleeps twice after each key."""
    loop: Any = asyncio.get_running_loop()
    start, quiet = monotonic(), 0
    while quiet < 2 or monotonic() - start < min_sleep:
        await asyncio.sleep(0.001)
        quiet = 0 if loop._ready else quiet + 1
        if monotonic() - start > max_sleep:
            break


async def settle(pilot: Pilot[None]) -> None:
    """Waits until no background work is left and everything it set off has been handled."""
    quiet = 0
    while quiet < 2:
        busy = [worker for worker in pilot.app.workers if not worker.is_finished]
        for worker in busy:
            try:
                await worker.wait()
            except WorkerCancelled:
                continue
        await pilot.pause()
        quiet = 0 if busy else quiet + 1


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Presses keys one after the other, each when the one before has had its effect."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def until(pilot: Pilot[None], what: Callable[[], bool]) -> None:
    """Waits for something that a timer brings about; fails after far more time than it needs. Looks less often the
    longer it takes: `what` may draw the whole screen."""
    pause, waited = 0.02, 0.0
    while waited < MAX_WAIT:
        if what():
            return
        await pilot.pause(pause)
        waited += pause
        pause = min(0.25, 1.4 * pause)
    raise AssertionError("it never came about")


def strips_of(pilot: Pilot[None]) -> list[Strip]:
    """The lines of the screen in front, with what of the screens behind shows through."""
    app = pilot.app
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


def lines(pilot: Pilot[None]) -> list[str]:
    """The lines of the screen in front, before any filter."""
    return ["".join(segment.text for segment in strip) for strip in strips_of(pilot)]


def text(pilot: Pilot[None]) -> str:
    """The screen in front as one text."""
    return "\n".join(lines(pilot))
