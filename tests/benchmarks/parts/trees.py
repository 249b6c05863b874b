"""Measures the speed of growing response trees, compared with one sequence at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from engine.base.conversation import render_log
from engine.base.errors import UsageError
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.simulate.demo import sample_conversations
from engine.trees.model_requests import find_places
from engine.trees.records import TreeOptions
from tests.benchmarks.parts.opened_model import opened
from tests.benchmarks.parts.tree_times import time_trees
from tests.benchmarks.parts.tuning import tuned_entry

OPTIONS = TreeOptions(alpha=0.003, max_tokens=32, stop=("\n",))
AT_ONCE = 8
"""Trees of a round; a run grows 4 to 16 together, see `engine.jobs.contract`."""

LEAST_CHARS = 900
"""About 300 tokens of log."""


def bench_trees(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    prompts: int = 24,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Grows trees before the last answers of long sample conversations, `AT_ONCE` in a round.

    Args:
        prompts: Most trees.
        seconds: Time for all rounds.

    Returns:
        The figures of `tests.benchmarks.parts.tree_times`, and `speedup_over_sequential`, `overhead_over_raw`.
    """
    tuned_entry(catalog, process, progress)
    model = catalog.loadable(catalog.entry(None))
    with opened(model) as weights:
        figures = time_trees(weights, tree_prompts(prompts), OPTIONS, AT_ONCE, seconds, progress)
    return {
        "model": model.label,
        **figures,
        "speedup_over_sequential": figures["sequential_seconds"] / figures["seconds"],
        "overhead_over_raw": figures["seconds"] / figures["raw_decode_seconds"],
    }


def tree_prompts(count: int) -> list[str]:
    """Logs of sample conversations before their last answers, at least about 300 tokens each."""
    made: list[str] = []
    for conversation in sample_conversations(12 * count):
        try:
            (place,) = find_places(render_log(conversation.messages), "last-answer")
        except UsageError:
            continue
        text = "".join(place.texts)
        if len(text) >= LEAST_CHARS:
            made.append(text)
    return made[:count]
