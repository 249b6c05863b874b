"""Figures in [-1, 1] as tables print them."""

from __future__ import annotations

from engine.records.interval import Interval


def ends(interval: Interval) -> str:
    """Both ends: `.41 to .60`."""
    return f"{short(interval.low)} to {short(interval.high)}"


def short(value: float) -> str:
    """A number with two digits and without its zero: `-.25`."""
    text = f"{value:.2f}"
    return text if abs(value) >= 0.995 else text.replace("0.", ".", 1).replace("-.00", ".00")
