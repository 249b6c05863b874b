"""Features of a pair of groups, the inputs of the merge probability.

Each is scaled so that 0 is neutral and 1 is a clear difference, on any data and with any embedder: the scaled
similarity of members is measured from the threshold that `granularity` found for these clusters, the cosine of
descriptions from its median. The prior weights below were set by hand on public data sets: similarity dominates until
there are decisions or answers of a model. docs/lab/goals.md has the results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.goals.merges.merge_probability import Floats, Prior

NAMES = ("closeness", "description", "overlap", "likelihood", "yes", "size")
PRIOR = Prior(
    NAMES,
    means=(0.0, 1.2, 0.15, 0.3, 0.5, 0.1, 0.0),
    deviations=(2.0, 0.4, 0.15, 0.2, 0.3, 0.1, 0.2),
    leeway=1.5,
)
"""Prior of the intercept and of the weights. The yes of a small model is near chance (AUROC .54 on pairs of clusters of
a public set), so it starts with little weight, which grows when it agrees with decisions. The intercept has the widest
prior, so decisions move it first. The first name is `closeness`, the name under which it is stored. Before any
decision, all other features together count for no more than .15 of scaled similarity (`leeway`)."""

SIMILARITY_UNIT = 0.1
NATS_UNIT = 0.1
NEUTRAL_OVERLAP = 0.1
"""Share of neighbours in the other group at which the feature is 0."""
MIN_OVERLAP = 0.02
WIDEST = 10.0
"""Features are clipped to this absolute value, so that none outweighs all others."""
MIN_SPREAD = 1e-6


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Median and robust standard deviation of a measure over pairs of groups, most of which are different goals."""

    middle: float
    spread: float

    @classmethod
    def of(cls, values: Floats) -> RobustScale:
        """Median and 1.4826 times the median absolute deviation; NaN values are left out."""
        known = values[~np.isnan(values)]
        if not len(known):
            return cls(0.0, 1.0)
        middle = float(np.median(known))
        spread = 1.4826 * float(np.median(np.abs(known - middle)))
        if spread < MIN_SPREAD:  # most values are equal, for example when most groups share no word
            spread = max(MIN_SPREAD, float(known.std()))
        return cls(middle, spread)


def features(
    *,
    scaled_similarity: Floats,
    threshold: float,
    description: Floats,
    description_scale: RobustScale,
    overlap: Floats,
    likelihood: Floats,
    yes: Floats,
    yes_reversed: Floats,
    sizes: tuple[Floats, Floats],
) -> Floats:
    """Features of pairs, shape (pairs, len(NAMES)), NaN where an input is NaN. All arrays have shape (pairs,).

    Args:
        scaled_similarity, threshold: See `engine.goals.clusters.granularity`.
        description: Cosines of the descriptions.
        description_scale: Scale of these cosines over all pairs of the original clusters, so that merges do not shift
            it.
        overlap: Share of the neighbours of one group's members that are in the other; the larger of both directions.
        likelihood: Likelihood ratios, nats per token.
        yes, yes_reversed: Probability that the model answers yes, in both orders of the pair.
        sizes: Number of members of the first and of the second groups.
    """
    found = np.empty((len(scaled_similarity), len(NAMES)))
    found[:, 0] = (scaled_similarity - threshold) / SIMILARITY_UNIT
    found[:, 1] = (description - description_scale.middle) / description_scale.spread
    found[:, 2] = np.log2((overlap + MIN_OVERLAP) / (NEUTRAL_OVERLAP + MIN_OVERLAP))
    found[:, 3] = likelihood / NATS_UNIT
    found[:, 4] = (_logit(yes) + _logit(yes_reversed)) / 2
    found[:, 5] = np.log(np.minimum(*sizes) / np.maximum(*sizes))
    clipped: Floats = np.clip(found, -WIDEST, WIDEST)
    return clipped


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, 1e-3, 1 - 1e-3)
    found: Floats = np.log(inside / (1 - inside))
    return found
