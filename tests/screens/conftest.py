"""What keeps screen tests the same on every machine, and what they need not do anew for every app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.widgets import Input

from tests.screens.driving import wait_for_idle
from tests.screens.project import close_projects


@pytest.fixture(scope="package", autouse=True)
def one_parse_of_each_style() -> Iterator[None]:
    """Each style sheet is parsed once for each theme; Textual forgets the rules with the app, and they are a fifth of
    what a short test takes."""
    parse, known = Stylesheet._parse_rules, {}

    def remembered(self: Stylesheet, css: str, *where: Any, **more: Any) -> list[RuleSet]:
        key = (css, where, *sorted(more.items()), *sorted(self._variables.items()))
        if key not in known:
            known[key] = parse(self, css, *where, **more)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", remembered)
        # Equal to Textual's, which is `id` in Python and is called for every rule whenever a widget gets its styles.
        patch.setattr(RuleSet, "__hash__", object.__hash__)
        yield


@pytest.fixture(scope="package", autouse=True)
def short_waits() -> Iterator[None]:
    """A key counts as handled as soon as the event loop has nothing left to do: Textual sleeps twice for 20 ms or more
    after each key. The pauses of `settle`, which follow, are Textual's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.app.wait_for_idle", wait_for_idle)
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
