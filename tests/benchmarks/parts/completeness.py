"""Measures the speed of scoring boundaries, compared with plain decoding and with one prompt per boundary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from engine.completeness.records import Mode
from engine.completeness.scoring import BoundaryScorer
from engine.completeness.stages.scoring import question_for
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import parse_prompt, prompt_text
from tests.benchmarks.parts.datasets import long_items, scoring_blocks
from tests.benchmarks.parts.opened_model import opened
from tests.benchmarks.parts.scoring_times import bench_prompts, bench_scoring
from tests.benchmarks.parts.tuning import tuned_entry

SECONDS = 5
"""Length of what is scored once, in seconds of bare decoding, where the time allows it."""

PASSES = 30
"""Times that what is scored once is read by one round of everything, with some room."""

LEAST_TOKENS, MOST_TOKENS = 500, 12_000
CHARS_PER_TOKEN = 2.33

LONG, TURNS = 1, 10

MODES: tuple[tuple[Mode, str], ...] = (("probe", "probe_"), ("tuned", ""), ("base", "base_"))


def bench_completeness(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    chars: int | None = None,
    long: int = LONG,
    turns: int = TURNS,
    rounds: int = 3,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Scores sample conversations in the modes `probe`, `tuned` and `base`.

    Args:
        chars: How much is scored against bare decoding; None takes what the model reads in `SECONDS`, or less where
            the time is short.
        long, turns: Conversations, and boundaries in each, that are scored against one prompt per boundary.
        rounds, seconds: Most rounds of each comparison, and time for all of them.

    Returns:
        For mode `tuned` the figures of `scoring_times`: `tokens_per_s`, `raw_decode_tokens_per_s`, `fraction_of_raw`,
        `per_boundary_tokens_per_s`, `speedup_over_reprompt` and what belongs to them; the same for mode `base` with
        `base_` in front, and those against bare decoding for `probe` with `probe_`.
        `model` says what ran.
    """
    end = time.monotonic() + seconds
    tuned_entry(catalog, process, progress)
    model = catalog.loadable(catalog.entry(None))
    once = min(SECONDS, seconds / PASSES)
    blocks = scoring_blocks(chars or _chars(model.tokens_per_s, once))
    items = long_items(long, turns)
    result: dict[str, Any] = {"model": model.label}
    comparisons = 2 * len(MODES)
    prompts = {"base": parse_prompt("base", prompt_text("base"))}
    with opened(model) as weights:
        scorer = BoundaryScorer(weights)
        for mode, prefix in MODES:
            each = max(0.0, end - time.monotonic()) / comparisons
            comparisons -= 1 if mode == "probe" else 2
            question = question_for(mode, prompts.__getitem__)

            def report(note: str, mode: str = mode) -> None:
                progress(f"mode {mode}: {note}")

            scoring = bench_scoring(scorer, blocks, question, rounds, each, report)
            figures = {
                "tokens_per_s": scoring["tokens_per_s"],
                "raw_decode_tokens_per_s": scoring["raw_decode_tokens_per_s"],
                "fraction_of_raw": scoring["fraction_of_raw"],
                "fractions": scoring["fractions"],
                "tokens": scoring["tokens"],
                "decoded_tokens": scoring["decoded_tokens"],
            }
            if mode != "probe":
                prompted = bench_prompts(scorer, items, question, rounds, each, report)
                figures |= {
                    "per_boundary_tokens_per_s": prompted["per_boundary_tokens_per_s"],
                    "speedup_over_reprompt": prompted["speedup_over_reprompt"],
                    "speedups": prompted["speedups"],
                    "long_tokens": prompted["tokens"],
                    "long_boundaries": prompted["boundaries"],
                    "long_tokens_per_s": prompted["tokens_per_s"],
                    "largest_difference": prompted["largest_difference"],
                }
            result.update({prefix + key: value for key, value in figures.items()})
    return result


def _chars(speed: float | None, seconds: float) -> int:
    tokens = min(max((speed or 0) * seconds, LEAST_TOKENS), MOST_TOKENS)
    return round(tokens * CHARS_PER_TOKEN)
