"""Draws the validation of completeness scores: metrics with intervals, by row or by size of the training set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import UsageError
from engine.base.interval import Interval
from engine.base.text import one_line
from engine.results.pictures import save_picture
from engine.results.records import CompletenessTable, TruncationRow

Against = Literal["rows", "conversations", "cut"]

CHANCE = {"AUROC": 0.5}
_LONGEST_NAME = 44
_PANEL = (4.2, 3.4)
_ROW_HEIGHT = 0.36


@dataclass(frozen=True, slots=True)
class _Panel:
    """One metric of all rows: its interval by the row's name."""

    title: str
    figure: str
    values: dict[str, Interval]


@dataclass(frozen=True, slots=True)
class _Line:
    """Rows that differ only in the quantity on the x axis; each is (x, row)."""

    name: str
    rows: tuple[tuple[float, TruncationRow], ...]


def draw(table: CompletenessTable, path: Path, against: Against = "rows") -> None:
    """Draws the table into a picture file.

    Args:
        path: Ends with `.svg` or `.png`; an existing file is replaced.
        against: `rows` lists the rows one under the other. `conversations` and `cut` put the number of training
            conversations, or the share of them that was cut, on the x axis; rows without that number become
            horizontal lines.

    Raises:
        UsageError: The path has another ending, no two rows differ in `against` alone, or matplotlib is not installed.
        ProjectError: The file cannot be written.
    """
    panels = _panels(table)

    def make(pyplot: Any) -> Any:
        if against == "rows":
            return _by_rows(pyplot, table, panels)
        return _by_lines(pyplot, table, panels, _lines(table.rows, against), against)

    save_picture(path, make)


def _panels(table: CompletenessTable) -> list[_Panel]:
    cut = f"whole against cut (n {table.n:,})"
    panels = [
        _Panel(cut, "AUROC", {row.name: row.found.auroc for row in table.rows}),
        _Panel(cut, "F1", {row.name: row.found.f1 for row in table.rows}),
    ]
    for truth in table.truths:
        if truth.rows:
            title = f"low where {truth.claim} ({truth.holds:,} of {truth.holds + truth.fails:,})"
            panels.append(_Panel(title, "AUROC", {row.name: row.auroc for row in truth.rows}))
    return panels


def _frame(axis: Any, panel: _Panel, *, upright: bool) -> None:
    axis.set_title(panel.title, fontsize=9, loc="left")
    chance = CHANCE.get(panel.figure)
    if upright:
        axis.set_ylim(0, 1.02)
        axis.set_ylabel(panel.figure)
    else:
        axis.set_xlim(0, 1.02)
        axis.set_xlabel(panel.figure)
    if chance is not None:
        (axis.axhline if upright else axis.axvline)(chance, color="0.6", linewidth=0.8)


def _reach(one: Interval) -> list[list[float]]:
    return [[max(0.0, one.value - one.low)], [max(0.0, one.high - one.value)]]


def _by_rows(pyplot: Any, table: CompletenessTable, panels: Sequence[_Panel]) -> Any:
    names = [row.name for row in table.rows]
    size = (_PANEL[0] * len(panels), 1.2 + _ROW_HEIGHT * len(names))
    picture, axes = pyplot.subplots(
        1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        _frame(axis, panel, upright=False)
        for at, name in enumerate(names):
            one = panel.values[name]
            axis.errorbar(one.value, at, xerr=_reach(one), fmt="o", color="C0", capsize=3)
    axes[0][0].set_yticks(range(len(names)), [one_line(name, _LONGEST_NAME) for name in names])
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    return picture


def _by_lines(
    pyplot: Any,
    table: CompletenessTable,
    panels: Sequence[_Panel],
    lines: Sequence[_Line],
    against: Against,
) -> Any:
    size = (_PANEL[0] * len(panels), _PANEL[1])
    picture, axes = pyplot.subplots(
        1, len(panels), figsize=size, squeeze=False, layout="constrained"
    )
    flat = [row for row in table.rows if row.conversations is None]
    for axis, panel in zip(axes[0], panels, strict=True):
        _frame(axis, panel, upright=True)
        for nth, line in enumerate(lines):
            ones = [panel.values[row.name] for _, row in line.rows]
            axis.errorbar(
                [at for at, _ in line.rows],
                [one.value for one in ones],
                yerr=[[_reach(one)[side][0] for one in ones] for side in (0, 1)],
                fmt="o-",
                color=f"C{nth}",
                capsize=3,
                label=line.name,
            )
        for nth, row in enumerate(flat, start=len(lines)):
            value = panel.values[row.name].value
            name = one_line(row.name, _LONGEST_NAME)
            axis.axhline(value, color=f"C{nth}", linestyle="--", linewidth=1, label=name)
        at_all = sorted({at for line in lines for at, _ in line.rows})
        if against == "conversations":
            axis.set_xscale("log")
            axis.minorticks_off()
            axis.set_xlabel("conversations trained on")
        else:
            axis.set_xlabel("share of them that was cut")
        axis.set_xticks(at_all, [f"{at:g}" for at in at_all])
    axes[0][-1].legend(fontsize=8, frameon=False)
    return picture


def _lines(rows: Sequence[TruncationRow], against: Against) -> list[_Line]:
    """Groups the rows that differ only in `against`; leaves out groups of one row."""
    value, rest = (
        (_conversations, _share) if against == "conversations" else (_share, _conversations)
    )
    groups: dict[str, list[tuple[float, TruncationRow]]] = {}
    for row in rows:
        at = value(row)
        if at is not None:
            groups.setdefault(_called(row, rest(row), against), []).append((at, row))
    found = [
        _Line(name, tuple(sorted(many, key=lambda one: one[0])))
        for name, many in groups.items()
        if len({at for at, _ in many}) > 1
    ]
    if not found:
        what = "in the number of conversations" if against == "conversations" else "in what was cut"
        raise UsageError(
            f"No two adapters of one recipe differ {what} alone.",
            "docs/training.md has the runs that make such a curve.",
        )
    return found


def _conversations(row: TruncationRow) -> float | None:
    return row.conversations or None


def _share(row: TruncationRow) -> float | None:
    if not row.conversations or row.cut is None:
        return None
    return row.cut / row.conversations


def _called(row: TruncationRow, rest: float | None, against: Against) -> str:
    name = row.recipe or "tuned"
    if against == "cut":
        return f"{name}, {rest:,.0f} conversations" if rest else name
    return f"{name}, {rest:.0%} cut" if rest else name
