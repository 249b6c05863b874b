"""Stability: high for real clusters, low for arbitrary cuts; a measurement can be resumed."""

from __future__ import annotations

import numpy as np
import pytest

from engine.goals.clusters.clustering import cluster
from engine.goals.stages.validation import DISSOLVED, STABLE, Kind, Repetition, stability_run
from engine.model.embedders.vectors import Numbers, Vectors, unit_rows
from tests.engine.goals.groups import grouped


def repeated(
    vectors: Vectors, labels: Numbers, k: int, seed: int, *, seeds: int, bootstraps: int
) -> list[Repetition]:
    """So many repetitions of each kind."""
    wanted: list[tuple[Kind, int]] = [("seed", number) for number in range(seeds)]
    wanted += [("bootstrap", number) for number in range(bootstraps)]
    return [stability_run(vectors, labels, k, seed, kind, number) for kind, number in wanted]


def mean_jaccard(repetitions: list[Repetition]) -> list[float]:
    """The mean Jaccard similarity of each cluster over the bootstraps that have it."""
    values = [r.jaccard for r in repetitions if r.kind == "bootstrap"]
    return [
        float(np.mean([v for v in each if v is not None])) for each in zip(*values, strict=True)
    ]


def mean_ari(repetitions: list[Repetition], kind: Kind) -> float:
    """The mean adjusted Rand index of the repetitions of a kind."""
    return float(np.mean([r.ari for r in repetitions if r.kind == kind]))


class TestRepetitions:
    def test_groups_come_again(self) -> None:
        """Well separated groups are found again with other seeds and in bootstraps."""
        vectors, _ = grouped(5, 40)
        labels = cluster(vectors, 5).labels
        found = repeated(vectors, labels, 5, 0, seeds=2, bootstraps=4)
        assert mean_ari(found, "seed") == pytest.approx(1, abs=0.02)
        assert mean_ari(found, "bootstrap") == pytest.approx(1, abs=0.05)
        assert min(mean_jaccard(found)) > STABLE

    def test_arbitrary_cuts_do_not(self) -> None:
        """A cloud without groups is cut differently each time."""
        vectors = unit_rows(np.random.default_rng(0).standard_normal((300, 12)))
        labels = cluster(vectors, 8).labels
        found = repeated(vectors, labels, 8, 0, seeds=2, bootstraps=4)
        assert mean_ari(found, "seed") < 0.5
        assert sum(value < DISSOLVED for value in mean_jaccard(found)) > 5
