"""How times are written."""

from __future__ import annotations

from engine.base.text import one_line


def date_and_minute(time: str) -> str:
    """Date and minute of an ISO 8601 time, `2026-10-31 10:04`; display-safe."""
    return one_line(time[:16].replace("T", " "))
