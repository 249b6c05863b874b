"""Makes tables and JSON of the truncation test of completeness scores, and of the comparison of scores with truth."""

from __future__ import annotations

from typing import Any

from engine.base.report_table import ReportColumn, ReportRow, ReportTable, row_as_json
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from engine.results.records import CompletenessTable, SeparationRow, TruthTable

MAX_NAME_CHARS = 44
"""Most characters of the name of a row."""

MAX_SENTENCE_CHARS = 400

_CUT = "whole against cut"
"""Title of the table of the truncation test."""

_CUT_COLUMNS = (
    ReportColumn("", "text", "name", text_title=_CUT),
    ReportColumn("AUROC", "interval", "auroc", chance=0.5),
    ReportColumn(
        "same step",
        "interval",
        "matched",
        chance=0.5,
        ends_in_text=False,
    ),
    ReportColumn("F1", "interval", "f1"),
    ReportColumn(
        "accuracy", "interval", "accuracy", chance=0.5, text_title="acc.", ends_in_text=False
    ),
    ReportColumn(
        "precision",
        "interval",
        "precision",
        text_title="prec.",
        ends_in_text=False,
    ),
    ReportColumn("recall", "interval", "recall", ends_in_text=False),
    ReportColumn("AP", "interval", "ap", chance=0.5, ends_in_text=False),
    ReportColumn("ECE", "interval", "ece", ends_in_text=False),
)
"""Columns of the truncation test; most intervals are left out of text."""


def tables(table: CompletenessTable) -> list[ReportTable]:
    """Returns the table of the truncation test, then one for each claim.

    The table of a claim has no rows where the claim holds for all conversations or for none.
    """
    return [_truncation_table(table), *(_truth_table(truth) for truth in table.truths)]


def _truncation_table(table: CompletenessTable) -> ReportTable:
    """Returns the table of the truncation test."""
    return ReportTable(
        _CUT,
        _CUT_COLUMNS,
        tuple(map(_truncation_row, table.rows)),
        (
            f"{table.n:,} conversations {tested_on(table)}, each whole and cut at a random turn (seed {table.seed})",
            f"{table.asked:,} asked for, {table.single:,} cannot be cut,"
            f" {table.coverage:.0%} of the others are scored by all rows",
        ),
        (one_line(table.conclusion, MAX_SENTENCE_CHARS),) if table.conclusion else (),
    )


def tested_on(table: CompletenessTable) -> str:
    """Returns words that follow `conversations` and say which of them were tested."""
    if table.run is None:
        return "of the project"
    name = one_line(table.run, MAX_NAME_CHARS)
    return f"of the test part of {name}"


def _truncation_row(row: SeparationRow) -> ReportRow:
    """Returns the row of one scoring or baseline."""
    config = row.config
    return ReportRow(
        (row.name, *(_format_figure(row, column.key) for column in _CUT_COLUMNS[1:])),
        details={
            "kind": row.kind,
            "matched_pairs": row.matched_pairs,
            "mode": config and config.mode,
            "features": config and config.features,
            "model": config and config.model,
            "adapter": config and config.adapter,
            "config_hash": config and config.config_hash,
            "scored": row.scored,
            "recipe": row.training.recipe or None,
            "conversations": row.training.conversations,
        },
    )


def _format_figure(row: SeparationRow, key: str) -> Interval | None:
    """Returns a metric of a row by the key of its column; None where it could not be computed."""
    if key == "matched":
        return row.matched
    interval: Interval = getattr(row.metrics, key)
    return interval


def _truth_table(table: TruthTable) -> ReportTable:
    """Returns the table that compares all scorings with one claim."""
    covered = table.holds + table.fails
    return ReportTable(
        table.claim,
        (
            ReportColumn("", "text", "name", text_title="low at the end"),
            ReportColumn("AUROC", "interval", "auroc", chance=0.5),
            ReportColumn("AP", "interval", "ap", chance=table.holds / covered),
        ),
        tuple(ReportRow((row.name, row.auroc, row.ap)) for row in table.rows),
        (
            table.description,
            f"{table.holds:,} yes, {table.fails:,} no; scored by all rows {covered:,} of"
            f" {table.known:,} conversations of which it is known",
            "low values should find it",
        ),
    )


def notes(table: CompletenessTable) -> list[str]:
    """Returns sentences on the conversations and scores that the table covers and leaves out."""
    lines = []
    if table.run is None:
        lines.append(
            "No single training run says what was held out: all conversations of the project are tested."
        )
    if table.trained:
        lines.append(
            f"{table.trained:,} conversations are left out because an adapter here was trained on them."
        )
    if table.selecting:
        lines.append(
            f"{table.selecting:,} conversations are left out because they selected the checkpoint of an adapter here."
        )
    lines += [
        f"No row for {one_line(name, MAX_NAME_CHARS)}: it covers {count:,} of {table.asked:,} conversations."
        for name, count in table.left_out
    ]
    return lines


def as_json(completeness: CompletenessTable) -> dict[str, Any]:
    """Returns the tables as JSON values; `ci` holds an interval as [low, high]."""
    cut, *against = tables(completeness)
    return {
        "completeness": {
            "n": completeness.n,
            "run": completeness.run,
            "seed": completeness.seed,
            "threshold": completeness.threshold,
            "asked_for": completeness.asked,
            "single": completeness.single,
            "coverage": completeness.coverage,
            "trained": completeness.trained,
            "selecting": completeness.selecting,
            "left_out": [{"name": name, "scored": count} for name, count in completeness.left_out],
            "rows": [row_as_json(cut, row) for row in cut.rows],
            "conclusions": [completeness.conclusion] if completeness.conclusion else [],
            "truths": [
                {
                    "claim": table.claim,
                    "means": table.description,
                    "holds": table.holds,
                    "fails": table.fails,
                    "known": table.known,
                    "rows": [row_as_json(report_table, row) for row in report_table.rows],
                }
                for report_table, table in zip(against, completeness.truths, strict=True)
            ],
        }
    }
