"""Whether scores are probabilities: at every boundary of every conversation, how often it is the last one.

Training with balance weighs the end of a conversation as much as all the places where it goes on, and a probe is fitted
at even odds too. Their scores are probabilities of an end if ends were as frequent as other boundaries; `at_share`
turns them into probabilities at the odds of the data.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.base.statistics.classification import classify
from engine.base.statistics.weighted import Floats
from engine.results.metrics.completeness import Place, Values
from engine.results.records import BoundaryRow


def at_share(p: Floats, share: float) -> Floats:
    """Returns the probabilities of an end where ends are this share of all boundaries (prior correction: Saerens,
    Latinne & Decaestecker 2002, Adjusting the outputs of a classifier to new a priori probabilities).

    Args:
        p: Probabilities at even odds, in [0, 1].
        share: Share of ends, in (0, 1).
    """
    ends, others = p * share, (1 - p) * (1 - share)
    return np.asarray(ends / (ends + others), dtype=np.float64)


def boundary_rows(
    ways: Mapping[str, Values], where: Mapping[int, Place]
) -> tuple[BoundaryRow, ...]:
    """Returns a row for each scoring, over the boundaries of the conversations that can be cut.

    Args:
        where: Result of `engine.results.metrics.completeness.places` for these scorings.
    """
    cuttable = {key: place for key, place in where.items() if place.cut is not None}
    found = []
    for name, way in ways.items():
        known = [
            (value, message == place.last, key)
            for key, place in cuttable.items()
            for message in place.boundaries
            if (value := way[key][message]) is not None
        ]
        values = np.array([value for value, _, _ in known])
        ends = [end for _, end, _ in known]
        groups = [key for _, _, key in known]
        share = sum(ends) / len(ends)
        given, fixed = (
            classify(one.tolist(), ends, groups).ece for one in (values, at_share(values, share))
        )
        found.append(BoundaryRow(name, len(known), share, float(values.mean()), given, fixed))
    return tuple(found)
