"""Compares response trees with truth.

A *response tree* holds the answers that a model could give at one step of a conversation, with their probabilities. A
*figure* of a tree is one of its measures (number of leaves, entropy, ...) or a baseline that needs no tree; each grows
with uncertainty. A *claim* is a yes or no that truth decides of a conversation, such as "the reward is 0". The tables
say how well each figure predicts each claim.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.base.errors import NotYet, UsageError
from engine.base.report_table import ReportColumn, ReportRow, ReportTable, row_as_json
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations, selecting
from engine.project.project import Project
from engine.results.validation import claims
from engine.results.validation.completeness import claims_by_conversation
from engine.trees import tables as trees
from engine.trees.records import TreeConfig, TreeRow

SHORT_HASH = 12
"""Number of first characters of a config hash that are printed; they identify it."""


@dataclass(frozen=True, slots=True)
class TreeValidation:
    """The trees of one configuration, compared with truth.

    Attributes:
        config: The configuration that the trees were grown with.
        asked_for: Number of matching conversations.
        conversations: Number of these conversations that have a tree.
        grown: Number of trees.
        leaves: Median number of leaves; 0 without trees.
        known: Number of conversations whose truth decides a claim, by the claim, with or without a tree.
        tables: A table for each claim that is decided for a conversation with a tree; one with the answers of an
            earlier claim gets none.
        pairs: Correlations of the figures with the length, and of the two measures that Soroka et al. compare.
    """

    config: TreeConfig
    asked_for: int
    conversations: int
    grown: int
    leaves: float
    known: Mapping[str, int]
    tables: tuple[claims.ClaimTable, ...]
    pairs: tuple[claims.Pair, ...]


def tree_validation(
    project: Project,
    query: ListQuery,
    config_hash: str | None = None,
) -> TreeValidation:
    """Compares the tree measures of the matching conversations with truth.

    Args:
        config_hash: Config hash of the trees, or a prefix of it; None takes the configuration in use.

    Raises:
        UsageError: There are no trees, or not exactly one configuration has this prefix.
    """
    with project.reading() as conn:
        config = _find_config(trees.configs(conn), config_hash or trees.chosen(conn))
        ids = frozenset(selecting.ids(conn, query))
        # the reason of a row says why there is no tree
        rows = [
            row
            for row in trees.rows(conn, config.config_hash)
            if row.conversation_id in ids and row.reason is None
        ]
        claims_by_id = claims_by_conversation(conn, ids)
        ids_of_trees = sorted({row.conversation_id for row in rows})
        chars_by_id = dict(zip(ids_of_trees, conversations.chars(conn, ids_of_trees), strict=True))
    rows_by_id: dict[int, list[TreeRow]] = {}
    for row in rows:
        rows_by_id.setdefault(row.conversation_id, []).append(row)
    cases = [
        claims.Case(key, claims.figures_of(tree_rows, chars_by_id[key]), claims_by_id.get(key, {}))
        for key, tree_rows in rows_by_id.items()
    ]
    known = Counter(claim for decided in claims_by_id.values() for claim in decided)
    return TreeValidation(
        config=config,
        asked_for=len(ids),
        conversations=len(cases),
        grown=len(rows),
        leaves=statistics.median(row.leaves for row in rows) if rows else 0,
        known=known,
        tables=claims.claim_tables(cases),
        pairs=claims.claim_pairs(cases),
    )


def _find_config(configs: Sequence[TreeConfig], hash_prefix: str | None) -> TreeConfig:
    """Returns the only configuration whose hash begins with `hash_prefix`; None and "" stand for any hash.

    Raises:
        NotYet: There are no trees.
        UsageError: The hash of no configuration begins so, or those of several do.
    """
    if not configs:
        raise NotYet("The project has no response trees.", "`workbench run trees` grows them.")
    matching = [config for config in configs if config.config_hash.startswith(hash_prefix or "")]
    if len(matching) != 1:
        raise UsageError(
            f"{len(matching) or 'No'} configurations of trees begin with {hash_prefix!r}.",
            "There are: " + ", ".join(config_name(config) for config in configs) + ".",
        )
    (config,) = matching
    return config


def config_name(config: TreeConfig) -> str:
    """Returns the title of a configuration, which begins with its shortened hash."""
    return (
        f"{config.config_hash[:SHORT_HASH]} (alpha {config.alpha:g}, {config.mode}, {config.place},"
        f" {config.model}{f' with {config.adapter}' if config.adapter else ''})"
    )


# As tables and as JSON


def tree_tables(validation: TreeValidation) -> list[ReportTable]:
    """Returns a table for each claim in `TreeValidation.tables`; it has no rows where the claim holds for all
    conversations or for none."""
    return [_table(validation, table) for table in validation.tables]


def _table(validation: TreeValidation, table: claims.ClaimTable) -> ReportTable:
    """Returns the table with all figures as predictors of one claim."""
    covered = table.holds + table.fails
    return ReportTable(
        table.claim,
        (
            ReportColumn("", "text", "figure"),
            ReportColumn("AUROC", "interval", "auroc", chance=0.5),
            ReportColumn("AP", "interval", "average_precision", chance=table.holds / covered),
        ),
        tuple(_row(row, table) for row in table.rows),
        (
            claims.CLAIMS[table.claim],
            f"{table.holds:,} yes, {table.fails:,} no; trees for {covered:,} of"
            f" {validation.known[table.claim]:,} conversations of which it is known",
            f"trees {config_name(validation.config)}",
        ),
        table.conclusions,
    )


def _row(row: claims.FigureRow, table: claims.ClaimTable) -> ReportRow:
    """Returns the row of one figure."""
    without_figure = table.holds + table.fails - row.positives - row.negatives
    return ReportRow(
        (row.figure, row.area, row.average_precision),
        note=f"{without_figure:,} have none" if without_figure else "",
        details={
            "holds": row.positives,
            "fails": row.negatives,
            "p": row.p,
            "p_corrected": row.corrected,
        },
    )


def without_truth(validation: TreeValidation) -> str:
    """Returns a sentence on why there is no table."""
    if validation.known:
        return "What is known of these conversations concerns none that has a tree."
    return (
        "Nothing is known of these conversations that trees could be held against: no reward, no completion, no"
        " answerability. Such truth comes with the import, in `truth`."
    )


def correlation_table(validation: TreeValidation) -> ReportTable:
    """Returns a table of the correlations with the length, and of the two measures that Soroka et al. compare."""
    return ReportTable(
        "correlations over conversations",
        (
            ReportColumn("correlations over conversations", "text"),
            ReportColumn("Spearman", "interval"),
            ReportColumn("Pearson", "share"),
        ),
        tuple(
            ReportRow(
                (
                    f"{pair.first} and {pair.second}",
                    pair.correlation.spearman,
                    pair.correlation.pearson,
                )
            )
            for pair in validation.pairs
        ),
    )


def _row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    """Returns a row as JSON values, with the interval of AUROC in `low` and `high` rather than in `ci`."""
    document = row_as_json(table, row)
    low, high = document["ci"].pop("auroc")
    return {**document, "low": low, "high": high}


def trees_json(validation: TreeValidation) -> dict[str, Any]:
    """Returns the tables and correlations as JSON values."""
    return {
        "trees": {
            **asdict(validation.config),
            "asked_for": validation.asked_for,
            "conversations": validation.conversations,
            "trees": validation.grown,
            "median_leaves": validation.leaves,
        },
        "figures": {**claims.MEASURES, **claims.BASELINES},
        "truths": [
            {
                "claim": table.claim,
                "means": claims.CLAIMS[table.claim],
                "known": validation.known[table.claim],
                "holds": table.holds,
                "fails": table.fails,
                "figures": [_row_as_json(report_table, row) for row in report_table.rows],
                "conclusions": list(table.conclusions),
            }
            for report_table, table in zip(tree_tables(validation), validation.tables, strict=True)
        ],
        "correlations": [
            {
                "first": pair.first,
                "second": pair.second,
                "n": pair.correlation.n,
                "spearman": pair.correlation.spearman.value,
                "low": pair.correlation.spearman.low,
                "high": pair.correlation.spearman.high,
                "pearson": pair.correlation.pearson,
            }
            for pair in validation.pairs
        ],
    }
