"""How `workbench validate PROJECT completeness` tells what it found."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from engine.records.interval import Interval
from engine.records.validation import Classification, CompletenessTable, TruncationRow, TruthTable
from engine.services.validation.contrasts import contrasts_json
from engine.text import one_line
from engine.validate import conclusions
from engine.validate.formatting import ends, short

FIGURES = tuple(one.name for one in fields(Classification))
LONGEST_NAME = 44
CUT, LOW = "whole against cut", "low at the end"
"""Heads of the first columns."""


def notes(found: CompletenessTable) -> list[str]:
    """What a person should know beside the table."""
    told = []
    if found.run is None:
        told.append(
            "No single training run says what was held out: all conversations of the project are tested."
        )
    if found.trained:
        told.append(
            f"{found.trained:,} conversations are left out because an adapter here was trained on them."
        )
    told += [
        f"No row for {one_line(name, LONGEST_NAME)}: it covers {count:,} of {found.asked:,} conversations."
        for name, count in found.left_out
    ]
    return told


def lines_of(found: CompletenessTable) -> list[str]:
    """As text."""
    whose = f"held out by {one_line(found.run, LONGEST_NAME)}" if found.run else "of the project"
    how = "after a random step like its last" if found.same_kind else "at a random turn"
    width = max(len(CUT), *(len(_name(row)) for row in found.rows))
    lines = [
        f"completeness   {found.n:,} conversations {whose}, each whole and cut {how} (seed {found.seed})",
        f"               {found.asked:,} asked for, {found.single:,} cannot be cut,"
        f" {found.coverage:.0%} of the others are scored by all rows",
        "",
        f"{CUT:<{width}}{'AUROC':>7}  {'95%':<12}{'F1':>5}  {'95%':<12}{'acc.':>5}{'prec.':>7}{'recall':>8}"
        f"{'AP':>6}{'ECE':>6}",
    ]
    for row in found.rows:
        one = row.found
        lines.append(
            f"{_name(row):<{width}}{_with_ends(one.auroc, 7)}{_with_ends(one.f1, 5)}{short(one.accuracy.value):>5}"
            f"{short(one.precision.value):>7}{short(one.recall.value):>8}{short(one.ap.value):>6}"
            f"{short(one.ece.value):>6}"
        )
    lines += [f"  {line}" for line in conclusions.pairwise(found.contrasts)]
    for table in found.truths:
        lines += ["", *_truth_lines(table, width)]
    return lines


def _truth_lines(table: TruthTable, width: int) -> list[str]:
    covered = table.holds + table.fails
    lines = [
        f"{table.claim}: {table.means}",
        f"  {table.holds:,} yes, {table.fails:,} no; scored by all rows {covered:,} of {table.known:,} conversations"
        " of which it is known",
    ]
    if not table.rows:
        return [*lines, "  All are the same: there is nothing to tell apart."]
    chance = f"(by chance .50 and {short(table.holds / covered)})"
    lines.append(f"{LOW:<{width}}{'AUROC':>7}  {'95%':<12}{'AP':>5}  {'95%':<12}  {chance}")
    lines += [
        f"{one_line(row.name, LONGEST_NAME):<{width}}{_with_ends(row.auroc, 7)}{_with_ends(row.ap, 5)}".rstrip()
        for row in table.rows
    ]
    return lines + [f"  {line}" for line in conclusions.pairwise(table.contrasts)]


def _name(row: TruncationRow) -> str:
    return one_line(row.name, LONGEST_NAME)


def _with_ends(figure: Interval, width: int) -> str:
    return f"{short(figure.value):>{width}}  {ends(figure):<12}"


# As JSON


def as_json(found: CompletenessTable) -> dict[str, Any]:
    """As JSON: intervals in `ci`, from low to high."""
    return {
        "completeness": {
            "n": found.n,
            "run": found.run,
            "seed": found.seed,
            "same_kind": found.same_kind,
            "threshold": found.threshold,
            "asked_for": found.asked,
            "single": found.single,
            "coverage": found.coverage,
            "trained": found.trained,
            "left_out": [{"name": name, "scored": count} for name, count in found.left_out],
            "rows": [
                {
                    "name": row.name,
                    "kind": row.kind,
                    "mode": row.mode,
                    "model": row.model,
                    "adapter": row.adapter,
                    "config_hash": row.config_hash,
                    "scored": row.scored,
                    "recipe": row.recipe or None,
                    "conversations": row.conversations,
                    "cut": row.cut,
                    **{name: getattr(row.found, name).value for name in FIGURES},
                    "ci": {name: _ends(getattr(row.found, name)) for name in FIGURES},
                }
                for row in found.rows
            ],
            **contrasts_json(found.contrasts),
            "truths": [
                {
                    "claim": table.claim,
                    "means": table.means,
                    "holds": table.holds,
                    "fails": table.fails,
                    "known": table.known,
                    "rows": [
                        {
                            "name": row.name,
                            "auroc": row.auroc.value,
                            "ap": row.ap.value,
                            "ci": {"auroc": _ends(row.auroc), "ap": _ends(row.ap)},
                        }
                        for row in table.rows
                    ],
                    **contrasts_json(table.contrasts),
                }
                for table in found.truths
            ],
        }
    }


def _ends(figure: Interval) -> list[float]:
    return [figure.low, figure.high]
