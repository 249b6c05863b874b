"""Measures how fast the watch scores logs that grow, compared with reading each log anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from engine.completeness.scoring import BoundaryScorer
from engine.completeness.stages.reading_states import QUESTION
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from tests.benchmarks.parts.datasets import long_items
from tests.benchmarks.parts.opened_model import opened
from tests.benchmarks.parts.scoring_times import bench_growing
from tests.benchmarks.parts.tuning import tuned_entry

LOGS, TURNS = 2, 6


def bench_watch(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    logs: int = LOGS,
    turns: int = TURNS,
    most: int = 3,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Reads sample conversations turn by turn as a watch does.

    Args:
        logs, turns: Conversations that grow side by side, and the boundaries of each.
        most, seconds: Rounds, and time for them.

    Returns:
        The figures of `tests.benchmarks.parts.scoring_times.bench_growing`, and `model`, which says what ran. What the
        watch does besides, such as imports, is not in them.
    """
    tuned_entry(catalog, process, progress)
    model = catalog.loadable(catalog.entry(None))
    with opened(model) as weights:
        figures = bench_growing(
            BoundaryScorer(weights), long_items(logs, turns), QUESTION, most, seconds, progress
        )
    return {"model": model.label, **figures}
