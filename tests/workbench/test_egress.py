"""What leaves this machine for an endpoint on another one: nothing before it is allowed, and no personal data that the
program finds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.conversations.personal_data import Redactor
from engine.model.service.endpoints import ALLOWED_SETTING
from engine.opener.open_project import OpenProject
from engine.project import settings
from engine.simulate.demo import write_jsonl
from tests.command_line import data, workbench
from tests.engine.model.endpoints.scripted_server import KINDS, scripted
from tests.engine.model.endpoints.toy_peer import ToyPeer, running

ADDRESS = "ann.lee@example.com"


def remote_url(peer: ToyPeer) -> str:
    """The URL of a server on this machine by an address that is not one of loopback."""
    return peer.url.replace("127.0.0.1", "0.0.0.0")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of two conversations with the same address in both."""
    made = [
        Conversation(
            name,
            (
                Message("user", f"{name}: write to {ADDRESS}, please."),
                Message("assistant", "Done."),
            ),
        )
        for name in ("first", "second")
    ]
    write_jsonl(made, tmp_path / "logs.jsonl")
    assert workbench("import", tmp_path / "p.wb", tmp_path / "logs.jsonl").returncode == 0
    return tmp_path / "p.wb"


def summarize(project: Path, model: str) -> int:
    command = ("run", "cluster", project, "--paper", "--model", model)
    return workbench(*command, "--decide", "none", "--k1", "1").returncode


def test_another_machine(project: Path) -> None:
    """Nothing is sent before it is allowed; what would be is shown, with one request in full; then the same address has
    the same pseudonym in all that is sent."""
    with running("chat") as peer:
        url = remote_url(peer)
        assert workbench("models", "add", url, "--name", "far").returncode == 0
        peer.requests.clear()
        assert summarize(project, "far") != 0
        assert not peer.requests
        shown = data(workbench("models", "allow", project, "far", "--yes", "--json"))
        assert not peer.requests
        assert (shown["conversations"], shown["with_personal_data"], shown["redacted"]) == (
            2,
            2,
            True,
        )
        summarize(project, "far")  # the toy model writes no summaries
        sent = [json.dumps(request) for request in peer.requests]
        assert len(sent) >= 2
        assert ADDRESS not in "".join(sent)
        pseudonyms = set(re.findall(r"\[email \w+\]", "".join(sent)))
        assert len(pseudonyms) == 1
        assert pseudonyms.pop() in json.dumps(shown["first_request"])


def test_a_watch_over_another_machine(project: Path, tmp_path: Path) -> None:
    """A watch that would send new conversations to another machine, to assign them to goals, is refused before it
    starts, where that is not allowed."""
    with scripted(KINDS["vllm"]) as server:
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        assert workbench("models", "add", url, "--name", "far").returncode == 0
        assert workbench("models", "use", project, "far", "--for", "goals").returncode == 0
        assert workbench("models", "allow", project, "far", "--yes").returncode == 0
        assert summarize(project, "far") == 0
        with OpenProject(project) as workspace:
            workspace.project.write(lambda conn: settings.put(conn, ALLOWED_SETTING, []))
        server.bodies.clear()
        refused = workbench("watch", project, tmp_path / "logs.jsonl", "--once")
        assert not server.bodies
    assert refused.returncode != 0
    assert b"nobody allowed it" in refused.stderr


def test_as_it_is(project: Path) -> None:
    """Personal data is sent to another machine where that was asked for."""
    with running("chat") as peer:
        add = ("models", "add", remote_url(peer), "--name", "far", "--as-is")
        assert workbench(*add).returncode == 0
        assert workbench("models", "allow", project, "far", "--yes").returncode == 0
        summarize(project, "far")
        assert ADDRESS in json.dumps(peer.requests)


def test_pseudonyms_by_a_secret() -> None:
    """With a secret an address has the same pseudonym in all runs, and another one with another secret."""
    text = f"Write to {ADDRESS}."
    assert Redactor("a").text(text) == Redactor("a").text(text) != Redactor("b").text(text)
