"""The model service over a real catalog: rows, facts, removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from engine.base.errors import UsageError
from engine.jobs.runner import JobRunner
from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.model.catalog_files import PULLED, HubFile, Manifest
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.endpoints.sender import Prices
from engine.model.process.process import ModelProcess
from engine.model.records import ModelRow
from engine.model.service import service
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import RunSetup
from engine.model.service.service import ModelService
from engine.project.project import Project
from tests.engine.model.small_adapters import adapter_file
from tests.engine.model.tiny import write_sliding


@dataclass
class Bench:
    """The service with its catalog."""

    models: ModelService
    catalog: Catalog


@pytest.fixture
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model small enough to be read often."""
    return write_sliding(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The service on folders of its own; a file is added without loading it."""
    monkeypatch.setattr(
        service, "add_file", lambda catalog, path, name, narrate: catalog.add(path, name)
    )
    catalog = Catalog(tmp_path / "data", tmp_path / "cache")
    with Project.open(tmp_path / "p.wb", create=True) as project:
        endpoints = Endpoints(tmp_path / "data", tmp_path / "cache")
        setup = RunSetup(project, cast(ModelProcess, None), catalog, endpoints)
        runner = JobRunner(project, lambda event: None)
        models = ModelService(setup, runner, lambda: None)
        yield Bench(models, catalog)


def row(bench: Bench, name: str) -> ModelRow:
    """The row of one model."""
    return next(one for one in bench.models.rows() if one.name == name)


class TestRows:
    def test_what_is_here(self, bench: Bench, tiny: Path, tmp_path: Path) -> None:
        """Models are described by their header, adapters by their base; a missing or damaged file is marked."""
        bench.catalog.add(tiny, "good")
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(tiny.read_bytes()[:-5000])
        bench.catalog.add(cut)
        gone = tmp_path / "gone.gguf"
        gone.write_bytes(tiny.read_bytes())
        bench.catalog.add(gone)
        gone.unlink()
        bench.catalog.add_adapter(adapter_file(tmp_path / "mine.gguf"))
        found = {one.name: one for one in bench.models.rows()}
        assert found[DEFAULT_MODEL].license == "apache-2.0"
        assert (found["good"].problem, found["good"].memory is not None) == ("", True)
        assert "ends before its tensors do" in found["cut"].problem
        assert (found["gone"].problem, found["gone"].size) == ("its file is gone", None)
        assert found["mine"].kind == "adapter"
        assert found["mine"].note.startswith("for ")
        for name in found:
            assert bench.models.facts(name)


class TestEndpoints:
    def test_beside_the_models(self, bench: Bench) -> None:
        """An added endpoint is listed with its abilities, and can be removed."""
        can = Capabilities(server="llama-server", completions=True)
        entry = EndpointEntry("far", "http://gpu:8000/v1#qwen3", can, "FAR_KEY", Prices(1.5, 6))
        bench.catalog.data.mkdir(parents=True, exist_ok=True)
        book = EndpointBook(bench.catalog.data)
        book._entries["far"] = entry
        book._save()
        found = row(bench, "far")
        assert (found.kind, found.source, found.size) == ("endpoint", entry.url, None)
        assert "llama-server" in found.note
        facts = dict(bench.models.facts("far"))
        assert facts["key"] == "from the variable FAR_KEY"
        assert facts["prices"] == "1.5 read, 6 written, for a million tokens"
        assert bench.models.removal("far") == "forget the endpoint far"
        bench.models.remove("far")
        assert "far" not in [one.name for one in bench.models.rows()]


class TestKeeping:
    def test_removing_a_pulled_one(self, bench: Bench, tiny: Path) -> None:
        """Removing a pulled model deletes its file, its manifest and its tuned copy; shipped files stay."""
        folder = bench.catalog.data / PULLED / "someone--Tiny-GGUF"
        folder.mkdir(parents=True)
        path = Path(shutil.copy(tiny, folder / "tiny-f32.gguf"))
        pulled = HubFile(path.name, path.stat().st_size, "ab" * 32)
        Manifest("tiny-f32", "http://hub", "someone/Tiny-GGUF", "c0ffee", "mit", "", pulled).write(
            folder
        )
        found = row(bench, "tiny-f32")
        assert (found.origin, found.source, found.license) == ("pulled", "someone/Tiny-GGUF", "mit")
        assert found.size == path.stat().st_size
        assert found.fits is True
        facts = dict(bench.models.facts("tiny-f32"))
        assert facts["from"] == "someone/Tiny-GGUF on http://hub"
        assert "weights" in facts["memory"]
        entry = bench.catalog.entry("tiny-f32")
        bench.catalog.cache.mkdir(parents=True)
        copy = bench.catalog.cache / "tuned.gguf"
        shutil.copy(entry.path, copy)
        tuning = {
            "chosen": "bf16",
            "file": copy.name,
            "threads": 1,
            "tokens_per_s": 1.0,
            "gain": 1.0,
            "noise": 0.0,
        }
        bench.catalog.record_tuning(entry, tuning)
        assert row(bench, "tiny-f32").runs_as == "bf16"
        bench.models.remove("tiny-f32")
        assert not entry.path.parent.exists()
        assert not copy.exists()
        with pytest.raises(UsageError, match="came with the program"):
            bench.models.remove(DEFAULT_MODEL)
