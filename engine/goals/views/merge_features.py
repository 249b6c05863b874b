"""Features of pairs of groups, and the merge probability fitted to the decisions on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.goals.merges import merge_probability
from engine.goals.merges.merge_probability import NAMES, PRIOR, MergeModel, refit
from engine.goals.records import GoalDecision, Pair
from engine.goals.tables.answers import PairAnswer
from engine.goals.views.pair_table import Floats, PairTable


def pair_features(table: PairTable, pairs: Sequence[Pair]) -> Floats:
    """Features of each pair, shape (pairs, features), NaN where the model was not asked; see
    `engine.goals.merges.merge_probability`."""
    places = table.at(pairs)
    first, second = places
    answers = [table.answer(pair) for pair in pairs]

    def answered(field: Callable[[PairAnswer], float | None]) -> Floats:
        found = [None if answer is None else field(answer) for answer in answers]
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)

    return merge_probability.standardized(
        scaled_similarity=table.scaled_similarity[places],
        threshold=table.threshold,
        description=table.description[places],
        description_scale=table.description_scale,
        overlap=table.overlap[places],
        likelihood=answered(lambda answer: answer.likelihood_ratio),
        yes=answered(lambda answer: answer.yes),
        yes_reversed=answered(lambda answer: answer.yes_reversed),
        sizes=(table.sizes[first], table.sizes[second]),
    )


def fit_merge_model(decisions: Sequence[GoalDecision]) -> MergeModel:
    """Fits the merge probability to the decisions of people; decisions without stored features are ignored."""
    rows: list[list[float]] = []
    merged: list[bool] = []
    for decision in decisions:
        kept = (decision.evidence or {}).get("features")
        if decision.kind not in ("merge", "apart", "never") or decision.author != "human":
            continue
        if isinstance(kept, dict):
            values = (kept.get(name) for name in NAMES)
            rows.append([np.nan if value is None else float(value) for value in values])
            merged.append(decision.kind == "merge")
    return refit(PRIOR, np.array(rows, dtype=np.float64), merged)


def named_features(row: Floats) -> dict[str, float | None]:
    """The features of one pair by name, None for NaN, as they are stored with a decision."""
    values = (None if np.isnan(value) else float(value) for value in row)
    return dict(zip(NAMES, values, strict=True))
