"""`workbench models`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, UsageError
from engine.model.catalog import Catalog, ModelEntry
from engine.worker.client import ModelProcess
from workbench import config
from workbench.commands.narration import say, show, tell
from workbench.services import sample_text


def models(arguments: argparse.Namespace) -> int:
    """Lists models, adds a file, or tunes a model to this machine."""
    catalog = Catalog(config.data_dir(), config.cache_dir())
    if arguments.action == "list":
        entries = catalog.entries()
    elif arguments.action == "add":
        if arguments.model is None:
            raise UsageError("Which file?", "`workbench models add PATH`.")
        entries = [_add(catalog, Path(arguments.model), arguments.name)]
    else:
        entries = [_tune(catalog, catalog.entry(arguments.model))]
    described = [_described(catalog, entry) for entry in entries]
    if arguments.json:
        show({"models": described})
        return 0
    for model in described:
        tuning = model["tuning"]
        state = "not tuned" if tuning is None else f"runs as {tuning['chosen']}"
        if tuning is not None:
            state += f", {tuning['tokens_per_s']:,.0f} tokens/s, {tuning['gain']:.1f} x as shipped"
        say(f"{model['name']:<28} {model['bytes'] / 1e6:>9,.0f} MB  {model['origin']:<9} {state}")
    return 0


def _add(catalog: Catalog, path: Path, name: str | None) -> ModelEntry:
    """Adds a file after the model process has loaded it once, so a broken file is refused now."""
    from engine.model.interface import LoadOptions

    process = ModelProcess(config.log_dir() / "model.log")
    path = path.expanduser().resolve()
    try:
        need = process.memory(path, LoadOptions())
        facts = process.load(path, LoadOptions(context=256))
    finally:
        process.close()
    tell(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {(need['weights'] + need['cache']) / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _tune(catalog: Catalog, entry: ModelEntry) -> ModelEntry:
    process = ModelProcess(config.log_dir() / "model.log")
    try:
        result = process.tune(
            entry.path, catalog.cache, sample_text(), lambda _, note: tell(f"  {note}")
        )
    except KeyboardInterrupt:
        raise Cancelled("Tuning was cancelled; nothing was kept.") from None
    finally:
        process.close()
    catalog.record_tuning(entry, result)
    for candidate in result["candidates"]:
        speed = candidate["tokens_per_s"]
        agreement = candidate["agreement"]
        tell(
            f"  {candidate['format']:<6} {'' if speed is None else f'{speed:,.0f} tokens/s':>16}"
            f"  agrees with F32 on {'?' if agreement is None else f'{agreement:.1%}'}"
            f"  {candidate['verdict']}"
        )
    return catalog.entry(entry.name)


def _described(catalog: Catalog, entry: ModelEntry) -> dict[str, Any]:
    there = entry.path.is_file()
    return {
        "name": entry.name,
        "origin": entry.origin,
        "path": str(entry.path),
        "bytes": entry.path.stat().st_size if there else 0,
        "sha256": catalog.sha256(entry.path) if there else None,
        "tuning": entry.tuning,
    }
