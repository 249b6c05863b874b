"""Measures of response trees compared with truth, as tables, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.number_format import figure, figure_range
from engine.records.report import ReportColumn, ReportRow, ReportTable
from engine.services.report_rendering import TextColumn, row_as_json, table_lines
from engine.services.validation.completeness_report import ROC, kept_accuracy_plot
from engine.services.validation.contrasts import contrasts_about, contrasts_json
from engine.services.validation.trees import TreeValidation, config_name
from engine.validate import conclusions, truths
from engine.validate.tables import ClaimTable, Pair, Ranked
from engine.validate.uncertainty import BASELINES, FIGURES, MEASURES

_LAYOUT = tuple(TextColumn(title, 6, 13) for title in ("AUROC", "AP", "kept", "PRR"))


def tables(found: TreeValidation) -> list[ReportTable]:
    """Returns a table for each claim; no rows when a claim has one value for all."""
    return [_table(found, one) for one in found.tables]


def _table(found: TreeValidation, table: ClaimTable) -> ReportTable:
    covered = table.holds + table.fails
    right = table.fails / covered
    return ReportTable(
        table.claim,
        (
            ReportColumn("", "text", "figure"),
            ReportColumn("AUROC", "interval", "auroc", chance=0.5),
            ReportColumn("AP", "interval", "average_precision", chance=table.holds / covered),
            ReportColumn("kept", "interval", "kept_accuracy", chance=right),
            ReportColumn("PRR", "interval", "rejection_ratio", chance=0.0),
        ),
        tuple(_row(row, table) for row in table.rows),
        (
            truths.CLAIMS[table.claim],
            f"{table.holds:,} yes, {table.fails:,} no; trees for {covered:,} of"
            f" {found.known[table.claim]:,} {_unit(table)} of which it is known",
            f"trees {config_name(found.config)}",
        ),
        _conclusions(table)[:2],
        "trees",
        (kept_accuracy_plot(right), ROC),
    )


def _row(row: Ranked, table: ClaimTable) -> ReportRow:
    lacking = table.holds + table.fails - row.positives - row.negatives
    kind = FIGURES[row.figure]
    return ReportRow(
        (row.figure, row.area, row.average_precision, row.kept_accuracy, row.rejection_ratio),
        "measure" if kind.is_measure else "baseline",
        kind.means,
        f"{lacking:,} have none" if lacking else "",
        contrasts_about(row.figure, table.contrasts),
        row.corrected,
        (row.rejection, row.roc),
        details={
            "holds": row.positives,
            "fails": row.negatives,
            "p": row.p,
            "p_corrected": row.corrected,
        },
    )


def _conclusions(table: ClaimTable) -> tuple[str, ...]:
    """Returns sentences: one on chance, one on all measures together, then one for each measure."""
    if not table.rows:
        return ()
    return (conclusions.against_chance(table), *conclusions.of_claim(table))


def _unit(table: ClaimTable) -> str:
    return "answers" if table.claim in truths.OF_AN_ANSWER else "conversations"


def without_truth(found: TreeValidation) -> str:
    """Explains why there is no table."""
    if found.known:
        return "What is known of these conversations concerns none that has a tree."
    return (
        "Nothing is known of these conversations that trees could be held against: no reward, no completion, no"
        " answerability, no judged answers. Such truth comes with the import, in `truth`."
    )


def lines_of(found: TreeValidation) -> list[str]:
    """Formats the tables, conclusions and correlations as lines of text."""
    lines = [
        f"trees          {config_name(found.config)}",
        f"               {found.grown:,} trees of {found.conversations:,} conversations,"
        f" {found.wanted:,} asked for; median of {found.leaves:g} leaves",
    ]
    if found.unkept:
        lines.append(
            f"               {found.unkept:,} trees of an earlier version hold no probabilities of tokens"
        )
    for made, table in zip(tables(found), found.tables, strict=True):
        lines += ["", *_table_lines(made), *(f"  {line}" for line in _conclusions(table))]
    shown = [pair for pair in found.pairs if _is_printed(pair)]
    if shown:
        lines += ["", f"{'correlations over conversations':<59}Spearman  95%          Pearson"]
        lines += [
            f"  {f'{pair.first} and {pair.second}':<57}{figure(pair.found.spearman.value):>8}"
            f"  {figure_range(pair.found.spearman.low, pair.found.spearman.high):<13}{figure(pair.found.pearson):>7}"
            for pair in shown
        ]
    return lines


def _table_lines(table: ReportTable) -> list[str]:
    lines = [f"{table.title}: {table.notes[0]}", f"  {table.notes[1]}"]
    if not table.rows:
        return [*lines, "  All are the same: there is nothing to tell apart."]
    return lines + table_lines(table, _LAYOUT, width=32, indent="  ", by_chance=True)


def _is_printed(pair: Pair) -> bool:
    """Whether the text report has this correlation: one with the length, or of the two measures that Soroka et al.
    compare. `--json` has all."""
    names = {FIGURES[name].base for name in (pair.first, pair.second)}
    return "length" in names or names == {"leaves", "-max_logprob"}


def _row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    made = row_as_json(table, row)
    low, high = made["ci"].pop("auroc")
    return {**made, "low": low, "high": high}


def as_json(found: TreeValidation) -> dict[str, Any]:
    """Returns the tables and correlations as JSON values."""
    return {
        "trees": {
            **asdict(found.config),
            "asked_for": found.wanted,
            "conversations": found.conversations,
            "trees": found.grown,
            "median_leaves": found.leaves,
            "without_token_probabilities": found.unkept,
        },
        "figures": {**MEASURES, **BASELINES},
        "truths": [
            {
                "claim": table.claim,
                "means": truths.CLAIMS[table.claim],
                "of": _unit(table),
                "known": found.known[table.claim],
                "holds": table.holds,
                "fails": table.fails,
                "figures": [_row_as_json(made, row) for row in made.rows],
                **contrasts_json(table.contrasts),
                "conclusions": list(_conclusions(table)),
            }
            for made, table in zip(tables(found), found.tables, strict=True)
        ],
        "correlations": [
            {
                "first": pair.first,
                "second": pair.second,
                "n": pair.found.n,
                "spearman": pair.found.spearman.value,
                "low": pair.found.spearman.low,
                "high": pair.found.spearman.high,
                "pearson": pair.found.pearson,
            }
            for pair in found.pairs
        ],
    }
