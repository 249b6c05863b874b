"""Compares response trees with truth.

A *response tree* holds the answers that a model could give at one step of a conversation, with their probabilities. A
*figure* of a tree is one of its measures (number of leaves, entropy, ...) or a baseline that needs no tree; each grows
with uncertainty. A *claim* is a yes or no that truth decides of a conversation or of one answer, such as "the reward is
0". The tables say how well each figure predicts each claim.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from engine.base.conversation import render_log
from engine.base.errors import NotYet, UsageError
from engine.base.report_table import ReportColumn, ReportRow, ReportTable, row_as_json
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations, selecting
from engine.conversations.tables.conversations import truth_by_conversation
from engine.project.project import Project
from engine.results.metrics import claims, conclusions
from engine.results.metrics.claims import ClaimTable, Pair, Ranked, claim_tables, pairs
from engine.results.metrics.conclusions import contrasts_json
from engine.results.metrics.uncertainty import (
    BASELINES,
    FIGURES,
    MEASURES,
    Case,
    TreeLogProbs,
    by_conversation,
    figures_of,
)
from engine.results.validation.completeness import claims_by_conversation
from engine.trees import tables as trees
from engine.trees.records import TreeConfig, TreeRow
from engine.trees.tree import leaf_log_probs

SHORT_HASH = 12
"""Characters of a config hash that are printed; a prefix of this length or more identifies it."""

CONVERSATIONS_PER_READ = 500
"""Conversations whose messages are in memory at a time."""


@dataclass(frozen=True, slots=True)
class TreeValidation:
    """The trees of one configuration, compared with truth.

    Attributes:
        config: The configuration that the trees were grown with.
        asked_for: Number of matching conversations.
        conversations: Number of those that have a tree.
        grown: Number of trees.
        leaves: Median number of leaves; 0 without trees.
        known: For each claim, the number of conversations or answers whose truth decides it, with or without a tree.
        tables: One for each claim that is decided for something with a tree.
        pairs: Correlations between the measures of conversations.
    """

    config: TreeConfig
    asked_for: int
    conversations: int
    grown: int
    leaves: float
    known: Mapping[str, int]
    tables: tuple[ClaimTable, ...]
    pairs: tuple[Pair, ...]


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
        # a row with a reason has no tree: the reason says why
        rows = [
            row
            for row in trees.measures(conn, config.config_hash)
            if row.conversation_id in ids and row.reason is None
        ]
        truth_by_id = [(key, truth) for key, truth in truth_by_conversation(conn) if key in ids]
        claims_by_id = claims_by_conversation(conn, ids)
        chars_by_id = _conversation_chars(project, sorted({row.conversation_id for row in rows}))
        log_probs = _read_log_probs(conn, rows, config)
    answers = _judged_answers(project, dict(truth_by_id))
    claims_by_step = answers.claims if config.place != "end" else {}
    cases = [
        Case(
            row.conversation_id,
            figures_of(row, chars_by_id[row.conversation_id], log_probs_of_tree),
            claims_by_step.get((row.conversation_id, row.step), {}),
        )
        for row, log_probs_of_tree in zip(rows, log_probs, strict=True)
    ]
    # for a claim about one answer, the length is that of the answer
    answer_cases = [
        replace(
            case, figures={**case.figures, "length": answers.chars[row.conversation_id, row.step]}
        )
        for case, row in zip(cases, rows, strict=True)
        if case.claims
    ]
    conversation_cases = by_conversation(cases, claims_by_id)
    conversation_claims = [claim for claim in claims.CLAIMS if claim not in claims.OF_AN_ANSWER]
    known_conversations = {
        claim: sum(claim in decided for decided in claims_by_id.values())
        for claim in conversation_claims
    }
    known = {**known_conversations, **answers.counts}
    return TreeValidation(
        config=config,
        asked_for=len(ids),
        conversations=len(conversation_cases),
        grown=len(rows),
        leaves=statistics.median(row.leaves for row in rows) if rows else 0,
        known={claim: count for claim, count in known.items() if count},
        tables=(
            *claim_tables(conversation_cases, conversation_claims),
            *claim_tables(answer_cases, sorted(claims.OF_AN_ANSWER)),
        ),
        pairs=tuple(pairs(conversation_cases)),
    )


def _read_log_probs(
    conn: sqlite3.Connection, rows: Sequence[TreeRow], config: TreeConfig
) -> list[TreeLogProbs]:
    """Returns the log-probabilities of each tree, in the order of the rows."""
    return [
        _log_probs_in(trees.frame(conn, row.conversation_id, row.step, config.config_hash))
        for row in rows
    ]


def _log_probs_in(frame: Mapping[str, Any] | None) -> TreeLogProbs:
    """Returns the log-probabilities of a stored tree; none where it was not stored."""
    if frame is None:
        return TreeLogProbs(())
    return TreeLogProbs(leaf_log_probs(frame["columns"]), frame["answer_log_probs"])


def _find_config(configs: Sequence[TreeConfig], beginning: str | None) -> TreeConfig:
    """Returns the only configuration whose hash begins so.

    Raises:
        UsageError: There is none, or there are several.
    """
    if not configs:
        raise NotYet("The project has no response trees.", "`workbench run trees` grows them.")
    matching = [config for config in configs if config.config_hash.startswith(beginning or "")]
    if len(matching) != 1:
        raise UsageError(
            f"{len(matching) or 'No'} configurations of trees begin with {beginning!r}.",
            "There are: " + ", ".join(config_name(config) for config in configs) + ".",
        )
    (config,) = matching
    return config


def _conversation_chars(project: Project, keys: Sequence[int]) -> dict[int, int]:
    """Returns the length in characters of each conversation, by its id."""
    with project.reading() as conn:
        return dict(zip(keys, conversations.chars(conn, keys), strict=True))


class _JudgedAnswers(NamedTuple):
    """The assistant steps of conversations whose answers are judged one by one.

    Attributes:
        claims: The claims about each step, by (conversation, step).
        chars: Length of the step's message in characters, by (conversation, step).
        counts: Number of answers that each claim is decided for.
    """

    claims: Mapping[tuple[int, int], Mapping[str, bool]]
    chars: Mapping[tuple[int, int], int]
    counts: Mapping[str, int]


def _judged_answers(
    project: Project, truth_by_id: Mapping[int, Mapping[str, Any]]
) -> _JudgedAnswers:
    """Reads the answers that truth judges one by one."""
    claims_by_step: dict[tuple[int, int], dict[str, bool]] = {}
    chars: dict[tuple[int, int], int] = {}
    counts: Counter[str] = Counter()
    judged = [key for key, truth in truth_by_id.items() if claims.judges_answers(truth)]
    for start in range(0, len(judged), CONVERSATIONS_PER_READ):
        with project.reading() as conn:
            page = conversations.conversations_for(
                conn, judged[start : start + CONVERSATIONS_PER_READ]
            )
        for key, messages in page:
            answers = [
                index for index, message in enumerate(messages) if message.role == "assistant"
            ]
            answer_claims = claims.of_answers(truth_by_id[key], len(answers))
            claims_of_message = dict(zip(answers, answer_claims, strict=True))
            for decided in answer_claims:
                counts.update(decided.keys())
            # truth counts messages, trees count steps: a piece of the log knows both
            for piece in render_log(messages):
                if piece.message in claims_of_message:
                    claims_by_step[key, piece.step] = claims_of_message[piece.message]
                    chars[key, piece.step] = len(messages[piece.message].content)
    return _JudgedAnswers(claims_by_step, chars, counts)


def config_name(config: TreeConfig) -> str:
    """Returns the title of a configuration, which begins with its shortened hash."""
    return (
        f"{config.config_hash[:SHORT_HASH]} (alpha {config.alpha:g}, {config.mode}, {config.place},"
        f" {config.model}{f' with {config.adapter}' if config.adapter else ''})"
    )


# As tables and as JSON


def tree_tables(validation: TreeValidation) -> list[ReportTable]:
    """Returns a table for each claim; no rows when a claim has one value for all."""
    return [_table(validation, table) for table in validation.tables]


def _table(validation: TreeValidation, table: ClaimTable) -> ReportTable:
    """Returns the comparison of all figures with one claim."""
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
            f" {validation.known[table.claim]:,} {_unit_of(table)} of which it is known",
            f"trees {config_name(validation.config)}",
        ),
    )


def _row(row: Ranked, table: ClaimTable) -> ReportRow:
    """Returns the row of one figure."""
    lacking = table.holds + table.fails - row.positives - row.negatives
    return ReportRow(
        (row.figure, row.area, row.average_precision),
        note=f"{lacking:,} have none" if lacking else "",
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


def _unit_of(table: ClaimTable) -> str:
    """Returns what the claim is about, in the plural."""
    return "answers" if table.claim in claims.OF_AN_ANSWER else "conversations"


def without_truth(validation: TreeValidation) -> str:
    """Explains why there is no table."""
    if validation.known:
        return "What is known of these conversations concerns none that has a tree."
    return (
        "Nothing is known of these conversations that trees could be held against: no reward, no completion, no"
        " answerability, no judged answers. Such truth comes with the import, in `truth`."
    )


def correlation_table(validation: TreeValidation) -> ReportTable:
    """Returns the correlations with the length, and of the two measures that Soroka et al. compare; JSON has all."""
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
            if _is_printed(pair)
        ),
    )


def _is_printed(pair: Pair) -> bool:
    """Whether a correlation is with the length, or between the two measures that Soroka et al. compare."""
    names = {FIGURES[name].base for name in (pair.first, pair.second)}
    return "length" in names or names == {"leaves", "-max_logprob"}


def _row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    """Returns a row as JSON values; the interval of AUROC is in `low` and `high` instead of `ci`."""
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
        "figures": {**MEASURES, **BASELINES},
        "truths": [
            {
                "claim": table.claim,
                "means": claims.CLAIMS[table.claim],
                "of": _unit_of(table),
                "known": validation.known[table.claim],
                "holds": table.holds,
                "fails": table.fails,
                "figures": [_row_as_json(report_table, row) for row in report_table.rows],
                **contrasts_json(table.contrasts),
                "conclusions": list(claim_conclusions(table)),
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
