"""Formats the conclusions of tables as sentences; also says when no difference is significant.

A *contrast* is the difference of one metric between two rows of a table, with its interval and p value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.number_format import figure, figure_range
from engine.base.statistics.intervals import Contrast
from engine.base.statistics.ranking import SIGNIFICANCE_LEVEL
from engine.results.metrics.claims import ClaimTable, Ranked

MAX_SENTENCE_CHARS = 400
"""Most characters of a sentence."""


def of_claim(table: ClaimTable) -> list[str]:
    """Returns a sentence on all measures of the tree together, then one for each measure.

    Each measure is compared with the baseline that has the largest area under the ROC curve; the correction counts the
    contrasts with all baselines.
    """
    if not table.contrasts:
        return []
    rows = {row.figure: row for row in table.rows}
    hardest = [
        max(
            (contrast for contrast in table.contrasts if contrast.one == name),
            key=lambda contrast: (contrast.second, contrast.other),  # area, then name
        )
        for name in dict.fromkeys(contrast.one for contrast in table.contrasts)
    ]
    better = sum(is_significant(contrast) and contrast.difference.value > 0 for contrast in hardest)
    worse = sum(is_significant(contrast) and contrast.difference.value < 0 for contrast in hardest)
    tests = sum(contrast.p is not None for contrast in table.contrasts)
    lines = [
        f"Of {len(hardest)} figures of trees, significantly better than the best plain figure: {_count_text(better)};"
        f" worse: {_count_text(worse)} (corrected for {tests} tests)."
    ]
    return lines + [
        format_contrast(contrast, _interval(rows.get(contrast.one))) for contrast in hardest
    ]


def against_chance(table: ClaimTable) -> str:
    """Returns a sentence on the figures that are significantly above and below chance."""
    above = [
        row.figure
        for row in table.rows
        if row.corrected < SIGNIFICANCE_LEVEL and row.area.value > 0.5
    ]
    below = [
        row.figure
        for row in table.rows
        if row.corrected < SIGNIFICANCE_LEVEL and row.area.value < 0.5
    ]
    if not above and not below:
        return f"None of {len(table.rows)} figures differs significantly from chance."
    parts = [f"above chance: {', '.join(above)}"] if above else []
    parts += [f"below chance: {', '.join(below)}"] if below else []
    return f"{'; '.join(parts).capitalize()}; no other figure differs significantly from chance."


def is_significant(contrast: Contrast) -> bool:
    """Whether a difference is significant after correction."""
    return contrast.corrected is not None and contrast.corrected < SIGNIFICANCE_LEVEL


def format_contrast(contrast: Contrast, interval: str = "") -> str:
    """Formats a contrast: `leaves .63 (.50 to .73) against length .61: no significant difference, n = 100 (...)`.

    Args:
        interval: Interval of the first value, in brackets after a space; empty to leave it out.
    """
    difference = contrast.difference
    metric = "" if contrast.figure == "AUROC" else f"{contrast.figure} of "
    compared = f"{metric}{contrast.one} {figure(contrast.first)}{interval}"
    compared += f" against {contrast.other} {figure(contrast.second)}"
    evidence = (
        f"{_signed(difference.value)}, {_signed(difference.low)} to {_signed(difference.high)}"
    )
    if contrast.p is None or contrast.corrected is None:
        return f"{compared}: too few of one kind to test, n = {contrast.n:,} ({evidence})"
    evidence = f"{evidence}; {format_p(contrast.corrected)}"
    if not is_significant(contrast):
        return f"{compared}: no significant difference, n = {contrast.n:,} ({evidence})"
    verdict = "better" if difference.value > 0 else "worse"
    return f"{compared}: {verdict}, n = {contrast.n:,} ({evidence})"


def pairwise(contrasts: Sequence[Contrast]) -> list[str]:
    """Returns a sentence for each contrast, significant ones first."""
    return [
        format_contrast(contrast)
        for contrast in sorted(contrasts, key=lambda contrast: not is_significant(contrast))
    ]


def format_p(p: float) -> str:
    """Formats a p value: `p = .31`, `p = .031`, `p < .001`."""
    if p < 0.001:
        return "p < .001"
    return f"p = {p:.3f}".replace("0.", ".", 1) if p < 0.1 else f"p = {figure(p)}"


def _signed(value: float) -> str:
    """Formats a difference with two digits and its sign, `+.12`, `-.05`; without a sign when it rounds to 0."""
    text = figure(value)
    return f"+{text}" if value > 0 and text != ".00" else text


def _interval(row: Ranked | None) -> str:
    """Returns the interval of a figure's area in brackets, after a space."""
    return "" if row is None else f" ({figure_range(row.area.low, row.area.high)})"


def _count_text(count: int) -> str:
    """Returns a count as text, `none` for 0."""
    return "none" if count == 0 else str(count)


def contrasts_json(contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """Returns `contrasts`, each with its interval in `ci`, and `conclusions`, a sentence for each."""
    return {
        "contrasts": [
            {
                "figure": contrast.figure,
                "one": contrast.one,
                "other": contrast.other,
                "n": contrast.n,
                "values": [contrast.first, contrast.second],
                "difference": contrast.difference.value,
                "ci": [contrast.difference.low, contrast.difference.high],
                "p": contrast.p,
                "p_corrected": contrast.corrected,
            }
            for contrast in contrasts
        ],
        "conclusions": pairwise(contrasts),
    }
