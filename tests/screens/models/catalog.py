"""A catalog of small real files, made once a test process and copied for each test, and a hub to pull from."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import gguf
import numpy as np
import pytest

from engine.base import folders
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, Catalog, ModelEntry
from engine.model.catalog_files import PULLED as PULLED_FOLDER
from engine.model.catalog_files import Manifest, PartFile
from engine.model.endpoints import pacing
from engine.model.hub import repositories
from engine.model.hub.pulls import PullPlan
from engine.model.memory_plan import MachineMemory
from engine.model.records import Fact, HubPage, ModelRow, PullRow
from engine.model.service import service
from engine.model.service.service import ModelService
from tests.engine.model.small_adapters import adapter_file
from tests.hub_server import COMMIT, FaultyAnswer, HubServer, Repository
from tests.screens.project import ScreenProject, project

BUILT_IN = DEFAULT_MODEL
PULLED = "Qwen3-8B-Q4_K_M"
LARGE = "grok-1-Q2_K"
BROKEN = "cut"
ADAPTER = "support-v3"
PULLING = "Qwen3-14B-Q4_K_M"
REPOSITORY = "Qwen/Qwen3-14B-GGUF"
GATED = "someone/Gated-GGUF"
GB = 1_000_000_000
MACHINE = MachineMemory(24 * GB, "NVIDIA RTX", 1_900_000_000)
"""What every test runs on: what fits depends on it."""
FREE = 212 * GB
"""Free bytes of its disk."""
RECOMMENDED = """
[[set]]
memory = 8
[[set.model]]
role = "instruct"
repository = "Qwen/Qwen2.5-3B-Instruct-GGUF"
file = "q4_k_m"
size = 2.1
license = "qwen-research"
note = "Good summaries for its size."
[[set]]
memory = 24
[[set.model]]
role = "instruct"
repository = "Qwen/Qwen3-14B-GGUF"
file = "Q4_K_M"
size = 9.0
license = "apache-2.0"
note = "Leaves room for long contexts on 24 GB."
[[set.model]]
role = "embedder"
repository = "Qwen/Qwen3-Embedding-4B-GGUF"
file = "Q4_K_M"
size = 2.5
license = "apache-2.0"
note = "Better vectors than the small one."
"""


# Files


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
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
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
    part = PartFile(path.name, stat.st_size, digest, stat.st_mtime_ns)
    at = "2026-10-12T09:14:00+00:00"
    Manifest(
        PULLED, "https://huggingface.co", "Qwen/Qwen3-8B-GGUF", COMMIT, "apache-2.0", at, (part,)
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


# The hub


class Hub:
    """A hub with a repository to pull from, and downloads that a test holds.

    Attributes:
        server: Answers as the hub.
        content: The file that a pull fetches, of 10 MB.
    """

    def __init__(self) -> None:
        content = self.content = _content()
        names = ("bf16/Qwen3-14B-00001-of-00002.gguf", "bf16/Qwen3-14B-00002-of-00002.gguf")
        files = dict.fromkeys(("Qwen3-14B-Q8_0.gguf", *names, "Qwen3 14B.gguf"), b"GGUF")
        sizes = {"Qwen3-14B-Q8_0.gguf": 15_700_000_000, **dict.fromkeys(names, 14_750_000_000)}
        self.server = HubServer(
            {
                REPOSITORY: Repository(
                    {f"{PULLING}.gguf": content, **files}, downloads=120_400, sizes=sizes
                ),
                GATED: Repository({"gated-qwen.gguf": content}, "llama3.3", True, downloads=900),
                "me/zz": Repository({}),
            }
        )
        self._holds: list[threading.Event] = []

    def hold(self, *cuts: int) -> None:
        """Each of the next downloads stops after so many bytes, until `release`."""
        for cut in cuts:
            self._holds.append(threading.Event())
            self.server.faults.append(FaultyAnswer(cut=cut, hold=self._holds[-1]))

    def release(self) -> None:
        """The oldest of the downloads that are held ends; what is missing is asked for anew."""
        self._holds.pop(0).set()

    def close(self) -> None:
        """Ends it and whatever waits for it."""
        for hold in self._holds:
            hold.set()
        self.server.close()

    def asked(self) -> list[str]:
        """The words that were searched for and the repositories that were looked at, in order."""
        paths = [urlsplit(one.path) for one in self.server.requests]
        return [
            parse_qs(path.query)["search"][0]
            if path.path == "/api/models"
            else path.path.removeprefix("/api/models/")
            for path in paths
            if path.path.startswith("/api/models")
        ]


@cache
def _content() -> bytes:
    """A file of 10 MB, so that its shares are round numbers."""
    return weights(_made() / "pulling.gguf", "Qwen3 14B", layers=40, size=10_000_000).read_bytes()


def pulling(support: ScreenProject, hub: Hub, *cuts: int) -> None:
    """Begins a pull, which stops after 43% until it is released, and after these many further bytes."""
    hub.hold(4_300_000, *cuts)
    support.models.pull(REPOSITORY, "Q4_K_M")
    arrived(support, 4_300_000)


def resting_pull(name: str, done: int, total: int, repository: str = "BAAI/bge-m3") -> None:
    """A pull of an earlier session, of which `done` bytes are on the disk."""
    part = PartFile(f"{repository}/resting-{done}.gguf", total, "ab" * 32)
    wanted = Manifest(name, "https://huggingface.co", repository, COMMIT, "mit", "", (part,))
    plan = PullPlan(folders.data_dir() / PULLED_FOLDER / "resting", wanted)
    plan.folder.mkdir(parents=True, exist_ok=True)
    plan.file.write_text(json.dumps(asdict(wanted)), "utf-8")
    with plan.part(part).open("wb") as file:
        file.truncate(done)


def arrived(support: ScreenProject, count: int) -> None:
    """Waits until so many bytes of the pull are here."""
    came_about(lambda: support.models.pulls()[0].done == count)


def came_about(what: Callable[[], bool]) -> None:
    """Waits for what another thread does; fails after far more time than it needs."""
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it never came about")


class TimedModels(ModelService):
    """Pulls at a speed that is the same everywhere.

    Attributes:
        changes: What else is different from how a pull is: a state that passes too quickly to be seen.
    """

    changes: Mapping[str, Any] = MappingProxyType({})

    def pulls(self) -> list[PullRow]:
        timed: dict[str, Any] = {"rate": 24_300_000.0, "seconds_left": 211.0}
        return [
            replace(row, **(timed if row.state == "pulling" else {}), **self.changes)
            for row in super().pulls()
        ]


class PlacedModels(TimedModels):
    """Says the same folders everywhere."""

    def rows(self) -> list[ModelRow]:
        return [replace(row, source=_placed(row.source)) for row in super().rows()]

    def facts(self, name: str) -> list[Fact]:
        return [replace(fact, value=_placed(fact.value)) for fact in super().facts(name)]

    def look_at(self, repository: str) -> HubPage:
        return replace(super().look_at(repository), page=f"https://huggingface.co/{repository}")


def _placed(text: str) -> str:
    """A text with this test's folders replaced by a person's."""
    return text.replace("~/data", "~/.local/share").replace(str(_made() / "files"), "/models")


def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes memory and free disk those of `MACHINE`, the recommended models those of `RECOMMENDED`, and the weights
    that come with the program a small file, which is read in no time; a file is added without loading it."""
    shipped = _made() / "files" / "shipped.gguf"
    monkeypatch.setattr(service, "add_file", lambda catalog, path, *rest: catalog.add(path))
    monkeypatch.setattr("engine.model.catalog.embedded_model", lambda: shipped)
    monkeypatch.setattr(service, "machine_memory", lambda: MACHINE)
    monkeypatch.setattr(service, "free_space", lambda folder: FREE)
    folders.config_dir().mkdir(parents=True, exist_ok=True)
    recommended = folders.config_dir() / "recommended.toml"
    recommended.write_text(RECOMMENDED, "utf-8")
    monkeypatch.setattr(repositories, "RECOMMENDED", recommended)


def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Makes a hub of this machine the one that is asked."""
    monkeypatch.setattr(pacing, "FIRST_WAIT", 0.0)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.server.url)
    yield hub
    hub.close()
