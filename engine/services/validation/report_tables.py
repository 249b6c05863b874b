"""What validation found, as the sheets of the screen."""

from __future__ import annotations

from collections.abc import Sequence

from engine.records.interval import Interval
from engine.records.validation import CompletenessTable, Contrast, Curve, TruthTable
from engine.services.validation.all_metrics import Everything
from engine.services.validation.goals import GoalValidation
from engine.services.validation.records import Plot, ReportTable, SheetRow
from engine.services.validation.trees import TreeValidation, config_name
from engine.text import one_line
from engine.validate import conclusions, truths
from engine.validate.statistics.partitions import GoldAgreement
from engine.validate.tables import ClaimTable, Ranked
from engine.validate.uncertainty import BASELINES, MEASURES

DIAGONAL: Curve = ((0.0, 0.0), (1.0, 1.0))
ROC = Plot("ROC", "false alarms", DIAGONAL)
LONGEST = 60


def sheets(found: Everything) -> tuple[ReportTable, ...]:
    """A sheet for each table that has rows."""
    made: list[ReportTable] = []
    if found.goals is not None:
        made.append(_of_goals(found.goals))
    if found.completeness is not None:
        made.append(_of_cuts(found.completeness))
        made += [_of_ends(one) for one in found.completeness.truths if one.rows]
    if found.trees is not None:
        made += [_of_claim(found.trees, one) for one in found.trees.tables if one.rows]
    return tuple(made)


def _of_claim(found: TreeValidation, table: ClaimTable) -> ReportTable:
    covered = table.holds + table.fails
    unit = "answers" if table.claim in truths.OF_AN_ANSWER else "conversations"
    right = table.fails / covered
    return ReportTable(
        "trees",
        table.claim,
        (
            f"{truths.CLAIMS[table.claim]}; {table.holds:,} yes, {table.fails:,} no;"
            f" trees for {covered:,} of {found.known[table.claim]:,} {unit}",
            f"trees {config_name(found.config)}",
        ),
        ("AUROC", "AP", "kept", "PRR"),
        (0.5, 1 - right, right, 0.0),
        tuple(_ranked(row, table.contrasts) for row in table.rows),
        (_rejecting(right), ROC),
        (conclusions.against_chance(table), *conclusions.of_claim(table)[:1]),
    )


def _ranked(row: Ranked, contrasts: Sequence[Contrast]) -> SheetRow:
    name, _, how = row.figure.partition(" ")
    summary = {"mean": "; mean over the trees of a conversation", "most": "; most of them"}
    return SheetRow(
        row.figure,
        "measure" if name in MEASURES else "plain",
        {**MEASURES, **BASELINES}[name] + summary.get(how, ""),
        tuple(
            _estimate(one)
            for one in (row.area, row.average_precision, row.kept_accuracy, row.rejection_ratio)
        ),
        row.corrected,
        (row.rejection, row.roc),
        _about(row.figure, contrasts),
    )


def _of_cuts(found: CompletenessTable) -> ReportTable:
    whose = f"held out by {one_line(found.run, LONGEST)}" if found.run else "of the project"
    return ReportTable(
        "completeness",
        "whole against cut",
        (
            f"{found.n:,} conversations {whose}, each whole and cut at a random turn (seed {found.seed});"
            f" {found.coverage:.0%} of those that can be cut are scored by all rows",
        ),
        ("AUROC", "F1", "accuracy", "AP", "ECE"),
        (0.5, None, 0.5, 0.5, None),
        tuple(
            SheetRow(
                one_line(row.name, LONGEST),
                "way",
                "closing words, no model" if row.kind == "keywords" else (row.model or ""),
                (
                    row.found.auroc, row.found.f1, row.found.accuracy, row.found.ap, row.found.ece
                ),
                None,
                (row.reliability, row.roc),
                _about(row.name, found.contrasts),
            )
            for row in found.rows
        ),
        (Plot("whole in fact, by value", "value", DIAGONAL), ROC),
        (),
    )  # fmt: skip


def _of_ends(table: TruthTable) -> ReportTable:
    covered = table.holds + table.fails
    right = table.fails / covered
    return ReportTable(
        "completeness",
        table.claim,
        (
            f"{table.means}; {table.holds:,} yes, {table.fails:,} no; scored by all rows {covered:,} of"
            f" {table.known:,} conversations; low values should find it",
        ),
        ("AUROC", "AP"),
        (0.5, 1 - right),
        tuple(
            SheetRow(
                one_line(row.name, LONGEST),
                "way",
                "",
                (row.auroc, row.ap),
                None,
                (row.rejection, row.roc),
                _about(row.name, table.contrasts),
            )
            for row in table.rows
        ),
        (_rejecting(right), ROC),
        (),
    )


def _of_goals(found: GoalValidation) -> ReportTable:
    def row(name: str, one: GoldAgreement) -> SheetRow:
        cells = tuple(map(_estimate, (one.v, one.ari, one.homogeneity, one.completeness)))
        said = _about(name, found.contrasts)
        return SheetRow(
            one_line(name, LONGEST), "way", f"{one.groups:,} groups", cells, None, (), said
        )

    return ReportTable(
        "goals",
        "gold goals",
        (
            f"{found.n:,} conversations of {found.goals:,} gold goals, clustered with"
            f" {one_line(found.embedder, LONGEST)}; {found.outside:,} in no group",
        ),
        ("V", "ARI", "homog.", "compl."),
        (None, 0.0, None, None),
        tuple(row(*one) for one in (*found.rows.items(), *found.others.items())),
        (),
        (),
    )


def _rejecting(right: float) -> Plot:
    return Plot("right among those kept", "rejected", ((0.0, right), (1.0, right)))


def _about(name: str, contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    mine = [one for one in contrasts if name in (one.one, one.other)]
    return tuple(one_line(said, 400) for said in conclusions.pairwise(mine))


def _estimate(one: Interval) -> Interval:
    return Interval(one.value, one.low, one.high)
