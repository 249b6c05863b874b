"""Formats names and values as a table of two columns."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content


def facts_table(lines: Sequence[tuple[str, str]]) -> Content:
    """Names and values below each other; both are display-safe."""
    width = max(len(name) for name, _ in lines) + 2
    return Content("\n").join(
        Content.assemble((f"{name:<{width}}", "$tone-muted"), value) for name, value in lines
    )
