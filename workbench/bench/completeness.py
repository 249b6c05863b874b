"""Measures the speed of scoring boundaries, compared with plain decoding and with one prompt per boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.model.catalog import Catalog
from engine.model.prompt_files import parse_prompt, prompt_text
from engine.records.scores import Mode
from engine.stages.scoring import question_for
from engine.worker.client import ModelProcess
from workbench.bench.datasets import long_items, scoring_blocks
from workbench.bench.tuning import tuned_entry

CHARS = 28_000
"""About 12,000 tokens."""

LONG, TURNS = 2, 10


def bench_completeness(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    chars: int = CHARS,
    long: int = LONG,
    turns: int = TURNS,
    rounds: int = 3,
) -> dict[str, Any]:
    """Scores sample conversations in the model process, in mode `tuned` and in mode `base`.

    Args:
        chars: How much is scored against bare decoding.
        long, turns: Conversations, and boundaries in each, that are scored against one prompt per boundary.

    Returns:
        For mode `tuned` the figures of `engine.worker.bench_scoring`: `tokens_per_s`, `raw_decode_tokens_per_s`,
        `fraction_of_raw`, `per_boundary_tokens_per_s`, `speedup_over_reprompt` and what belongs to them; the same
        for mode `base` with `base_` in front. `model` says what ran.
    """
    tuned_entry(catalog, process, progress)
    model = catalog.runnable(catalog.entry(None))
    process.load(model.path, model.options)
    blocks, items = scoring_blocks(chars), long_items(long, turns)
    found: dict[str, Any] = {"model": model.label}
    modes: tuple[tuple[Mode, str], ...] = (("tuned", ""), ("base", "base_"))
    for mode, prefix in modes:
        prompts = {"base": parse_prompt("base", prompt_text("base"))}
        answer = process.bench_scoring(
            blocks,
            items,
            question_for(mode, prompts, None),
            rounds,
            lambda _, note, mode=mode: progress(f"mode {mode}: {note}"),  # type: ignore[misc]
        )
        scoring, prompted = answer["scoring"], answer["prompts"]
        figures = {
            "tokens_per_s": scoring["tokens_per_s"],
            "raw_decode_tokens_per_s": scoring["raw_decode_tokens_per_s"],
            "fraction_of_raw": scoring["fraction_of_raw"],
            "per_boundary_tokens_per_s": prompted["per_boundary_tokens_per_s"],
            "speedup_over_reprompt": prompted["speedup_over_reprompt"],
            "fractions": scoring["fractions"],
            "tokens": scoring["tokens"],
            "decoded_tokens": scoring["decoded_tokens"],
            "long_tokens": prompted["tokens"],
            "long_boundaries": prompted["boundaries"],
            "long_tokens_per_s": prompted["tokens_per_s"],
            "largest_difference": prompted["largest_difference"],
        }
        found.update({prefix + key: value for key, value in figures.items()})
    return found
