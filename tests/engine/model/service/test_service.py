"""The model service over a real catalog and a hub on this machine: pulls in threads, rows, facts, removal."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from engine.base.errors import ModelFileError, UsageError
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.model.catalog_files import read_manifest
from engine.model.endpoints import pacing
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.endpoints.fleet import Prices
from engine.model.hub import download, pulls
from engine.model.process.process import ModelProcess
from engine.model.records import ModelRow, PullRow, PullState
from engine.model.service import service
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import RunSetup
from engine.model.service.service import ModelService
from engine.project.project import Project
from tests.engine.model.small_adapters import adapter_file
from tests.engine.model.tiny import write_sliding
from tests.hub_server import FaultyAnswer, HubServer, Repository, serving

NAME = "someone/Tiny-GGUF"
FILE = "tiny-f32.gguf"


class TunedOnly(JobRunner):
    """A job service that starts nothing and records the names of models to tune."""

    def __init__(self, project: Project, tuned: list[str]) -> None:
        super().__init__(project, lambda event: None)
        self._tuned = tuned

    def start(self, stages: Sequence[Stage]) -> int:
        self._tuned += [stage.params["model"] for stage in stages]
        return 7


@dataclass
class Bench:
    """The service with its catalog and the events it sent."""

    models: ModelService
    catalog: Catalog
    setup: RunSetup
    changed: threading.Event = field(default_factory=threading.Event)
    tuned: list[str] = field(default_factory=list)


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
    changed, tuned = threading.Event(), list[str]()

    with Project.open(tmp_path / "p.wb", create=True) as project:
        endpoints = Endpoints(tmp_path / "data", tmp_path / "cache")
        setup = RunSetup(project, cast(ModelProcess, None), catalog, endpoints)
        models = ModelService(setup, TunedOnly(project, tuned), changed.set)
        yield Bench(models, catalog, setup, changed, tuned)
        models.close()


@pytest.fixture
def hub(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """The hub that the service asks."""
    monkeypatch.setattr(pacing, "FIRST_WAIT", 0.0)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving({NAME: Repository({FILE: tiny.read_bytes(), "tiny-q8.gguf": b"x"})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def until(what: Callable[[], bool]) -> None:
    """Waits for what another thread does; fails after far more time than it needs."""
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it never came about")


def row(bench: Bench, name: str) -> ModelRow:
    """The row of one model."""
    return next(one for one in bench.models.rows() if one.name == name)


def pull_row(bench: Bench) -> PullRow:
    """The row of the only pull."""
    (one,) = bench.models.pulls()
    return one


def came_to(bench: Bench, state: PullState) -> Callable[[], bool]:
    """Whether the only pull has this state."""
    return lambda: pull_row(bench).state == state


class TestPulls:
    def test_to_the_end(self, bench: Bench, hub: HubServer, tiny: Path) -> None:
        """A pull continues in the background, sends an event at its end, and adds a model to the list."""
        assert bench.models.pull(NAME, "f32") == "tiny-f32"
        assert bench.changed.wait(30)
        assert pull_row(bench).state == "done"
        found = row(bench, "tiny-f32")
        assert (found.origin, found.source, found.license) == ("pulled", NAME, "apache-2.0")
        assert found.size == tiny.stat().st_size
        assert found.fits is True
        facts = {fact.name: fact.value for fact in bench.models.facts("tiny-f32")}
        assert facts["from"] == f"{NAME} on {hub.url}"
        assert "weights" in facts["memory"]

    def test_paused_and_gone_on_with(self, bench: Bench, hub: HubServer) -> None:
        """A pause keeps what has arrived; another service, as after a restart, lists the pull and resumes it."""
        hold = threading.Event()
        hub.faults.append(FaultyAnswer(cut=3000, hold=hold))
        bench.models.pull(NAME, "f32")
        until(lambda: pull_row(bench).done == 3000)
        with pytest.raises(UsageError, match="being pulled already"):
            bench.models.resume("tiny-f32")
        bench.models.pause("tiny-f32")
        hold.set()
        until(came_to(bench, "paused"))

        runner = TunedOnly(bench.setup.project, [])
        later = ModelService(bench.setup, runner, lambda: None)
        (resting,) = later.pulls()
        assert (resting.state, resting.done, resting.repository) == ("paused", 3000, NAME)
        later.resume("tiny-f32")
        until(lambda: later.pulls()[0].state == "done")
        assert hub.downloads[-1].headers["range"] == "bytes=3000-"
        assert row(bench, "tiny-f32").size

    def test_failure_is_kept(self, bench: Bench, hub: HubServer) -> None:
        """The reason of a failed pull is in its row; it can be tried again, or discarded."""
        hub.faults.append(FaultyAnswer(cut=100))
        hub.faults.extend(FaultyAnswer(cut=0) for _ in range(download.MAX_ATTEMPTS))
        bench.models.pull(NAME, "f32")
        until(came_to(bench, "failed"))
        assert "cannot be reached" in pull_row(bench).problem
        assert pull_row(bench).hint
        bench.models.give_up("tiny-f32")
        assert bench.models.pulls() == []
        assert list((bench.catalog.data / "models").rglob("*.part")) == []
        with pytest.raises(UsageError, match="no unfinished pull"):
            bench.models.resume("tiny-f32")

    def test_refused_before_it_begins(
        self, bench: Bench, hub: HubServer, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A taken name is an error at once, too little disk space is in the row; nothing is downloaded for either."""
        bench.catalog.add(tiny, "tiny-f32")
        with pytest.raises(UsageError, match="taken"):
            bench.models.pull(NAME, "f32")
        bench.catalog.forget("tiny-f32")
        monkeypatch.setattr(pulls, "free_space", lambda folder: 0)
        bench.models.pull(NAME, "f32")
        until(came_to(bench, "failed"))
        assert "have to stay free" in pull_row(bench).problem
        assert hub.downloads == []


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
        """An added endpoint is listed with its abilities, has no file to verify, and can be removed."""
        can = Capabilities(server="llama-server", completions=True)
        entry = EndpointEntry("far", "http://gpu:8000/v1#qwen3", can, "FAR_KEY", Prices(1.5, 6))
        bench.catalog.data.mkdir(parents=True, exist_ok=True)
        book = EndpointBook(bench.catalog.data)
        book._entries["far"] = entry
        book._save()
        found = row(bench, "far")
        assert (found.kind, found.source, found.size) == ("endpoint", entry.url, None)
        assert "llama-server" in found.note
        facts = {fact.name: fact.value for fact in bench.models.facts("far")}
        assert facts["key"] == "from the variable FAR_KEY"
        assert facts["prices"] == "1.5 read, 6 written, for a million tokens"
        with pytest.raises(UsageError, match="no file"):
            bench.models.verify("far")
        assert bench.models.removal("far") == "forget the endpoint far"
        bench.models.remove("far")
        assert "far" not in [one.name for one in bench.models.rows()]


class TestKeeping:
    def test_removing_a_pulled_one(self, bench: Bench, hub: HubServer) -> None:
        """Removing a pulled model deletes its files, its manifest and its tuned copy; shipped files stay."""
        bench.models.pull(NAME, "f32")
        assert bench.changed.wait(30)
        entry = bench.catalog.entry("tiny-f32")
        assert read_manifest(entry.path) is not None
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

    def test_verifying(self, bench: Bench, tiny: Path, tmp_path: Path) -> None:
        """An added file is compared with its checksum; a file that was replaced on purpose is a new one."""
        mine = Path(shutil.copy(tiny, tmp_path / "mine.gguf"))
        bench.models.add(str(mine))
        assert "is as it was" in bench.models.verify("mine")
        status, content = mine.stat(), bytearray(mine.read_bytes())
        content[-5] ^= 1
        mine.write_bytes(content)
        os.utime(mine, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(ModelFileError, match="is not what it was"):
            bench.models.verify("mine")
        os.utime(mine)
        assert "is as it was" in bench.models.verify("mine")
