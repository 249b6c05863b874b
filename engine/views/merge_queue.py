"""Which pairs of groups are left to decide, in which order, and what is known of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from engine.goals.merges.merge_probability import MergeModel
from engine.goals.merges.order import ranked
from engine.records.goals import DeskOrder, Evidence, Pair
from engine.store import settings
from engine.views.merge_features import named_features, pair_features
from engine.views.pair_table import PairTable

FLOOR = 0.0
"""Similarity of descriptions from which a pair is proposed, until a person chooses another. At 0 none is left out: of
words that have nothing in common half of the cosines are a little below it, which says nothing against a pair."""
ORDER: DeskOrder = "teaching"
"""After 20 decisions in this order the rest can be left to the merge probability (docs/results/goals.md)."""
DESK = "desk"
"""Setting with the order and the floor that were chosen."""


def chosen(conn: sqlite3.Connection) -> tuple[DeskOrder, float]:
    """The order and the floor; what another version of the program may have written counts as absent."""
    found = settings.get(conn, DESK, {})
    orders: tuple[DeskOrder, ...] = get_args(DeskOrder)
    order = next((known for known in orders if known == found.get("order")), ORDER)
    floor = found.get("floor")
    return order, float(floor) if isinstance(floor, int | float) else FLOOR


def undecided(table: PairTable, floor: float) -> list[Pair]:
    """Undecided pairs whose descriptions are at least so similar; all of them for a floor of 0."""
    pairs = table.open_pairs
    if not pairs or floor <= 0:
        return pairs
    high = table.description[table.at(pairs)] >= floor
    return [pair for pair, wanted in zip(pairs, high, strict=True) if wanted]


def queued(
    table: PairTable, model: MergeModel, pairs: Sequence[Pair], order: DeskOrder
) -> list[Pair]:
    """The pairs in the order in which they are to be decided."""
    if not pairs:
        return []
    first, second = table.at(pairs)
    masses = table.sizes[first] * table.sizes[second] / table.sizes.sum() ** 2
    rows = pair_features(table, pairs)
    places = ranked(order, model, rows, table.description[first, second], masses)
    return [pairs[place] for place in places]


def evidence_of(table: PairTable, model: MergeModel, pairs: Sequence[Pair]) -> list[Evidence]:
    """What speaks for and against merging each pair."""
    if not pairs:
        return []
    found = []
    features = pair_features(table, pairs)
    for pair, row, probability in zip(pairs, features, model.probabilities(features), strict=True):
        first, second = (table.place[key] for key in pair)
        evidence = Evidence(
            float(probability),
            float(table.description[first, second]),
            float(table.member[first, second]),
            float(table.overlap[first, second]),
            features=named_features(row),
        )
        answer = table.answer(pair)
        if answer is not None:
            evidence = replace(
                evidence,
                likelihood_ratio=answer.likelihood_ratio,
                yes=answer.yes,
                yes_reversed=answer.yes_reversed,
                reason=answer.reason,
                label=answer.label,
                description=answer.description,
                model=answer.model,
            )
        found.append(evidence)
    return found
