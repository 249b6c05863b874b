"""The merge queue: undecided pairs of groups in an order, and the evidence for merging each."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.completeness.records.scores import StateCounts
from engine.goals.merges.merge_probability import MergeModel, ranked
from engine.goals.records import LIKELY, Evidence, GoalGroup, MergeOrder, Pair, Proposal
from engine.goals.views.merge_features import named_features, pair_features
from engine.goals.views.pair_table import Floats, PairTable
from engine.project import settings

LEAST_SIMILARITY = 0.0
"""Default of the least cosine of descriptions at which a pair is proposed. 0 proposes all pairs, also those with a
negative cosine: cosines of descriptions without a common word scatter around 0."""
ORDER: MergeOrder = "informative"
"""Default order. After 20 decisions in this order the merge probability can decide the rest (docs/results/goals.md)."""
SETTING = "desk"
"""Setting: `order` and `floor` of the merge desk: the chosen order, and the least similarity of a proposed pair."""
STORED_ORDERS: Mapping[MergeOrder, str] = {
    "similarity": "similarity",
    "probability": "probability",
    "informative": "teaching",
}
"""The name of each order in the setting. Projects keep the former name `teaching`."""
NEAREST = 3
"""Number of nearest other groups that a proposal lists for each of its groups."""


def queue_settings(conn: sqlite3.Connection) -> tuple[MergeOrder, float]:
    """Returns the stored order and least similarity; the default for a value that is missing or unknown."""
    found = settings.get(conn, SETTING, {})
    order = next((o for o, name in STORED_ORDERS.items() if name == found.get("order")), ORDER)
    least = found.get("floor")
    return order, float(least) if isinstance(least, int | float) else LEAST_SIMILARITY


def put_order(conn: sqlite3.Connection, order: MergeOrder) -> None:
    """Stores the order of the merge queue."""
    settings.put(conn, SETTING, {**settings.get(conn, SETTING, {}), "order": STORED_ORDERS[order]})


def put_least_similarity(conn: sqlite3.Connection, similarity: float) -> None:
    """Stores the similarity of descriptions below which no pair is proposed."""
    settings.put(conn, SETTING, {**settings.get(conn, SETTING, {}), "floor": similarity})


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A snapshot of the pairs of groups of a clustering, with the merge probability fitted to the decisions so far.

    Attributes:
        order: Order that the person chose.
        least_similarity: Similarity of descriptions below which a pair is not proposed.
    """

    table: PairTable
    model: MergeModel
    order: MergeOrder
    least_similarity: float

    def left(self, order: MergeOrder | None = None) -> list[Pair]:
        """Undecided pairs that are proposed, the next to decide first; None: the order that the person chose."""
        table, pairs = self.table, self._undecided()
        if not pairs:
            return []
        first, second = table.at(pairs)
        places = ranked(
            order or self.order,
            self.model,
            pair_features(table, pairs),
            table.description[first, second],
            table.sizes[first] * table.sizes[second] / table.sizes.sum() ** 2,
        )
        return [pairs[place] for place in places]

    def unasked(self) -> list[Pair]:
        """Proposed pairs that the model was not asked about, the next to decide first."""
        return [pair for pair in self.left() if not self.asked(pair)]

    def asked(self, pair: Pair) -> bool:
        """Whether the model was asked about a pair with the members that its groups have now."""
        return self.table.answer(pair) is not None

    def probabilities(self, pairs: Sequence[Pair]) -> Floats:
        """Merge probability of each pair, shape (pairs,)."""
        return self.model.probabilities(pair_features(self.table, pairs))

    def to_merge(self, pairs: Sequence[Pair]) -> tuple[float, tuple[float, float]]:
        """(expected number of these pairs that are one goal, its 90% range, widened to hold it)."""
        expected = float(self.probabilities(pairs).sum())
        low, high = self.model.count_range(pair_features(self.table, pairs))
        return expected, (min(low, expected), max(high, expected))

    def likely(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those of the pairs whose merge probability is at least `LIKELY`, in their order."""
        return [
            pair for pair, p in zip(pairs, self.probabilities(pairs), strict=True) if p >= LIKELY
        ]

    def evidence(self, pairs: Sequence[Pair]) -> list[Evidence]:
        """The evidence for and against merging each pair."""
        found = []
        table, features = self.table, pair_features(self.table, pairs)
        chances = self.model.probabilities(features)
        for pair, row, probability in zip(pairs, features, chances, strict=True):
            first, second = (table.place[key] for key in pair)
            evidence = Evidence(
                float(probability),
                float(table.description[first, second]),
                float(table.member[first, second]),
                float(table.overlap[first, second]),
                features=named_features(row),
                member_threshold=float(table.member_threshold[first, second]),
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

    def proposals(
        self, pairs: Sequence[Pair], groups: Sequence[GoalGroup], why: str
    ) -> list[Proposal]:
        """A proposal for each pair.

        Args:
            groups: The current groups of the clustering.
            why: Why these pairs are proposed, in words.
        """
        rows = {row.id: row for row in groups}
        return [
            Proposal(
                rows[a],
                rows[b],
                evidence,
                self.table.nearest(a, b, NEAREST),
                self.table.nearest(b, a, NEAREST),
                _states_of_both(rows[a].states, rows[b].states),
                why,
            )
            for (a, b), evidence in zip(pairs, self.evidence(pairs), strict=True)
        ]

    def _undecided(self) -> list[Pair]:
        pairs = self.table.open_pairs
        if not pairs or self.least_similarity <= 0:
            return pairs
        high = self.table.description[self.table.at(pairs)] >= self.least_similarity
        return [pair for pair, wanted in zip(pairs, high, strict=True) if wanted]


def _states_of_both(a: StateCounts, b: StateCounts) -> StateCounts:
    return StateCounts(
        a.complete + b.complete,
        a.incomplete + b.incomplete,
        a.borderline + b.borderline,
        a.unscored + b.unscored,
        a.above + b.above,
    )
