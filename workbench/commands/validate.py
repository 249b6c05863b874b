"""`workbench validate`."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.conversation import render_log
from engine.errors import UsageError
from engine.filters import ListQuery
from engine.store import conversations, imports, trees
from engine.store.project import Project
from engine.store.trees import TreeConfig
from engine.validate import truths
from engine.validate.interval import Interval
from engine.validate.tables import ClaimTable, Pair, claim_tables, pairs
from engine.validate.uncertainty import BASELINES, MEASURES, Case, by_conversation, figures_of
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import say, show, tell
from workbench.exits import DONE
from workbench.services import Workspace

SHORT_HASH = 12
"""Characters of a config hash that are printed; so many or more name it."""
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class TreeValidation:
    """What the trees of one configuration say of truth.

    Attributes:
        wanted: Conversations that were asked for.
        conversations: Those among them that have a tree.
        grown: Trees.
        leaves: Their median; 0 without any.
        known: For each claim the conversations or answers for which it is known, with a tree or without.
        tables: For each claim that is known of something with a tree.
        pairs: How the figures of conversations go together.
    """

    config: TreeConfig
    wanted: int
    conversations: int
    grown: int
    leaves: float
    known: Mapping[str, int]
    tables: tuple[ClaimTable, ...]
    pairs: tuple[Pair, ...]


def validate(arguments: argparse.Namespace) -> int:
    """Holds the figures of what was grown against what is known from elsewhere.

    Raises:
        UsageError: There are no trees, or the filter or the configuration cannot be understood.
    """
    query = ListQuery(asked_filter(arguments.filter))
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        found = tree_validation(workspace.project, query, arguments.config)
    if not found.tables:
        tell(_without_truth(found))
    if arguments.json:
        show(_as_json(found))
    else:
        say("\n".join(_lines(found)))
    return DONE


def tree_validation(
    project: Project, query: ListQuery, config_hash: str | None = None
) -> TreeValidation:
    """Reads trees and truth, and holds one against the other.

    Args:
        config_hash: Or its beginning; None: the trees that are shown.

    Raises:
        UsageError: There are no trees, or none of this configuration.
    """
    with project.reading() as conn:
        config = _config([one for one, _ in trees.configs(conn)], config_hash or trees.chosen(conn))
        wanted = frozenset(conversations.ids(conn, query))
        rows = [
            row
            for row in trees.measures(conn, config.config_hash)
            if row.conversation_id in wanted and row.reason is None
        ]
        known = [(key, truth) for key, truth in imports.truths(conn) if key in wanted]
        lengths = _lengths(project, sorted({row.conversation_id for row in rows}))
    about = {key: truths.of_conversation(truth) for key, truth in known}
    of_steps, answers = _of_steps(project, dict(known))
    at_answers = config.place != "end"
    cases = [
        Case(
            row.conversation_id,
            figures_of(row, lengths[row.conversation_id]),
            of_steps.get((row.conversation_id, row.step), {}) if at_answers else {},
        )
        for row in rows
    ]
    whole = by_conversation(cases, about)
    of_conversations = [claim for claim in truths.CLAIMS if claim not in truths.OF_AN_ANSWER]
    counts = {claim: sum(claim in one for one in about.values()) for claim in of_conversations}
    return TreeValidation(
        config,
        len(wanted),
        len(whole),
        len(rows),
        statistics.median(row.leaves for row in rows) if rows else 0,
        {name: count for name, count in {**counts, **answers}.items() if count},
        (
            *claim_tables(whole, of_conversations),
            *claim_tables(cases, sorted(truths.OF_AN_ANSWER)),
        ),
        tuple(pairs(whole)),
    )


def _config(configs: Sequence[TreeConfig], wanted: str | None) -> TreeConfig:
    if not configs:
        raise UsageError("The project has no response trees.", "`workbench run trees` grows them.")
    found = [one for one in configs if one.config_hash.startswith(wanted or "")]
    if len(found) != 1:
        raise UsageError(
            f"{len(found) or 'No'} configurations of trees begin with {wanted!r}.",
            "There are: " + ", ".join(_named(one) for one in configs) + ".",
        )
    return found[0]


def _lengths(project: Project, keys: Sequence[int]) -> dict[int, int]:
    with project.reading() as conn:
        return {
            row.id: row.chars
            for at in range(0, len(keys), ROWS_AT_ONCE)
            for row in conversations.rows(conn, keys[at : at + ROWS_AT_ONCE])
        }


def _of_steps(
    project: Project, known: Mapping[int, Mapping[str, Any]]
) -> tuple[dict[tuple[int, int], dict[str, bool]], dict[str, int]]:
    """The claims about each assistant step, and how many answers there are for each claim."""
    found: dict[tuple[int, int], dict[str, bool]] = {}
    counts: dict[str, int] = {}
    judged = [key for key, truth in known.items() if truths.judges_answers(truth)]
    for at in range(0, len(judged), ROWS_AT_ONCE):
        with project.reading() as conn:
            page = conversations.conversations_for(conn, judged[at : at + ROWS_AT_ONCE])
        for key, messages in page:
            said = [n for n, message in enumerate(messages) if message.role == "assistant"]
            claims = dict(zip(said, truths.of_answers(known[key], len(said)), strict=True))
            for one in claims.values():
                for claim in one:
                    counts[claim] = counts.get(claim, 0) + 1
            for piece in render_log(messages):
                if piece.message in claims:
                    found[key, piece.step] = claims[piece.message]
    return found, counts


def _without_truth(found: TreeValidation) -> str:
    if found.known:
        return "What is known of these conversations concerns none that has a tree."
    return (
        "Nothing is known of these conversations that trees could be held against: no reward, no completion, no"
        " answerability, no judged answers. Such truth comes with the import, in `truth`."
    )


def _named(config: TreeConfig) -> str:
    return (
        f"{config.config_hash[:SHORT_HASH]} (alpha {config.alpha:g}, {config.mode}, {config.place},"
        f" {config.model}{f' with {config.adapter}' if config.adapter else ''})"
    )


# As text


def _lines(found: TreeValidation) -> list[str]:
    lines = [
        f"trees          {_named(found.config)}",
        f"               {found.grown:,} trees of {found.conversations:,} conversations,"
        f" {found.wanted:,} asked for; median of {found.leaves:g} leaves",
    ]
    for table in found.tables:
        lines += ["", *_table_lines(table, found.known[table.claim])]
    shown = [pair for pair in found.pairs if _is_of_the_paper(pair)]
    if shown:
        lines += ["", f"{'correlations over conversations':<59}Spearman  95%          Pearson"]
        lines += [
            f"  {f'{pair.first} and {pair.second}':<57}{_short(pair.found.spearman.value):>8}"
            f"  {_ends(pair.found.spearman):<13}{_short(pair.found.pearson):>7}"
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
    chance = f"(by chance .50 and {_short(table.holds / covered)})"
    lines.append(f"  {'':<32}{'AUROC':>6}  {'95%':<13}{'AP':>6}  {chance}")
    for row in table.rows:
        lacking = covered - row.positives - row.negatives
        lines.append(
            f"  {row.figure:<32}{_short(row.area.value):>6}  {_ends(row.area):<13}"
            f"{_short(row.average_precision):>6}" + (f"  {lacking:,} have none" if lacking else "")
        )
    return lines


def _is_of_the_paper(pair: Pair) -> bool:
    """With the length, or of the two figures that the paper compares; `--json` has all."""
    names = {name.split()[0] for name in (pair.first, pair.second)}
    return "length" in names or names == {"leaves", "-max_logprob"}


def _ends(interval: Interval) -> str:
    return f"{_short(interval.low)} to {_short(interval.high)}"


def _short(value: float) -> str:
    """A number in [-1, 1] with two digits and without its zero: `-.25`."""
    text = f"{value:.2f}"
    return text if abs(value) >= 0.995 else text.replace("0.", ".", 1).replace("-.00", ".00")


# As JSON


def _as_json(found: TreeValidation) -> dict[str, Any]:
    return {
        "trees": {
            **asdict(found.config),
            "asked_for": found.wanted,
            "conversations": found.conversations,
            "trees": found.grown,
            "median_leaves": found.leaves,
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
                        "average_precision": row.average_precision,
                    }
                    for row in table.rows
                ],
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
