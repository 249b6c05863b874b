"""What keeps screen tests the same on every machine, and what they need not do anew for every app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from textual._compositor import Compositor
from textual.widgets import Input

from tests.screens.driving import draw_nothing, one_parse_of_each_style, wait_for_idle
from tests.screens.project import close_projects


@pytest.fixture(scope="package", autouse=True)
def parsed_styles() -> Iterator[None]:
    """Every app of these tests gets its styles from one parse."""
    with one_parse_of_each_style():
        yield


@pytest.fixture(scope="package", autouse=True)
def short_waits() -> Iterator[None]:
    """A key counts as handled as soon as the event loop has nothing left to do: Textual sleeps twice for 20 ms or more
    after each key. The pauses of `settle`, which follow, are Textual's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.app.wait_for_idle", wait_for_idle)
        yield


@pytest.fixture(scope="package", autouse=True)
def few_frames() -> Iterator[None]:
    """Screens are drawn where a test looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_update", draw_nothing)
        yield


@pytest.fixture(autouse=True)
def closed_projects() -> Iterator[None]:
    """The projects that a test opened are closed after it."""
    yield
    close_projects()


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No blinking cursor, no monochrome or theme of the developer's own."""
    monkeypatch.setattr(Input, "_toggle_cursor", lambda self: None)
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
