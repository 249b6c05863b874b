"""Measures time and memory of clustering, compared with plain scikit-learn on the same vectors."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import WorkbenchError
from tests.benchmarks.tool import REPOSITORY

SIZES = (1_000, 10_000, 100_000)
TASKS = ("propose_k", "cluster", "sklearn")


def bench_goals(
    progress: Callable[[str], None], *, sizes: Sequence[int] = SIZES, seconds: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Makes vectors with a structure that is known and measures each task in a process of its own.

    Args:
        sizes: Numbers of vectors, rising.
        seconds: Time for all; a size is left out when it is not likely to end in time, as long as the one before took.

    Returns:
        For each size, by its number as text: `dimensions`, `goals` (clusters that are there), `k` (clusters asked for),
        and of each task `seconds` and `peak_mb`, the most memory that its process had (10^6 bytes, with the pages of
        the vectors that it mapped). Tasks are `propose_k`; `cluster` and `sklearn` (its KMeans, from
        `kmeans.FULL_BATCH_ROWS` rows on its MiniBatchKMeans), also with `inertia` (mean cosine distance to the
        nearest center), `homogeneity` and `v_measure` (with the goals that are there). `speedup` is the ratio of the
        times of these two.
    """
    end = time.monotonic() + seconds
    found: dict[str, dict[str, Any]] = {}
    each = 0.0
    for size in sizes:
        began = time.monotonic()
        if found and began + each * size > end:
            progress(f"no time for {size:,} vectors")
            break
        found[str(size)] = _measured(size, progress)
        each = (time.monotonic() - began) / size
    return found


def _measured(rows: int, progress: Callable[[str], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        progress(f"making {rows:,} vectors")
        found = _task("make", Path(name), rows)
        for task in TASKS:
            progress(f"{task}, {rows:,} vectors")
            found[task] = _task(task, Path(name), rows)
    found["speedup"] = found["sklearn"]["seconds"] / found["cluster"]["seconds"]
    return found


def _task(task: str, folder: Path, rows: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.parts.goals_times",
        task,
        str(folder),
        str(rows),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    if done.returncode != 0:
        last = done.stderr.strip().rsplit("\n", 1)[-1]
        raise WorkbenchError(f"{task} on {rows:,} vectors failed: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
