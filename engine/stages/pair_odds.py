"""The merge probability of pairs of groups, learned from what people decided on this clustering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.goal_rows import DeskDecision, Pair
from engine.goals.merging import MergeModel, Prior, refit
from engine.stages.pair_table import Floats, PairTable

NAMES = ("description", "member", "overlap", "likelihood", "yes", "size")
PRIOR = Prior(NAMES, (-3.0, 0.4, 0.8, 0.6, 1.0, 0.2, 0.0), (1.0, 0.3, 0.3, 0.3, 0.5, 0.2, 0.3))
_WIDEST = 6.0
_NATS = 0.1


def features(table: PairTable, pairs: Sequence[Pair]) -> Floats:
    """What speaks for merging each pair, shape (pairs, features), NaN where it was not asked.

    Cosines and overlaps in robust deviations from what is usual between the groups that stand, so that a value means
    the same for any embedder.
    """
    first, second = table.at(pairs)
    found = np.full((len(pairs), len(NAMES)), np.nan)
    for column, matrix in enumerate(table.standardised):
        found[:, column] = np.clip(matrix[first, second], -_WIDEST, _WIDEST)
    for row, pair in enumerate(pairs):
        answer = table.answer(pair)
        if answer is None:
            continue
        if answer.likelihood_ratio is not None:
            found[row, 3] = np.clip(answer.likelihood_ratio / _NATS, -_WIDEST, _WIDEST)
        said = [p for p in (answer.yes, answer.yes_reversed) if p is not None]
        if said:
            mean = np.clip(np.mean(said), 1e-3, 1 - 1e-3)
            found[row, 4] = np.log(mean / (1 - mean))
    found[:, 5] = np.log(np.minimum(table.sizes[first], table.sizes[second]) / table.sizes.mean())
    return found


def learned(decisions: Sequence[DeskDecision]) -> MergeModel:
    """The model after what people decided and stands; decisions that no features were kept of teach nothing."""
    taught = [
        (decision.evidence["features"], decision.kind == "merge")
        for decision in decisions
        if decision.kind in ("merge", "apart", "never")
        and decision.author == "human"
        and decision.evidence is not None
        and len(decision.evidence.get("features", ())) == len(NAMES)
    ]
    rows = [[np.nan if value is None else value for value in row] for row, _ in taught]
    return refit(PRIOR, np.array(rows, dtype=np.float64), [merged for _, merged in taught])


def kept_features(row: Floats) -> list[float | None]:
    """Features as they are stored beside a decision."""
    return [None if np.isnan(value) else float(value) for value in row]
