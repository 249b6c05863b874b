"""Draws models by forms, as in Figure 2 of Hakimov, Weiser and Schlangen (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.base.text import end_of_path
from engine.results.pictures import save_picture
from engine.simulate.forms.table import ModelRow

FIGURES = {
    "filled_share": "Filled",
    "success": "Success",
    "efficiency": "Efficiency",
    "filled_score": "Filled\nscore",
    "score": "Score",
}
"""The figures with their titles. Figure 2a has Success, Efficiency and Score."""
_LONGEST_NAME = 32
_PANEL = (4.6, 3.4)


def draw_forms(rows: Sequence[ModelRow], path: Path) -> None:
    """Draws the means over forms (Figure 2a), and fields and turns by form (Figure 2b).

    Each model and variant has a bar, unless all its runs failed or, of Success and Score, no answers are known. The
    number of fields is that of the form's first row.

    Args:
        rows: From `by_model`: the forms of a model and variant, then the mean over them.
        path: Ends with `.svg` or `.png`; an existing file is replaced.

    Raises:
        UsageError: The path has another ending, or matplotlib is not installed.
        ProjectError: The file cannot be written.
    """

    def make(pyplot: Any) -> Any:
        picture, (left, right) = pyplot.subplots(
            1, 2, figsize=(_PANEL[0] * 2, _PANEL[1]), layout="constrained"
        )
        series: dict[tuple[str, str], list[ModelRow]] = {}
        for row in rows:
            series.setdefault((row.model, row.variant), []).append(row)
        several = len({variant for _, variant in series}) > 1
        labels = [
            end_of_path(model, _LONGEST_NAME) + (f", {variant}" if several else "")
            for model, variant in series
        ]
        _means(left, labels, list(series.values()))
        _turns(right, list(series.values()))
        picture.legend(*left.get_legend_handles_labels(), loc="outside lower center", fontsize=8)
        return picture

    save_picture(path, make)


def _means(axis: Any, labels: Sequence[str], series: Sequence[Sequence[ModelRow]]) -> None:
    axis.set_title("mean over forms (Figure 2a)", fontsize=9, loc="left")
    axis.set_ylim(0, 1.02)
    axis.set_xticks(range(len(FIGURES)), FIGURES.values(), fontsize=8)
    for number, (label, rows) in enumerate(zip(labels, series, strict=True)):
        heights = [getattr(rows[-1], figure) or 0.0 for figure in FIGURES]
        _bars(axis, heights, number, len(series), color=f"C{number}", label=label)


def _turns(axis: Any, series: Sequence[Sequence[ModelRow]]) -> None:
    axis.set_title("fields and turns by form (Figure 2b)", fontsize=9, loc="left")
    of_forms = [{row.form: row for row in rows if row.form} for rows in series]
    forms = list(dict.fromkeys(form for rows in of_forms for form in rows))
    axis.set_xticks(range(len(forms)), forms)
    lengths = [
        next((rows[form].fields or 0.0 for rows in of_forms if form in rows), 0.0) for form in forms
    ]
    _bars(axis, lengths, 0, len(series) + 1, color="0.6", label="fields")
    for number, rows in enumerate(of_forms):
        heights = [(rows[form].turns or 0.0) if form in rows else 0.0 for form in forms]
        _bars(axis, heights, number + 1, len(series) + 1, color=f"C{number}", label="turns")
    axis.legend(handles=[axis.containers[0]], fontsize=8, frameon=False)


def _bars(axis: Any, heights: Sequence[float], number: int, many: int, **looks: str) -> None:
    """Draws one bar of each group of `many`, with its value above it."""
    width = 0.8 / many
    places = [at + (number - (many - 1) / 2) * width for at in range(len(heights))]
    drawn = axis.bar(places, heights, width, **looks)
    labels = [f"{height:.2g}" if height else "" for height in heights]
    axis.bar_label(drawn, labels, fontsize=7)
