"""The two themes and the tones: one hue for each meaning, legible on dark and on light."""

from __future__ import annotations

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
    "tone-borderline": "#845c00",
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
    warning="#845c00",
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
