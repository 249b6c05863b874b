"""One task on many vectors, timed: `python -m tests.benchmarks.parts.goals_times TASK FOLDER ROWS` prints JSON.

Each task has its own process, so that the measured memory is that of the task alone.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.kmeans import FULL_BATCH_ROWS, RESTARTS, find_closest, propose_k
from engine.model.embedders.vectors import Numbers, Vectors, blocks, unit_rows

DIMENSIONS, INNER = 384, 48
"""Dimensions of the vectors, as many as MiniLM has."""
MOST_GOALS = 200
SEED = 5

Found = TypeVar("Found")


def make(folder: Path, rows: int) -> dict[str, Any]:
    """Writes unit vectors around goals of very different sizes, as texts lie in the space of an embedder: one common
    direction, goals of which some are close, and members that spread in few directions."""
    rng = np.random.default_rng(SEED)
    goals = min(MOST_GOALS, max(4, rows // 40))
    frame = np.linalg.qr(rng.standard_normal((DIMENSIONS, INNER)))[0].T.astype(np.float32)
    families = rng.standard_normal((1 + goals // 5, INNER))
    centers = families[rng.integers(len(families), size=goals)]
    centers = centers + 0.9 * rng.standard_normal((goals, INNER))
    shares = 1 / np.arange(1, goals + 1) ** 0.7
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", "w+", dtype=np.float32, shape=(rows, DIMENSIONS)
    )
    truth = np.empty(rows, dtype=np.int32)
    for part in blocks(rows):
        size = part.stop - part.start
        truth[part] = rng.choice(goals, size=size, p=shares / shares.sum())
        inner = 1.5 + centers[truth[part]] + 0.8 * rng.standard_normal((size, INNER))
        outer = 0.25 * rng.standard_normal((size, DIMENSIONS))
        vectors[part] = unit_rows(inner @ frame + outer)
    vectors.flush()
    np.save(folder / "truth.npy", truth)
    return {"rows": rows, "dimensions": DIMENSIONS, "goals": goals, "k": _k(goals)}


def time_propose_k(vectors: Vectors, truth: Numbers) -> dict[str, Any]:
    """Proposes how many clusters to begin with."""
    found, cost = _timed(lambda: propose_k(vectors, SEED))
    return {**cost, "proposed": found}


def time_cluster(vectors: Vectors, truth: Numbers) -> dict[str, Any]:
    """Clusters as the program does."""
    k = _k(int(truth.max()) + 1)
    found, cost = _timed(lambda: cluster(vectors, k, SEED))
    return {**cost, **_quality(vectors, found.centers, truth)}


def time_sklearn(vectors: Vectors, truth: Numbers) -> dict[str, Any]:
    """Clusters with scikit-learn as it comes: as many attempts for few rows, its own number for many."""
    from sklearn.cluster import KMeans, MiniBatchKMeans

    k = _k(int(truth.max()) + 1)
    if len(vectors) > FULL_BATCH_ROWS:
        method: Any = MiniBatchKMeans(k, random_state=SEED)
    else:
        method = KMeans(k, n_init=RESTARTS, random_state=SEED)
    _, cost = _timed(lambda: method.fit(vectors))
    return {**cost, **_quality(vectors, unit_rows(method.cluster_centers_), truth)}


TASKS: dict[str, Callable[[Vectors, Numbers], dict[str, Any]]] = {
    "propose_k": time_propose_k,
    "cluster": time_cluster,
    "sklearn": time_sklearn,
}


def _k(goals: int) -> int:
    return goals * 3 // 2


def _timed(work: Callable[[], Found]) -> tuple[Found, dict[str, Any]]:
    began = time.perf_counter()
    found = work()
    return found, {"seconds": time.perf_counter() - began, "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _quality(vectors: Vectors, centers: Vectors, truth: Numbers) -> dict[str, float]:
    from sklearn.metrics import homogeneity_score, v_measure_score

    labels, cosines = find_closest(vectors, centers)
    return {
        "inertia": float(1 - cosines.mean(dtype=np.float64)),
        "homogeneity": float(homogeneity_score(truth, labels)),
        "v_measure": float(v_measure_score(truth, labels)),
    }


if __name__ == "__main__":
    task, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if task == "make":
        result = make(folder, rows)
    else:
        result = TASKS[task](
            np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "truth.npy")
        )
    print(json.dumps(result))
