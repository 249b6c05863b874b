"""How `workbench validate PROJECT trees` tells what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.records.interval import Interval
from engine.services.validation.contrasts import contrasts_json
from engine.services.validation.trees import TreeValidation, config_name
from engine.validate import conclusions, truths
from engine.validate.formatting import ends, short
from engine.validate.tables import ClaimTable, Pair
from engine.validate.uncertainty import BASELINES, MEASURES

RESAMPLED = ("average_precision", "kept_accuracy", "rejection_ratio")


def without_truth(found: TreeValidation) -> str:
    """Why there is no table."""
    if found.known:
        return "What is known of these conversations concerns none that has a tree."
    return (
        "Nothing is known of these conversations that trees could be held against: no reward, no completion, no"
        " answerability, no judged answers. Such truth comes with the import, in `truth`."
    )


def lines_of(found: TreeValidation) -> list[str]:
    """As text."""
    lines = [
        f"trees          {config_name(found.config)}",
        f"               {found.grown:,} trees of {found.conversations:,} conversations,"
        f" {found.wanted:,} asked for; median of {found.leaves:g} leaves",
    ]
    if found.unkept:
        lines.append(
            f"               {found.unkept:,} trees of an earlier version hold no probabilities of tokens"
        )
    for table in found.tables:
        lines += ["", *_table_lines(table, found.known[table.claim])]
    shown = [pair for pair in found.pairs if _is_of_the_paper(pair)]
    if shown:
        lines += ["", f"{'correlations over conversations':<59}Spearman  95%          Pearson"]
        lines += [
            f"  {f'{pair.first} and {pair.second}':<57}{short(pair.found.spearman.value):>8}"
            f"  {ends(pair.found.spearman):<13}{short(pair.found.pearson):>7}"
            for pair in shown
        ]
    return lines


def _table_lines(table: ClaimTable, known: int) -> list[str]:
    covered = table.holds + table.fails
    unit = "answers" if table.claim in truths.OF_AN_ANSWER else "conversations"
    lines = [
        f"{table.claim}: {truths.CLAIMS[table.claim]}",
        f"  {table.holds:,} yes, {table.fails:,} no;"
        f" trees for {covered:,} of {known:,} {unit} of which it is known",
    ]
    if not table.rows:
        return [*lines, "  All are the same: there is nothing to tell apart."]
    lines.append(
        f"  {'':<32}{'AUROC':>6}  {'95%':<13}{'AP':>6}  {'95%':<13}{'kept':>6}  {'95%':<13}{'PRR':>6}  95%"
    )
    for row in table.rows:
        lacking = covered - row.positives - row.negatives
        figures = [row.area, row.average_precision, row.kept_accuracy, row.rejection_ratio]
        cells = "".join(f"{short(one.value):>6}  {ends(one):<13}" for one in figures)
        line = f"  {row.figure:<32}{cells}" + (f"{lacking:,} have none" if lacking else "")
        lines.append(line.rstrip())
    shares = short(table.holds / covered), short(table.fails / covered)
    lines.append(
        f"  {'by chance':<32}{short(0.5):>6}  {'':<13}{shares[0]:>6}  {'':<13}{shares[1]:>6}  {'':<13}{short(0):>6}"
    )
    lines += [
        f"  {line}" for line in (conclusions.against_chance(table), *conclusions.of_claim(table))
    ]
    return lines


def _is_of_the_paper(pair: Pair) -> bool:
    """With the length, or of the two figures that the paper compares; `--json` has all."""
    names = {name.split()[0] for name in (pair.first, pair.second)}
    return "length" in names or names == {"leaves", "-max_logprob"}


def _ends(figure: Interval) -> list[float]:
    return [figure.low, figure.high]


def as_json(found: TreeValidation) -> dict[str, Any]:
    """As JSON."""
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
                "of": "answers" if table.claim in truths.OF_AN_ANSWER else "conversations",
                "known": found.known[table.claim],
                "holds": table.holds,
                "fails": table.fails,
                "figures": [
                    {
                        "figure": row.figure,
                        "holds": row.positives,
                        "fails": row.negatives,
                        "auroc": row.area.value,
                        "low": row.area.low,
                        "high": row.area.high,
                        "average_precision": row.average_precision.value,
                        "kept_accuracy": row.kept_accuracy.value,
                        "rejection_ratio": row.rejection_ratio.value,
                        "ci": {name: _ends(getattr(row, name)) for name in RESAMPLED},
                        "p": row.p,
                        "p_corrected": row.corrected,
                    }
                    for row in table.rows
                ],
                **contrasts_json(table.contrasts),
                "conclusions": [conclusions.against_chance(table), *conclusions.of_claim(table)]
                if table.rows
                else [],
            }
            for table in found.tables
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
