"""A catalog in which the default model is tuned, so that a test need not measure formats."""

from __future__ import annotations

from pathlib import Path

from engine.model.catalog import Catalog


def tune(weights: Path, data: Path, cache: Path, tokens_per_s: float = 1.0) -> None:
    """Records in the folders of a machine that Q8_0 is the fastest format, and puts these weights there. At the default
    speed everything is expected to take long."""
    catalog = Catalog(data, cache)
    entry = catalog.entry(None)
    file = catalog.cache / f"{entry.path.stem}-q8_0.gguf"
    file.parent.mkdir(parents=True)
    file.symlink_to(weights)
    candidates = [
        {"format": kind, "tokens_per_s": 1.0, "agreement": 0.97, "bytes": 1, "verdict": "faithful"}
        for kind in ("as is", "q8_0")
    ]
    catalog.record_tuning(
        entry,
        {
            "candidates": candidates, "chosen": "q8_0", "file": file.name, "threads": 2,
            "tokens_per_s": tokens_per_s, "gain": 1.0, "noise": 0.01,
        },
    )  # fmt: skip
