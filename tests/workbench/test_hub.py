"""`workbench models` against a hub on this machine: search, interrupted pull, list, remove; each in its own
process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model.catalog import DEFAULT_MODEL
from engine.model.gguf_file import read_gguf
from tests.command_line import data, workbench
from tests.hub_server import FaultyAnswer, HubServer, Repository, serving

NAME = "someone/SmolLM2-135M-GGUF"
FILE = "SmolLM2-135M-Q4_1.gguf"
STEM = FILE.removesuffix(".gguf")


@pytest.fixture
def hub(single_layer_weights: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub with weights of one layer, configured as the one of the commands."""
    with serving({NAME: Repository({FILE: single_layer_weights.read_bytes()})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("WORKBENCH_OFFLINE", raising=False)
        yield server


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The standard error of a command."""
    return done.stderr.decode()


class TestPull:
    def test_interrupted_resumed_redirected_and_used(self, hub: HubServer, shipped: Path) -> None:
        """The real weights arrive over a connection that breaks and a redirect, are checked, and can be loaded."""
        hub.repositories[NAME] = Repository({FILE: shipped.read_bytes()})
        hub.elsewhere = True
        hub.faults.extend([FaultyAnswer(cut=30_000_000), FaultyAnswer(cut=1_000_000)])
        done = workbench("models", "pull", NAME, "q4_1", "--json")
        assert done.returncode == 0, said(done)
        (one,) = data(done)["pulled"]
        content = shipped.read_bytes()
        assert one["sha256"] == hashlib.sha256(content).hexdigest()
        assert (one["repository"], one["license"], one["bytes"]) == (
            NAME,
            "apache-2.0",
            len(content),
        )
        assert Path(one["path"]).read_bytes() == content
        assert read_gguf(Path(one["path"])).text("general.architecture") == "llama"
        ranges = [asked.headers["range"] for asked in hub.downloads if "localhost" in asked.host]
        assert ranges == ["bytes=0-", "bytes=30000000-", "bytes=31000000-"]
        assert "license apache-2.0" in said(done)
        assert "98 MB" in said(done)
        assert "GB are free" in said(done)
        assert "it comes from localhost" in said(done)

        listed = data(workbench("models", "list", "--json"))
        (model,) = [entry for entry in listed["models"] if entry["origin"] == "pulled"]
        assert (model["name"], model["source"], model["license"]) == (STEM, NAME, "apache-2.0")
        assert model["fits"] is True
        assert model["memory"] > 200_000_000
        assert {"name": "from", "value": f"{NAME} on {hub.url}"} in model["facts"]

    def test_killed_and_gone_on_with(self, hub: HubServer) -> None:
        """A pull interrupted with Ctrl-C is listed, and resumed without being named again."""
        hold = threading.Event()
        hub.faults.append(FaultyAnswer(cut=5_000_000, hold=hold))
        command = [sys.executable, "-m", "workbench", "models", "pull", NAME]
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            env=os.environ.copy(),
            # A shell that started the tests in the background lets its children ignore ctrl+c.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        try:
            part = None
            while part is None or part.stat().st_size < 5_000_000:
                assert process.poll() is None
                part = next(Path(os.environ["WORKBENCH_DATA"], "models").rglob("*.gguf.part"), None)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        finally:
            hold.set()
            process.kill()
        assert process.returncode == 130, error
        assert b"is paused at 5.0 MB" in error
        assert b"resumes it" in error

        listed = workbench("models", "list").stdout.decode()
        assert "5 MB have arrived" in listed
        done = workbench("models", "pull")
        assert done.returncode == 0, said(done)
        assert hub.downloads[-1].headers["range"] == "bytes=5000000-"
        assert "checksum and header are right" in done.stdout.decode()
        assert workbench("models", "pull").returncode == 2


class TestSearch:
    def test_hostile_names(self, hub: HubServer) -> None:
        """Text from a hub is made safe to print."""
        hub.repositories[NAME].license = "mit\x1b[2J\x9b1m"
        done = workbench("models", "search", "smollm2")
        assert b"\x1b" not in done.stdout + done.stderr
        assert "\x9b" not in (done.stdout + done.stderr).decode()


class TestKeeping:
    def test_removing(self, hub: HubServer, tmp_path: Path, single_layer_weights: Path) -> None:
        """A pulled model is deleted after a confirmation, an added one is forgotten, the shipped one stays."""
        pulled = data(workbench("models", "pull", NAME, "--json"))["pulled"][0]
        asked = workbench("models", "remove", pulled["name"])
        assert asked.returncode == 2
        assert "--yes" in said(asked)
        assert Path(pulled["path"]).exists()
        assert workbench("models", "remove", pulled["name"], "--yes").returncode == 0
        assert not Path(pulled["path"]).parent.exists()

        mine = tmp_path / "mine"
        mine.mkdir()
        for name in ("a.gguf", "b.gguf"):
            (mine / name).write_bytes(single_layer_weights.read_bytes())
        added = data(workbench("models", "add", mine, "--json"))["models"]
        assert [one["name"] for one in added] == ["a", "b"]
        assert workbench("models", "remove", "a").returncode == 0
        assert (mine / "a.gguf").exists()
        names = [one["name"] for one in data(workbench("models", "list", "--json"))["models"]]
        assert names == [DEFAULT_MODEL, "b"]
        assert workbench("models", "remove", DEFAULT_MODEL).returncode == 2
