"""What keeps screen tests the same on every machine."""

from __future__ import annotations

import pytest
from textual.widgets import Input


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No blinking cursor, no monochrome or theme of the developer's own."""
    monkeypatch.setattr(Input, "_toggle_cursor", lambda self: None)
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
