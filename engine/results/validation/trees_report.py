"""Measures of response trees compared with truth, as tables and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.results.metrics import conclusions, truths
from engine.results.metrics.tables import ClaimTable, Pair, Ranked
from engine.results.metrics.uncertainty import BASELINES, FIGURES, MEASURES
from engine.results.report_rendering import row_as_json
from engine.results.validation.completeness_report import ROC, kept_accuracy_plot
from engine.results.validation.contrasts import contrasts_about, contrasts_json
from engine.results.validation.trees import TreeValidation, config_name


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
        claim_conclusions(table)[:2],
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


def claim_conclusions(table: ClaimTable) -> tuple[str, ...]:
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


def correlation_table(found: TreeValidation) -> ReportTable:
    """Returns the correlations with the length, and of the two measures that Soroka et al. compare; JSON has all."""
    return ReportTable(
        "correlations over conversations",
        (
            ReportColumn("correlations over conversations", "text"),
            ReportColumn("Spearman", "interval"),
            ReportColumn("Pearson", "share"),
        ),
        tuple(
            ReportRow((f"{one.first} and {one.second}", one.found.spearman, one.found.pearson))
            for one in found.pairs
            if _is_printed(one)
        ),
    )


def _is_printed(pair: Pair) -> bool:
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
                "conclusions": list(claim_conclusions(table)),
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
