"""`workbench models`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, ModelFileError, UsageError
from engine.model.adapter_files import is_adapter, refuse_other_base
from engine.model.catalog import AdapterEntry, Catalog, ModelEntry
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.text import one_line
from engine.worker.client import ModelProcess
from workbench import config
from workbench.commands.narration import say, show, tell
from workbench.services import sample_text

ENOUGH_CONTEXT = 256
"""Tokens of context for finding out whether a file can be loaded."""


def models(arguments: argparse.Namespace) -> int:
    """Lists models and adapters, adds a file, or tunes a model to this machine."""
    catalog = Catalog(config.data_dir(), config.cache_dir())
    entries: list[ModelEntry] = []
    adapters: list[AdapterEntry] = []
    if arguments.action == "list":
        entries, adapters = catalog.entries(), catalog.adapters()
    elif arguments.action == "add":
        if arguments.model is None:
            raise UsageError("Which file?", "`workbench models add PATH`.")
        path = Path(arguments.model).expanduser().resolve()
        if path.is_dir() or is_adapter(read_gguf(path)):
            adapters = [_add_adapter(catalog, path, arguments.name)]
        else:
            entries = [_add(catalog, path, arguments.name)]
    else:
        entries = [_tune(catalog, catalog.entry(arguments.model))]
    described = [_described(catalog, entry) for entry in entries]
    tuned = [_described_adapter(catalog, adapter) for adapter in adapters]
    if arguments.json:
        show({"models": described, "adapters": tuned})
        return 0
    for model in described:
        tuning = model["tuning"]
        state = "not tuned" if tuning is None else f"runs as {tuning['chosen']}"
        if tuning is not None:
            state += f", {tuning['tokens_per_s']:,.0f} tokens/s, {tuning['gain']:.1f} x as shipped"
        say(f"{model['name']:<28} {model['bytes'] / 1e6:>9,.0f} MB  {model['origin']:<9} {state}")
    for adapter in tuned:
        size = f"{adapter['bytes'] / 1e6:>9,.1f} MB" if adapter["bytes"] else f"{'gone':>12}"
        say(f"{one_line(adapter['name'], 28):<28} {size}  {adapter['origin']:<9} {_told(adapter)}")
    return 0


def _add(catalog: Catalog, path: Path, name: str | None) -> ModelEntry:
    """Adds a file after the model process has loaded it once, so a broken file is refused now."""
    process = ModelProcess(config.log_dir() / "model.log")
    try:
        need = process.memory(path, LoadOptions())
        facts = process.load(path, LoadOptions(context=ENOUGH_CONTEXT))
    finally:
        process.close()
    tell(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {(need['weights'] + need['cache']) / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _add_adapter(catalog: Catalog, path: Path, name: str | None) -> AdapterEntry:
    """Adds an adapter after the model process has loaded it once on a base that it fits, where one is known."""
    path = catalog.adapter_path(path)
    base = _base_for(catalog, path)
    if base is None:
        tell("No model of the catalogue is its base; add that with `workbench models add` too.")
        return catalog.add_adapter(path, name)
    process = ModelProcess(config.log_dir() / "model.log")
    try:
        process.load(base.path, LoadOptions(context=ENOUGH_CONTEXT), path)
    finally:
        process.close()
    tell(f"An adapter for {base.name}.")
    return catalog.add_adapter(path, name)


def _base_for(catalog: Catalog, adapter: Path) -> ModelEntry | None:
    """The first model that an adapter fits, or None."""
    for entry in catalog.entries():
        with contextlib.suppress(ModelFileError):
            refuse_other_base(adapter, entry.path)
            return entry
    return None


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


def _described_adapter(catalog: Catalog, adapter: AdapterEntry) -> dict[str, Any]:
    there = adapter.path.is_file()
    base = _base_for(catalog, adapter.path) if there else None
    return {
        "name": adapter.name,
        "origin": adapter.origin,
        "path": str(adapter.path),
        "bytes": adapter.path.stat().st_size if there else 0,
        "sha256": catalog.sha256(adapter.path) if there else None,
        "model": base.name if base else None,
        "base_name": adapter.made_of.base_name,
        "base_fingerprint": adapter.made_of.base_fingerprint,
        "recipe": adapter.made_of.recipe,
        "auroc": adapter.auroc,
    }


def _told(adapter: dict[str, Any]) -> str:
    """What an adapter is for, in a line. What files say of themselves is made safe to print."""
    base = adapter["model"]
    if base is None:
        base = f"{adapter['base_name'] or 'an unknown base'}, which is not in this list"
    parts = [f"adapter for {one_line(base)}"]
    if adapter["recipe"]:
        parts.append(f"recipe {one_line(adapter['recipe'], 20)}")
    if adapter["auroc"] is not None:
        parts.append(f"AUROC {adapter['auroc']:.3f} on held-out conversations")
    return ", ".join(parts)
