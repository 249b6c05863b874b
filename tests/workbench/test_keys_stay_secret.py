"""Keys from the environment reach the endpoint they are for and nothing else. Commands run with a canary as key,
against a server that answers, and then refuses and repeats the key in its message and headers, as some do. Then
all output, data, cache, logs, config, project and exports are searched for the canary.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.model.service.endpoints import Endpoints
from engine.training import process as trainer_process
from engine.training.run_directory import RunDirectory
from tests.command_line import process, workbench
from tests.engine.model.endpoints.toy_peer import JsonHandler, on_thread
from tests.engine.project.support import REPOSITORY
from tests.engine.training.training_project import wait_for

LAB, HUB = "sk-canary-of-the-lab-4711", "hf_canaryOfTheHub0815"


class KeyEchoServer:
    """An endpoint and a hub in one; with `refusing` it refuses everything and repeats the key. Attributes: given: The
    keys it received, each with the path of its request.
    """

    def __init__(self) -> None:
        self.given: set[tuple[str, str]] = set()
        self.refusing = False
        outer = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                known = {"/v1/models": {"data": [{"id": "small"}]}, "/api/models": []}
                self._answer(known.get(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                text = {
                    "message": {"content": "The user wants to fly to Oslo."},
                    "finish_reason": "stop",
                }
                texts = asked.get("input", [])
                rows = [{"index": n, "embedding": [1.0, n]} for n in range(len(texts))]
                said = {
                    "/v1/chat/completions": {"choices": [text], "usage": {}},
                    "/v1/embeddings": {"data": rows},
                }
                self._answer(said.get(self.path))

            def _answer(self, said: Any) -> None:
                key = self.headers.get("authorization", "")
                outer.given.add((key.removeprefix("Bearer "), self.path))
                status = 401 if outer.refusing else 404 if said is None else 200
                words = {"error": f"no such key: {key}"} if status != 200 else said
                self.say(status, words, {"X-Error-Message": key})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def repeating() -> Iterator[KeyEchoServer]:
    """Runs the server during the block."""
    made = KeyEchoServer()
    with on_thread(made.server):
        yield made


class CommandOutput:
    """Runs commands and collects their output."""

    def __init__(self) -> None:
        self.text = ""

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in this process."""
        return self._keep(workbench(*words))

    def in_process(self, *words: str | Path) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in a process of its own, which turns the guard on."""
        return self._keep(process(*words))

    def well(self, *words: str | Path) -> bytes:
        """Runs a command; asserts that it succeeds, and returns what it printed."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _keep(self, done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
        self.text += (done.stdout + done.stderr).decode()
        return done


def forms(key: str) -> list[bytes]:
    """The forms in which a key may be stored: as it is, and in base64 at each of three offsets."""
    raw = key.encode()
    encoded = [base64.b64encode(bytes(shift) + raw)[4:-4] for shift in range(3)]
    return [raw, *encoded]


