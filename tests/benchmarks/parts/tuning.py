"""Measures how much faster the tuned default model is on this machine than the original file."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from engine.model.catalog import Catalog, ModelEntry
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Measure, Tune
from engine.model.service.run_setup import bundled_logs
from tests.benchmarks.rounds import rounds


def tuned_entry(
    catalog: Catalog, process: ModelProcess, progress: Callable[[str], None]
) -> ModelEntry:
    """The default model, tuned first if it never was on this machine."""
    entry = catalog.entry(None)
    if entry.tuning is None:
        start = time.monotonic()
        result = process.ask(
            Tune(entry.path, catalog.cache, bundled_logs()), lambda _, note: progress(note)
        )
        catalog.record_tuning(entry, {**result, "seconds": time.monotonic() - start})
        entry = catalog.entry(None)
    return entry


def bench_tune(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    chars: int | None = None,
    most: int = 3,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Measures the tuned model and the file as shipped by turns, with the same threads.

    Args:
        chars: How much text is decoded to measure on; None is as much as tuning takes.
        most, seconds: Rounds, and time with the tuning before them.

    Returns:
        `chosen` (the format), `threads`, `agreement` (with F32, as measured when it was tuned), `noise`,
        `shipped_agreement`, `tokens_per_s`, `shipped_tokens_per_s` (medians), `gain` (median of the ratios), `gains`,
        `gain_when_tuned`, `seconds` that tuning took (None where another command tuned) and `candidates`.
    """
    began = time.monotonic()
    entry = tuned_entry(catalog, process, progress)
    tuning = entry.tuning or {}
    options = LoadOptions(threads=tuning["threads"])
    tuned = catalog.loadable(entry)
    text = bundled_logs()[:chars]
    shipped_speeds, tuned_speeds = [], []
    for number in rounds(most, seconds - (time.monotonic() - began)):
        progress(f"measuring the shipped and the tuned file, round {number + 1} of at most {most}")
        process.load(entry.path, options)
        shipped_speeds.append(process.ask(Measure(text))[0])
        process.load(tuned.path, tuned.options)
        tuned_speeds.append(process.ask(Measure(text))[0])
    gains = [ours / theirs for ours, theirs in zip(tuned_speeds, shipped_speeds, strict=True)]
    agreement = {c["format"]: c["agreement"] for c in tuning["candidates"]}
    return {
        "chosen": tuning["chosen"],
        "threads": tuning["threads"],
        "agreement": agreement[tuning["chosen"]],
        "shipped_agreement": agreement["as is"],
        "noise": tuning["noise"],
        "tokens_per_s": statistics.median(tuned_speeds),
        "shipped_tokens_per_s": statistics.median(shipped_speeds),
        "gain": statistics.median(gains),
        "gains": gains,
        "gain_when_tuned": tuning["gain"],
        "seconds": tuning.get("seconds"),
        "candidates": tuning["candidates"],
    }
