"""Features of a pair of groups, the inputs of the merge probability.

Each is scaled so that 0 is neither for nor against and a unit is a clear difference, on any data and with any
embedder: closeness is measured from the threshold that `granularity` found for these clusters, cosines of descriptions
from the median over these. The prior weights below were set by hand on public sets and say that closeness decides until
people or a model have said something; docs/results/goals.md has what they reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.goals.merges.merge_probability import Floats, Prior

NAMES = ("closeness", "description", "overlap", "likelihood", "yes", "size")
PRIOR = Prior(
    NAMES,
    means=(0.0, 1.2, 0.15, 0.3, 0.5, 0.1, 0.0),
    deviations=(2.0, 0.4, 0.15, 0.2, 0.3, 0.1, 0.2),
)
"""The yes of a small model is near chance (AUROC .54 on pairs of clusters of a public set), so it starts with little
weight and gains more as it agrees with decisions. The intercept has the widest prior, so decisions move it first.
"""

CLOSENESS_UNIT = 0.1
NATS_UNIT = 0.1
OVERLAP_USUAL = 0.1
"""Share of neighbours in the other group that is neither for nor against a merge."""
OVERLAP_LEAST = 0.02
WIDEST = 10.0
"""Features are clipped at so many units, so that no single one outweighs all others."""
LEAST_SPREAD = 1e-6

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Median and robust deviation of a measure over pairs, most of which are different goals."""

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
        if spread < LEAST_SPREAD:  # most of them are equal, as where most groups share no word
            spread = max(LEAST_SPREAD, float(known.std()))
        return cls(middle, spread)


def features(
    *,
    closeness: Floats,
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
        closeness, threshold: See `engine.goals.clusters.granularity`.
        description: Cosines of the descriptions.
        description_scale: Of these cosines over all pairs of the original clusters, so that merging does not shift it.
        overlap: Share of the members of one whose neighbours lie in the other, the larger of both ways.
        likelihood: Likelihood ratios, nats a token.
        yes, yes_reversed: Probability of the model's yes in both orders.
        sizes: Members of both sides.
    """
    found = np.empty((len(closeness), len(NAMES)))
    found[:, 0] = (closeness - threshold) / CLOSENESS_UNIT
    found[:, 1] = (description - description_scale.middle) / description_scale.spread
    found[:, 2] = np.log2((overlap + OVERLAP_LEAST) / (OVERLAP_USUAL + OVERLAP_LEAST))
    found[:, 3] = likelihood / NATS_UNIT
    found[:, 4] = (_logit(yes) + _logit(yes_reversed)) / 2
    found[:, 5] = np.log(np.minimum(*sizes) / np.maximum(*sizes))
    clipped: Floats = np.clip(found, -WIDEST, WIDEST)
    return clipped


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, 1e-3, 1 - 1e-3)
    found: Floats = np.log(inside / (1 - inside))
    return found
