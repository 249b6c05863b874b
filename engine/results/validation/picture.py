"""The validation of completeness scores as figures: metrics with intervals, by row or by size of the training set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.base.errors import UsageError
from engine.base.number_format import figure, figure_range
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from engine.results.document import Figure, Plot, Ranges, ValueRange
from engine.results.records import CompletenessTable, SeparationRow
from engine.results.svg import save_figures

Against = Literal["rows", "conversations", "cut"]
"""What metrics are drawn against: the names of rows, the number of training conversations, or the share of them that
was cut off for an experiment."""

_MAX_NAME_CHARS = 44
"""Most characters of the name of a row."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """One metric of all rows: its interval by the row's name, and the value of guessing where there is one."""

    title: str
    metric: str
    values: Mapping[str, Interval]
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """Rows that differ only in the quantity on the horizontal axis, each with its value there."""

    name: str
    rows: tuple[tuple[float, SeparationRow], ...]


def save_picture(table: CompletenessTable, path: Path, against: Against = "rows") -> None:
    """Draws the table into an SVG file.

    Args:
        path: Ends with `.svg`; an existing file is replaced.
        against: `rows` lists the rows one under the other. `conversations` and `cut` put the number of training
            conversations, or the share of them that was cut, on the horizontal axis; rows without that number become
            horizontal lines.

    Raises:
        UsageError: The path has another ending, or no two rows differ in `against` alone.
        ProjectError: The file cannot be written.
    """
    panels = _panels(table)
    if against == "rows":
        save_figures(path, [_by_rows(panel) for panel in panels])
        return
    lines = _lines(table.rows, against)
    level_rows = [row.name for row in table.rows if row.conversations is None]
    save_figures(path, [_by_training(panel, lines, level_rows, against) for panel in panels])


def _panels(table: CompletenessTable) -> list[_Panel]:
    """Returns a panel for AUROC and F1 of the truncation test, and for each claim that distinguishes conversations."""
    cut = f"whole against cut (n {table.n:,})"
    panels = [
        _Panel(cut, "AUROC", {row.name: row.metrics.auroc for row in table.rows}, 0.5),
        _Panel(cut, "F1", {row.name: row.metrics.f1 for row in table.rows}),
    ]
    for truth in table.truths:
        if truth.rows:
            title = f"low where {truth.claim} ({truth.holds:,} of {truth.holds + truth.fails:,})"
            panels.append(_Panel(title, "AUROC", {row.name: row.auroc for row in truth.rows}, 0.5))
    return panels


def _by_rows(panel: _Panel) -> Figure:
    """Returns the rows one under the other with their intervals."""
    values = [
        ValueRange(
            one_line(name, _MAX_NAME_CHARS),
            low=interval.low,
            value=interval.value,
            high=interval.high,
            text=f"{figure(interval.value)} ({figure_range(interval.low, interval.high)})",
        )
        for name, interval in panel.values.items()
    ]
    if panel.chance is not None:
        chance = panel.chance
        values.append(ValueRange("by chance", chance, chance, chance, figure(chance)))
    return Ranges(f"{panel.title}: {panel.metric}", tuple(values))


def _by_training(
    panel: _Panel, lines: Sequence[_Line], level_rows: Sequence[str], against: Against
) -> Figure:
    """Returns lines over what the rows differ in, which is drawn as a logarithm where it is a number of conversations.

    Args:
        level_rows: Names of the rows that become horizontal lines.
    """
    scale: Callable[[float], float] = math.log10 if against == "conversations" else float
    # the horizontal axis runs from the least to the greatest quantity; level lines span it
    quantities = sorted({quantity for line in lines for quantity, _ in line.rows})
    ends = scale(quantities[0]), scale(quantities[-1])
    curves = [
        (line.name, tuple((scale(x), panel.values[row.name].value) for x, row in line.rows))
        for line in lines
    ]
    levels = {one_line(name, _MAX_NAME_CHARS): panel.values[name].value for name in level_rows}
    if panel.chance is not None:
        levels["by chance"] = panel.chance
    curves += [(name, tuple((end, value) for end in ends)) for name, value in levels.items()]
    trained = [(scale(x), panel.values[row.name]) for line in lines for x, row in line.rows]
    return Plot(
        f"{panel.title}: {panel.metric}",
        "conversations trained on" if against == "conversations" else "share of them that was cut",
        panel.metric,
        f"{panel.metric} of {', '.join(name for name, _ in curves)}",
        tuple(curves),
        dots=tuple((x, interval.value) for x, interval in trained),
        shares=True,
        whiskers=tuple((x, interval.low, interval.high) for x, interval in trained),
        ticks=tuple((scale(quantity), f"{quantity:g}") for quantity in quantities),
    )


def _lines(rows: Sequence[SeparationRow], against: Against) -> list[_Line]:
    """Groups the rows that differ only in `against`; leaves out groups of one row.

    Raises:
        UsageError: No two rows do.
    """
    groups: dict[str, list[tuple[float, SeparationRow]]] = {}
    for row in rows:
        share = None
        if row.conversations and row.cut is not None:
            share = row.cut / row.conversations
        name = row.recipe or "tuned"
        if against == "conversations":
            quantity: float | None = row.conversations or None
            name = f"{name}, {share:.0%} cut" if share else name
        else:
            quantity = share
            name = f"{name}, {row.conversations:,} conversations" if row.conversations else name
        if quantity is not None:
            groups.setdefault(name, []).append((quantity, row))
    lines = [
        _Line(name, tuple(sorted(group, key=lambda quantity_and_row: quantity_and_row[0])))
        for name, group in groups.items()
        if len({quantity for quantity, _ in group}) > 1
    ]
    if not lines:
        what = "in the number of conversations" if against == "conversations" else "in what was cut"
        raise UsageError(
            f"No two adapters of one recipe differ {what} alone.",
            "docs/training.md has the runs that make such a curve.",
        )
    return lines
