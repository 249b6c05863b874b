"""A catalog of small real files, made once a test process and copied for each test."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.base import folders
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, Catalog, ModelEntry
from engine.model.catalog_files import PULLED as PULLED_FOLDER
from engine.model.catalog_files import HubFile, Manifest
from engine.model.memory_plan import MachineMemory
from engine.model.records import Fact, ModelRow
from engine.model.service import service
from engine.model.service.service import ModelService
from tests.engine.model.small_adapters import adapter_file
from tests.engine.model.tiny import finish
from tests.hub_server import COMMIT
from tests.screens.project import ScreenProject, project

BUILT_IN = DEFAULT_MODEL
PULLED = "Qwen3-8B-Q4_K_M"
LARGE = "grok-1-Q2_K"
BROKEN = "cut"
ADAPTER = "support-v3"
GB = 1_000_000_000
MACHINE = MachineMemory(24 * GB, "NVIDIA RTX", 1_900_000_000)
"""What every test runs on: what fits depends on it."""


def weights(
    path: Path,
    name: str,
    license: str = "apache-2.0",
    *,
    layers: int = 36,
    heads: int = 8,
    size: int = 0,
    architecture: str = "qwen3",
) -> Path:
    """A GGUF file with the header of a large model and small tensors, filled up to a size in bytes.

    Args:
        heads: Heads with keys of their own, on which the memory depends.
        architecture: A `llama` is a base that `adapter_file` fits.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(name)
    writer.add_license(license)
    writer.add_context_length(40_960)
    writer.add_embedding_length(4096)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(12_288)
    writer.add_head_count(32)
    writer.add_head_count_kv(heads)
    writer.add_key_length(128)
    writer.add_value_length(128)
    writer.add_file_type(1)
    for layer in range(layers):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(32, np.float32))
    if architecture == "llama":
        writer.add_tensor("blk.0.attn_v.weight", np.ones((192, 576), np.float32))
    finish(writer)
    with path.open("ab") as file:
        file.write(bytes(max(0, size - path.stat().st_size)))
    return path


@cache
def _made() -> Path:
    """A folder with `data` and `cache` of a catalog, and `files` that were added to it."""
    folder = Path(tempfile.mkdtemp(prefix="catalog-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data, files = folder / "data", folder / "files"
    pulled = data / PULLED_FOLDER / "Qwen--Qwen3-8B-GGUF"
    for new in (pulled, files, folder / "cache" / "models"):
        new.mkdir(parents=True)
    shipped = weights(
        files / "shipped.gguf", "SmolLM2 135M", layers=30, heads=3, architecture="llama"
    )
    path = weights(pulled / f"{PULLED}.gguf", "Qwen3 8B", size=5_000_000)
    stat, digest = path.stat(), hashlib.sha256(path.read_bytes()).hexdigest()
    part = HubFile(path.name, stat.st_size, digest, stat.st_mtime_ns)
    at = "2026-10-12T09:14:00+00:00"
    Manifest(
        PULLED, "https://huggingface.co", "Qwen/Qwen3-8B-GGUF", COMMIT, "apache-2.0", at, part
    ).write(pulled)
    catalog = Catalog(data, folder / "cache")
    catalog.add(weights(files / f"{LARGE}.gguf", "Grok 1", layers=64, heads=96), LARGE)
    (files / f"{BROKEN}.gguf").write_bytes(path.read_bytes()[:1000])
    catalog.add(files / f"{BROKEN}.gguf", BROKEN)
    origin = AdapterOrigin(base_name="SmolLM2 135M Instruct", recipe="boundary")
    adapter = adapter_file(files / f"{ADAPTER}.gguf", origin=origin)
    adapter.with_suffix(".json").write_text(json.dumps({"auroc": 0.981}))
    catalog.add_adapter(adapter, ADAPTER)
    copy = weights(
        catalog.cache / "tuned.gguf", "SmolLM2 135M", layers=30, heads=3, architecture="llama"
    )
    tuned = {"chosen": "bf16", "file": copy.name, "threads": 2, "gain": 2.1, "noise": 0.0}
    catalog.record_tuning(
        ModelEntry(BUILT_IN, shipped, "built in"), {**tuned, "tokens_per_s": 1650.0}
    )
    return folder


def stocked() -> ScreenProject:
    """A project and models of every kind: built in and tuned, pulled, too large, cut off, and an adapter."""
    made = _made()
    shutil.copytree(made / "data", folders.data_dir(), dirs_exist_ok=True)
    shutil.copytree(made / "cache", folders.cache_dir(), dirs_exist_ok=True)
    support = project()
    support.models.use(PULLED, ["goals", "trees"])
    return support


class PlacedModels(ModelService):
    """Says the same folders everywhere."""

    def rows(self) -> list[ModelRow]:
        return [replace(row, source=_placed(row.source)) for row in super().rows()]

    def facts(self, name: str) -> list[Fact]:
        return [(key, _placed(value)) for key, value in super().facts(name)]


def _placed(text: str) -> str:
    """A text with this test's folders replaced by a person's."""
    return text.replace("~/data", "~/.local/share").replace(str(_made() / "files"), "/models")


def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the memory that of `MACHINE`, and the weights that come with the program a small file, which is read in no
    time; a file is added without loading it."""
    shipped = _made() / "files" / "shipped.gguf"
    monkeypatch.setattr(service, "add_file", lambda catalog, path, *rest: catalog.add(path))
    monkeypatch.setattr("engine.model.catalog.embedded_model", lambda: shipped)
    monkeypatch.setattr(service, "machine_memory", lambda: MACHINE)
