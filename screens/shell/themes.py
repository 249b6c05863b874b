"""The themes, and the tones: one color for each meaning, legible on dark, on light and in sixteen colors.

The ANSI theme uses the terminal's own colors only, and its default ones for whatever must be readable on a
terminal that may be dark or light.
"""

from __future__ import annotations

from typing import Any

from textual.theme import Theme

TONE_COLORS = {
    # Tone: dark, light, high contrast, ANSI.
    "complete": ("#4ec9a5", "#00704f", "#6dffa8", "ansi_green"),
    "incomplete": ("#f4846b", "#b3321a", "#ff9f8a", "ansi_red"),
    "borderline": ("#e6c35c", "#785300", "#ffe14d", "ansi_yellow"),
    "unscored": ("#8b95a5", "#5e6875", "#dadada", "ansi_default"),
    "bright": ("#ffffff", "#000000", "#ffffff", "ansi_default"),
    "muted": ("#8b95a5", "#5e6875", "#dadada", "ansi_default"),
    "accent": ("#7fb2ff", "#1d55b4", "#9ad4ff", "ansi_magenta"),
    "model": ("#b9c1cc", "#3d4652", "#ffffff", "ansi_default"),
    "user": ("#7fb2ff", "#1d55b4", "#9ad4ff", "ansi_cyan"),
    "assistant": ("#c3a6f5", "#6a3cb5", "#e3c8ff", "ansi_magenta"),
    "call": ("#8fbcbb", "#1f6b75", "#8ff5ee", "ansi_cyan"),
    "tab": ("#ffffff", "#ffffff", "#000000", "ansi_black"),
    "tab-back": ("#2f4a73", "#34588f", "#ffffff", "ansi_cyan"),
    "cursor": ("#263a59", "#cfdff7", "#0b2f66", "ansi_default"),
    "cursor-blurred": ("#232a35", "#e2e6ec", "#2b2b2b", "ansi_default"),
    "header": ("#1d232d", "#e6e9ee", "#000000", "ansi_default"),
    "frame": ("#3a4453", "#b4bcc8", "#ffffff", "ansi_default"),
}
"""The colors of each tone, a column for each theme; style sheets name a tone as `$tone-complete`. The tones `call`,
`user` and `assistant` are those of messages; `model` is that of what a model wrote about a conversation."""

DARK_TONES, LIGHT_TONES, HIGH_CONTRAST_TONES, ANSI_TONES = (
    {f"tone-{name}": colors[column] for name, colors in TONE_COLORS.items()} for column in range(4)
)
"""The tones of each theme as variables of style sheets: a column of `TONE_COLORS`."""


def _theme(
    name: str, tones: dict[str, str], variables: dict[str, str] | None = None, **settings: Any
) -> Theme:
    """Returns a theme whose accents are tones.

    Args:
        variables: Variables beside the tones.
        settings: Other settings of the theme, such as its background.
    """
    accents = {
        "primary": tones["tone-accent"],
        "secondary": tones["tone-assistant"],
        "warning": tones["tone-borderline"],
        "error": tones["tone-incomplete"],
        "success": tones["tone-complete"],
        "accent": tones["tone-accent"],
    }
    footer = {"footer-key-foreground": tones["tone-accent"]}
    return Theme(
        name=f"workbench-{name}",
        variables={**tones, **footer, **(variables or {})},
        **{**accents, **settings},
    )


DARK = _theme(
    "dark",
    DARK_TONES,
    foreground="#dde3ea",
    background="#14181f",
    surface="#181d25",
    panel="#1d232d",
)
LIGHT = _theme(
    "light",
    LIGHT_TONES,
    foreground="#1c2128",
    background="#fafbfc",
    surface="#f3f5f8",
    panel="#e6e9ee",
    dark=False,
)
HIGH_CONTRAST = _theme(
    "high-contrast",
    HIGH_CONTRAST_TONES,
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
)
ANSI = _theme(
    "ansi",
    ANSI_TONES,
    {
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_cyan",
        "input-cursor-background": "ansi_cyan",
        "input-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_cyan",
        "input-selection-foreground": "ansi_black",
    },
    ansi=True,
    secondary="ansi_cyan",
    **dict.fromkeys(("foreground", "background", "surface", "panel", "boost"), "ansi_default"),
)

THEMES = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST, "ansi": ANSI}
"""The themes by the names a person uses, in the order in which a key goes through them."""


def theme_name(theme: Theme) -> str | None:
    """Returns the name a person uses for a theme of this program; None for a theme of another origin."""
    return next((name for name, known in THEMES.items() if known.name == theme.name), None)
