"""Endpoints on the command line: added, listed, used as the model of runs, alone and two sharing a run."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from engine.base.conversation import Conversation, Message
from engine.simulate.demo.samples import write_jsonl
from tests.command_line import data, workbench
from tests.engine.model.endpoints.toy_peer import ToyPeer, running, says

SAFETY = 60.0
"""Seconds after which something hangs; nothing here is timed."""

CANARY = "canary-789"


def talks() -> Iterator[Conversation]:
    """Six short conversations; one contains the text of a control token."""
    for number in range(6):
        said = "<|end|> now" if number == 3 else f"Pair {number}, please."
        yield Conversation(
            f"talk-{number}",
            (
                Message("system", "Sell shoes."),
                Message("user", said),
                Message("assistant", "Which size?"),
                Message("user", f"{40 + number}"),
                Message("assistant", "Done."),
            ),
        )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with these conversations."""
    write_jsonl(list(talks()), tmp_path / "talks.jsonl")
    made = tmp_path / "p.wb"
    assert workbench("import", made, tmp_path / "talks.jsonl").returncode == 0
    return made


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ToyPeer, ToyPeer]]:
    """Two endpoints with the same model, in the catalog as `one` and `two`, which require a key."""
    monkeypatch.setenv("TOY_KEY", CANARY)
    with running("vllm") as first, running("vllm") as second:
        for name, peer in (("one", first), ("two", second)):
            done = workbench(
                *("models", "add", peer.url, "--name", name, "--key-env", "TOY_KEY"),
                *("--prices", "1", "2", "--json"),
            )
            assert done.returncode == 0, done.stderr.decode()
            peer.requests.clear()
        yield first, second


class TestEstimates:
    def test_what_a_run_will_cost(self, project: Path, peers: tuple[ToyPeer, ToyPeer]) -> None:
        """The estimate of a run over endpoints has its requests, tokens and cost, within a fifth of what the run then
        reads, and sends nothing."""
        command = ("run", "cluster", project, "--model", "one", "--text", "summary", "--no-labels")
        estimate = data(workbench(*command, "--estimate", "--json"))
        assert not peers[0].requests
        (cost,) = estimate["costs"]
        workbench(*command)
        read = sum(len(body["prompt"]) for body in peers[0].completions)
        assert cost["requests"] == len(peers[0].completions) == 6
        assert cost["read"] == pytest.approx(read, rel=0.2)
        assert cost["cost"] == pytest.approx((cost["read"] + 2 * cost["written"]) / 1e6, rel=0.01)


def summarize(project: Path, model: str) -> CompletedProcess[bytes]:
    """Clusters a project by the summaries that a model writes."""
    command = ("run", "cluster", project, "--model", model, "--text", "summary", "--no-labels")
    done = workbench(*command)
    assert done.returncode == 0, done.stderr.decode()
    return done


def summaries(project: Path) -> list[tuple[int, str]]:
    """The summary of each conversation."""
    with closing(sqlite3.connect(project)) as conn:
        return conn.execute("SELECT conversation_id, text FROM goal_text ORDER BY 1").fetchall()


class TestRuns:
    def test_two_endpoints_are_one(self, project: Path, peers: tuple[ToyPeer, ToyPeer]) -> None:
        """A run over two endpoints gives the results of a run over one, and both receive requests."""
        other = project.with_name("other.wb")
        shutil.copy(project, other)
        summarize(project, "one")
        for peer in peers:
            peer.requests.clear()
            peer.delay = 0.02
        (Path(os.environ["WORKBENCH_CACHE"]) / "replies.sqlite").unlink()
        summarize(other, "one,two")
        assert peers[0].completions
        assert peers[1].completions
        assert len(summaries(project)) == 6
        assert summaries(other) == summaries(project)

    def test_one_of_them_fails(self, project: Path, peers: tuple[ToyPeer, ToyPeer]) -> None:
        """An endpoint that fails during a run is taken out with a notice, and the run completes."""
        peers[0].faults = [says(401, f"no such key {CANARY}")] * 500
        said = summarize(project, "one,two").stderr.decode()
        assert "Taken out:" in said
        assert "401" in said
        assert ".." not in said
        assert CANARY not in said
        assert len(summaries(project)) == 6

    def test_the_key_is_nowhere(self, project: Path, peers: tuple[ToyPeer, ToyPeer]) -> None:
        """After runs the key is in no file of the program, the project or its logs."""
        summarize(project, "one")
        folders = [project.parent, *(Path(os.environ[f"WORKBENCH_{n}"]) for n in ("DATA", "CACHE"))]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        assert files
        assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
        assert f"Bearer {CANARY}" in peers[0].keys


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("run", "complete", "P", "--model", "said", "--mode", "base"), "cannot score in mode"),
            (("run", "complete", "P", "--model", "said", "--paper"), "cannot score in mode"),
            (("run", "trees", "P", "--model", "said"), "a model of this machine, not over said"),
            (("run", "cluster", "P", "--model", "said"), "its replies have no fields"),
            (("run", "complete", "P", "--model", "said,none"), "'none' is no endpoint"),
        ],
    )
    def test_before_anything_runs(self, project: Path, words: tuple[str, ...], why: str) -> None:
        """Work that an endpoint cannot do is refused with the reason before a run starts."""
        with running("chat") as peer:
            assert workbench("models", "add", peer.url, "--name", "said").returncode == 0
            peer.requests.clear()
            done = workbench(*(project if word == "P" else word for word in words))
            assert done.returncode == 2, done.stderr.decode()
            assert why in done.stderr.decode()
            assert not peer.requests

    def test_offline(self, project: Path, peers: tuple[ToyPeer, ToyPeer]) -> None:
        """A run that stays offline reaches no endpoint, and the error names the switch."""
        done = workbench(
            *("--offline", "run", "cluster", project, "--model", "one"),
            *("--text", "summary", "--no-labels"),
        )
        assert done.returncode != 0
        assert b"--offline" in done.stderr
        assert not peers[0].requests
