"""Endpoints on the command line: added, listed, used as the model of runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.simulate.demo import write_jsonl
from tests.command_line import data, workbench
from tests.engine.model.endpoints.toy_peer import ToyPeer, running


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
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyPeer]:
    """An endpoint, in the catalog as `one`, which requires a key."""
    monkeypatch.setenv("TOY_KEY", "secret")
    with running("vllm") as server:
        done = workbench(
            *("models", "add", server.url, "--name", "one", "--key-env", "TOY_KEY"),
            *("--prices", "1", "2", "--json"),
        )
        assert done.returncode == 0, done.stderr.decode()
        server.requests.clear()
        yield server


class TestEstimates:
    def test_what_a_run_will_cost(self, project: Path, peer: ToyPeer) -> None:
        """The estimate of a run over endpoints has its requests, tokens and cost, within a fifth of what the run then
        reads, and sends nothing."""
        words = ("--model", "one", "--paper", "--decide", "none", "--k1", "1")
        estimate = data(workbench("run", "cluster", project, *words, "--estimate", "--json"))
        assert not peer.requests
        cost, label = estimate["costs"]
        workbench("run", "cluster", project, *words)
        summaries = peer.completions[:-1]
        read = sum(len(body["prompt"]) for body in summaries)
        assert (cost["requests"], label["requests"]) == (len(summaries), 1) == (6, 1)
        assert cost["read"] == pytest.approx(read, rel=0.2)
        assert cost["cost"] == pytest.approx((cost["read"] + 2 * cost["written"]) / 1e6, rel=0.01)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("run", "complete", "P", "--model", "said", "--mode", "base"), "cannot score in mode"),
            (("run", "complete", "P", "--model", "said", "--paper"), "cannot score in mode"),
            (("run", "trees", "P", "--model", "said"), "a model of this machine, not over said"),
            (("run", "cluster", "P", "--model", "said"), "its replies have no fields"),
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

    def test_offline(self, project: Path, peer: ToyPeer) -> None:
        """A run that stays offline reaches no endpoint, and the error names the switch."""
        done = workbench(
            *("--offline", "run", "cluster", project, "--model", "one", "--paper"),
        )
        assert done.returncode != 0
        assert b"--offline" in done.stderr
        assert not peer.requests
