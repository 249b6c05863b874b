"""Themes: every screen in each, legible tones, sixteen colors and none."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from screens.shell.app_interface import Shell
from screens.shell.themes import ANSI, DARK, HIGH_CONTRAST, LIGHT, THEMES
from tests.screens.driving import press, settle, text
from tests.screens.shell.test_shell import app_with


def luminance(color: Color) -> float:
    """Relative luminance as in WCAG 2."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colors as in WCAG 2."""
    high, low = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (high + 0.05) / (low + 0.05)


BACKS = {"tone-tab-back", "tone-cursor", "tone-cursor-blurred", "tone-header", "tone-frame"}


class TestThemes:
    async def test_every_screen_in_every_theme(self) -> None:
        """`T` shows each theme in turn, which defines what the screens ask for, and each is remembered at once."""
        kept: list[str] = []
        app = app_with(Shell(remember_theme=kept.append))
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settle(pilot)
            for _ in THEMES:
                await press(pilot, "T", "2", "enter", "w", "escape", "3", "question_mark", "escape")
                await press(pilot, "ctrl+p", "escape", "1", "r", "escape")
                assert app.current_mode == "overview"
                assert app.screen.is_modal is False
        assert kept == ["light", "high-contrast", "ansi", "dark"]

    @pytest.mark.parametrize(
        ("theme", "least"),
        [(DARK, 4.5), (LIGHT, 4.5), (HIGH_CONTRAST, 7.0)],
        ids=["dark", "light", "high"],
    )
    def test_tones_are_legible(self, theme: Theme, least: float) -> None:
        """Every tone of text has the contrast that WCAG asks for, on the background and under the cursor."""
        tones = {k: v for k, v in theme.variables.items() if k.startswith("tone-")}
        assert theme.background is not None
        for name, color in tones.items():
            if name in BACKS or name == "tone-tab":
                continue
            assert contrast(color, theme.background) >= least, name
            if name not in ("tone-muted", "tone-unscored"):  # drawn without their color there
                assert contrast(color, tones["tone-cursor"]) >= min(least, 4.5), name
        assert contrast(tones["tone-tab"], tones["tone-tab-back"]) >= 4.5

    def test_ansi_theme_has_sixteen_colors(self) -> None:
        """The ANSI theme names no color of its own."""
        colors = [v for k, v in ANSI.variables.items() if k.startswith("tone-")]
        assert all(color.startswith("ansi_") for color in colors)
        assert set(ANSI.variables) >= set(DARK.variables)

    async def test_no_color(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With NO_COLOR the screen has the colors of the terminal and no hue, and states are still told apart by their
        glyphs."""
        monkeypatch.setenv("NO_COLOR", "1")
        app = app_with(Shell())
        async with app.run_test(size=(100, 30)) as pilot:
            await settle(pilot)
            await press(pilot, "2")
            shown = app.export_screenshot()
            hues = {
                color
                for part in shown.split("fill: #")[1:]
                if max(Color.parse("#" + (color := part[:6])).rgb)
                - min(Color.parse("#" + color).rgb)
                > 8
            }
            assert not hues
            assert app.native_ansi_color
            assert "○" in text(pilot)
            assert "●" in text(pilot)