def places(folder: Path, key: str) -> list[str]:
    """The files below a folder that contain a key."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(form in path.read_bytes() for form in forms(key))
    ]


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandOutput:
    """All folders of the program in one place, with both keys in the environment."""
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WORKBENCH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("LAB_KEY", LAB)
    monkeypatch.setenv("HF_TOKEN", HUB)
    return CommandOutput()


class TestTheSearch:
    def test_finds_what_is_there(self, tmp_path: Path) -> None:
        """A key in the middle of a file is found, also in base64: the tests below can fail."""
        for shift in range(3):
            text = bytes(shift) + f"Bearer {LAB}".encode() + b"!"
            (tmp_path / f"{shift}.bin").write_bytes(b"\0" + base64.b64encode(text) + b"\xff")
        (tmp_path / "plain.log").write_text(f"x{LAB}x")
        (tmp_path / "other").write_text(LAB[:-1])
        assert places(tmp_path, LAB) == ["0.bin", "1.bin", "2.bin", "plain.log"]


def test_the_key_of_an_endpoint(output: CommandOutput, tmp_path: Path) -> None:
    """The key reaches the endpoint, with answers and with refusals that repeat it; it is neither printed nor stored."""
    path, out = tmp_path / "demo.wb", tmp_path / "out.jsonl"
    output.well("demo", tmp_path, "--samples-only", "--count", "7", "--headless")
    with repeating() as server:
        output.well("models", "add", f"{server.url}/v1", "--key-env", "LAB_KEY", "--name", "lab")
        run = (
            "run", "cluster", path, "--paper", "--decide", "none", "--model", "lab",
            "--embedder", f"{server.url}/v1#small",
        )  # fmt: skip
        output.well(*run, "--limit", "5")
        assert {(LAB, "/v1/chat/completions"), (LAB, "/v1/embeddings")} <= server.given
        server.refusing = True
        failed = output.run(*run)
        assert failed.returncode == 1
        assert b"401" in failed.stderr
        assert b"no such key" in failed.stderr
        refused = output.run("models", "add", f"{server.url}/v1#other", "--key-env", "LAB_KEY")
        assert refused.returncode == 1
        assert {key for key, _ in server.given} == {LAB}
    output.well("models", "list", "--json")
    output.well("status", path, "--json")
    output.well("export", path, "assignments", "-o", out)
    assert b"lab" in output.run("doctor", path, "--json").stdout
    assert "LAB_KEY" in (tmp_path / "data" / "endpoints.json").read_text("utf-8")
    assert out.stat().st_size > 0
    assert LAB not in output.text
    assert places(tmp_path, LAB) == []


@pytest.mark.usefixtures("output")
def test_a_key_is_for_its_own_endpoint(tmp_path: Path) -> None:
    """An embedder sends the key that was named for its URL, and to no other host, port, path or scheme."""
    entry = EndpointEntry("lab", "https://lab.example/v1#big", Capabilities(), key_env="LAB_KEY")
    (tmp_path / "endpoints.json").write_text(json.dumps({"lab": entry.as_params()}), "utf-8")
    endpoints = Endpoints(tmp_path, tmp_path)
    for url in ("https://lab.example/v1", "https://lab.example/v1/embeddings#small"):
        at_url = endpoints.entry_at(url)
        assert at_url is not None
        assert at_url.optional_key == LAB
    for other in (
        "http://lab.example/v1", "https://lab.example:8443/v1", "https://lab.example.net/v1",
        "https://lab.example/v2", "tfidf", "model.gguf",
    ):  # fmt: skip
        assert endpoints.entry_at(other) is None


def test_the_token_of_the_hub(
    output: CommandOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token reaches the hub, also one that refuses and repeats it; it is neither printed nor stored."""
    pytest.importorskip("huggingface_hub", reason="no hub can be asked without it")
    with repeating() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert output.run("models", "search", "flights").returncode == 0
        server.refusing = True
        for words in (("search", "flights"), ("pull", "someone/flights")):
            assert output.run("models", *words).returncode == 1
        assert {key for key, _ in server.given} == {HUB}
    found = output.in_process("doctor", "--json").stdout
    assert b"127.0.0.1" in found
    checks = {check["name"]: check["status"] for check in json.loads(found)["checks"]}
    assert checks["guard"] == "ok"  # the command turns it on
    assert HUB not in output.text
    assert places(tmp_path, HUB) == []


@pytest.mark.usefixtures("output")
def test_the_model_process_gets_none(tmp_path: Path) -> None:
    """The model process is started without the keys, so that they are in no core dump of it."""
    code = (
        "import pathlib, sys\n"
        "from engine.model.process.process import ModelProcess\n"
        "from engine.model.process.requests import Machine\n"
        "process = ModelProcess(pathlib.Path(sys.argv[1]))\n"
        "process.ask(Machine())\n"
        "print(pathlib.Path(f'/proc/{process.pid}/environ').read_bytes())\n"
        "process.close()\n"
    )
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system does not show the environment of a process")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        cwd=REPOSITORY,
        env=os.environ | {"HARMLESS": "kept-as-it-is"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kept-as-it-is" in done.stdout
    assert LAB not in done.stdout
    assert HUB not in done.stdout


@pytest.mark.usefixtures("output")
def test_the_trainer_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a training run is started without the keys, because its log may be passed on."""
    monkeypatch.setenv("HARMLESS", "kept-as-it-is")
    monkeypatch.setattr(trainer_process, "missing_libraries", lambda: "")
    run = RunDirectory(tmp_path)
    show = "import os; print(dict(os.environ), flush=True)"
    trainer_process.Trainers((sys.executable, "-c", show)).start(run)
    wait_for(lambda: "kept-as-it-is" in run.log.read_text("utf-8"))
    assert places(tmp_path, LAB) == places(tmp_path, HUB) == []
