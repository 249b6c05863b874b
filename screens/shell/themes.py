"""The themes, and the tones: one colour for each meaning, legible on dark, on light and in sixteen colours.

The ANSI theme uses the terminal's own colours only, and its default ones for whatever must be readable on a
terminal that may be dark or light.
"""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.theme import Theme

DARK_TONES = {
    "tone-complete": "#4ec9a5",
    "tone-incomplete": "#f4846b",
    "tone-borderline": "#e6c35c",
    "tone-unscored": "#8b95a5",
    "tone-bright": "#ffffff",
    "tone-muted": "#8b95a5",
    "tone-accent": "#7fb2ff",
    "tone-model": "#b9c1cc",
    "tone-user": "#7fb2ff",
    "tone-assistant": "#c3a6f5",
    "tone-call": "#8fbcbb",
    "tone-tab": "#ffffff",
    "tone-tab-back": "#2f4a73",
    "tone-cursor": "#263a59",
    "tone-cursor-blurred": "#232a35",
    "tone-header": "#1d232d",
    "tone-frame": "#3a4453",
}
LIGHT_TONES = {
    "tone-complete": "#00704f",
    "tone-incomplete": "#b3321a",
    "tone-borderline": "#785300",
    "tone-unscored": "#5e6875",
    "tone-bright": "#000000",
    "tone-muted": "#5e6875",
    "tone-accent": "#1d55b4",
    "tone-model": "#3d4652",
    "tone-user": "#1d55b4",
    "tone-assistant": "#6a3cb5",
    "tone-call": "#1f6b75",
    "tone-tab": "#ffffff",
    "tone-tab-back": "#34588f",
    "tone-cursor": "#cfdff7",
    "tone-cursor-blurred": "#e2e6ec",
    "tone-header": "#e6e9ee",
    "tone-frame": "#b4bcc8",
}

DARK = Theme(
    name="workbench-dark",
    primary="#7fb2ff",
    secondary="#c3a6f5",
    warning="#e6c35c",
    error="#f4846b",
    success="#4ec9a5",
    accent="#7fb2ff",
    foreground="#dde3ea",
    background="#14181f",
    surface="#181d25",
    panel="#1d232d",
    dark=True,
    variables={**DARK_TONES, "footer-key-foreground": "#7fb2ff"},
)
LIGHT = Theme(
    name="workbench-light",
    primary="#1d55b4",
    secondary="#6a3cb5",
    warning="#785300",
    error="#b3321a",
    success="#00704f",
    accent="#1d55b4",
    foreground="#1c2128",
    background="#fafbfc",
    surface="#f3f5f8",
    panel="#e6e9ee",
    dark=False,
    variables={**LIGHT_TONES, "footer-key-foreground": "#1d55b4"},
)

HIGH_CONTRAST_TONES = {
    "tone-complete": "#6dffa8",
    "tone-incomplete": "#ff9f8a",
    "tone-borderline": "#ffe14d",
    "tone-unscored": "#dadada",
    "tone-bright": "#ffffff",
    "tone-muted": "#dadada",
    "tone-accent": "#9ad4ff",
    "tone-model": "#ffffff",
    "tone-user": "#9ad4ff",
    "tone-assistant": "#e3c8ff",
    "tone-call": "#8ff5ee",
    "tone-tab": "#000000",
    "tone-tab-back": "#ffffff",
    "tone-cursor": "#0b2f66",
    "tone-cursor-blurred": "#2b2b2b",
    "tone-header": "#000000",
    "tone-frame": "#ffffff",
}
HIGH_CONTRAST = Theme(
    name="workbench-high-contrast",
    primary="#9ad4ff",
    secondary="#e3c8ff",
    warning="#ffe14d",
    error="#ff9f8a",
    success="#6dffa8",
    accent="#9ad4ff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    dark=True,
    variables={**HIGH_CONTRAST_TONES, "footer-key-foreground": "#9ad4ff"},
)
ANSI_TONES = {
    "tone-complete": "ansi_green",
    "tone-incomplete": "ansi_red",
    "tone-borderline": "ansi_yellow",
    "tone-unscored": "ansi_default",
    "tone-bright": "ansi_default",
    "tone-muted": "ansi_default",
    "tone-accent": "ansi_magenta",
    "tone-model": "ansi_default",
    "tone-user": "ansi_cyan",
    "tone-assistant": "ansi_magenta",
    "tone-call": "ansi_cyan",
    "tone-tab": "ansi_black",
    "tone-tab-back": "ansi_cyan",
    "tone-cursor": "ansi_default",
    "tone-cursor-blurred": "ansi_default",
    "tone-header": "ansi_default",
    "tone-frame": "ansi_default",
}
ANSI = Theme(
    name="workbench-ansi",
    ansi=True,
    primary="ansi_magenta",
    secondary="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    accent="ansi_magenta",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    variables={
        **ANSI_TONES,
        "footer-key-foreground": "ansi_magenta",
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_cyan",
        "input-cursor-background": "ansi_cyan",
        "input-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_cyan",
        "input-selection-foreground": "ansi_black",
    },
)

THEMES = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST, "ansi": ANSI}
"""The themes by the names a person uses, in the order in which a key goes through them."""


def register_themes(app: App[Any]) -> None:
    """Makes the themes known to an app."""
    for theme in THEMES.values():
        app.register_theme(theme)


def theme_name(theme: Theme) -> str | None:
    """Returns the name a person uses for a theme of this program; None for a theme of another origin."""
    return next((name for name, known in THEMES.items() if known.name == theme.name), None)
