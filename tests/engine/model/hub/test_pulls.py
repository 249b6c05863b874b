"""Downloads from a hub: interrupted, throttled, damaged, redirected, refused; and what is left on disk each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base import network_guard
from engine.base.errors import ModelError, ModelFileError, NetworkRefused, UsageError
from engine.model.catalog_files import HubFile, Manifest, known_sha256, manifest_path, pulled_models
from engine.model.endpoints import pacing
from engine.model.gguf_file import read_gguf
from engine.model.hub import pulls
from engine.model.hub.access import Hub, read_repository
from engine.model.hub.pulls import (
    PullPlan,
    PullProgress,
    carry_out,
    forget,
    plan_pull,
    unfinished_pulls,
)
from tests.engine.model.tiny import write_sliding
from tests.hub_server import COMMIT, TOKEN, FaultyAnswer, HubServer, Repository, serving

NAME = "someone/Tiny-GGUF"
FILE = "tiny-f32.gguf"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model file small enough to be served a hundred times."""
    return write_sliding(tmp_path_factory.mktemp("served") / "tiny.gguf").read_bytes()


@pytest.fixture
def server(content: bytes) -> Iterator[HubServer]:
    """A hub with one repository."""
    with serving({NAME: Repository({FILE: content})}) as server:
        yield server


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the waits between attempts."""
    monkeypatch.setattr(pacing, "FIRST_WAIT", 0.0)


def planned(server: HubServer, data: Path, token: str = "") -> tuple[Hub, PullPlan]:
    """The hub, and the pull plan for its one file."""
    hub = Hub(server.url, token)
    repository = read_repository(hub, NAME)
    return hub, plan_pull(data, hub, repository, repository.find_file(None))


def pulled(
    server: HubServer,
    data: Path,
    report: Callable[[PullProgress], None] = lambda _: None,
    token: str = "",
) -> PullPlan:
    """Pulls the one file."""
    hub, plan = planned(server, data, token)
    carry_out(hub, plan, report)
    return plan


def left(data: Path) -> set[str]:
    """Names of the files that are on disk."""
    return {path.name for path in data.rglob("*") if path.is_file()}


class TestWhole:
    def test_file_and_manifest(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """The file is on disk byte for byte with a manifest of its source, and nothing else."""
        plan = pulled(server, tmp_path)
        assert plan.model_path.read_bytes() == content
        assert left(tmp_path) == {FILE, "tiny-f32.manifest.json"}
        ((file, manifest),) = pulled_models(tmp_path)
        assert file == plan.model_path
        digest = hashlib.sha256(content).hexdigest()
        assert (manifest.name, manifest.repository, manifest.revision) == ("tiny-f32", NAME, COMMIT)
        assert (manifest.hub, manifest.license) == (server.url, "apache-2.0")
        pulled_file = manifest.file
        assert (pulled_file.path, pulled_file.size, pulled_file.sha256) == (
            FILE,
            len(content),
            digest,
        )
        assert known_sha256(file) == digest
        assert manifest.pulled_at.endswith("+00:00")
        read_gguf(file)

    def test_progress(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """The byte count rises to the size of the file; then the file is checked."""
        reported: list[PullProgress] = []
        pulled(server, tmp_path, reported.append)
        pulls = [one.done for one in reported if not one.checking]
        assert pulls == sorted(pulls)
        assert (pulls[0], pulls[-1]) == (0, len(content))
        assert (reported[-1].checking, reported[-1].done) == (True, len(content))


class TestInterrupted:
    def test_cut_connections(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """After a cut connection the next request asks for the rest only, and the file is complete in the end."""
        server.faults.extend([FaultyAnswer(cut=1000), FaultyAnswer(cut=5000), FaultyAnswer(cut=1)])
        plan = pulled(server, tmp_path)
        assert plan.model_path.read_bytes() == content
        ranges = [one.headers["range"] for one in server.downloads]
        assert ranges == ["bytes=0-", "bytes=1000-", "bytes=6000-", "bytes=6001-"]

    def test_gives_up_and_goes_on_later(
        self, server: HubServer, content: bytes, tmp_path: Path
    ) -> None:
        """A pull from an unavailable hub ends and keeps what has arrived; the next pull resumes there."""
        server.faults.append(FaultyAnswer(cut=1234))
        server.faults.extend(FaultyAnswer(cut=0) for _ in range(pulls.MAX_ATTEMPTS))
        with pytest.raises(ModelError, match="have arrived and are kept"):
            pulled(server, tmp_path)
        (plan,) = unfinished_pulls(tmp_path)
        assert (plan.bytes_on_disk, plan.size) == (1234, len(content))
        assert pulled_models(tmp_path) == []

        carry_out(Hub(server.url), plan, lambda _: None)
        assert plan.model_path.read_bytes() == content
        assert server.downloads[-1].headers["range"] == "bytes=1234-"
        assert unfinished_pulls(tmp_path) == []

    def test_by_a_person(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """ctrl+c ends the pull between two pieces and keeps them; a resumed pull completes the file."""
        hub, plan = planned(server, tmp_path)

        def report(progress: PullProgress) -> None:
            if progress.done:
                raise KeyboardInterrupt

        server.faults.append(FaultyAnswer(cut=2000))
        with pytest.raises(KeyboardInterrupt):
            carry_out(hub, plan, report)
        assert 0 < plan.bytes_on_disk <= 2000
        (found,) = unfinished_pulls(tmp_path)
        assert found == plan
        carry_out(hub, found, lambda _: None)
        assert plan.model_path.read_bytes() == content

    def test_two_at_a_time(self, server: HubServer, tmp_path: Path) -> None:
        """A pull that is in progress cannot be started a second time, and its parts cannot be discarded."""
        hub, plan = planned(server, tmp_path)
        refused: list[UsageError] = []

        def report(progress: PullProgress) -> None:
            if progress.done and not refused:
                for act in (
                    lambda: carry_out(hub, plan, lambda _: None),
                    lambda: forget(plan),
                ):
                    with pytest.raises(UsageError, match="being pulled already") as caught:
                        act()
                    refused.append(caught.value)

        carry_out(hub, plan, report)
        assert len(refused) == 2
        assert plan.model_path.is_file()


class TestDamaged:
    def test_one_bit(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """One wrong bit is detected and the file deleted; it is in no catalog, and the next pull begins anew."""
        server.faults.append(FaultyAnswer(flip=len(content) // 2))
        with pytest.raises(ModelFileError, match="arrived damaged"):
            pulled(server, tmp_path)
        assert left(tmp_path) == set()
        assert pulled(server, tmp_path).model_path.read_bytes() == content


class TestRefused:
    def test_no_room(
        self, server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Too little disk space is an error before the first request, and nothing is left on disk."""
        monkeypatch.setattr(pulls, "free_space", lambda folder: pulls.SPARE_BYTES + 1000)
        with pytest.raises(ModelError, match=r"GB have to stay free") as caught:
            pulled(server, tmp_path)
        assert str(tmp_path) in caught.value.message
        assert server.downloads == []
        assert left(tmp_path) == set()

    def test_gated(self, server: HubServer, tmp_path: Path) -> None:
        """The error about a gated file says where to accept its terms and where to put the token; with a token it is
        pulled.
        """
        server.repositories[NAME].gated = True
        with pytest.raises(ModelError, match="is gated") as caught:
            pulled(server, tmp_path)
        assert f"{server.url}/{NAME}" in caught.value.hint
        assert "HF_TOKEN" in caught.value.hint
        assert left(tmp_path) == set()
        pulled(server, tmp_path, token=TOKEN)

    def test_switch(
        self, server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While an offline switch is on, nothing is pulled."""
        hub, plan = planned(server, tmp_path)
        monkeypatch.setenv(network_guard.VARIABLE, "1")
        with pytest.raises(NetworkRefused, match=network_guard.VARIABLE):
            carry_out(hub, plan, lambda _: None)
        assert server.downloads == []
        assert left(tmp_path) == set()

    @pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 300])
    def test_names(self, name: str, server: HubServer, tmp_path: Path) -> None:
        """A name that is empty, too long, or has a slash or a line break is refused."""
        hub = Hub(server.url)
        repository = read_repository(hub, NAME)
        with pytest.raises(UsageError, match="cannot be the name"):
            plan_pull(tmp_path, hub, repository, repository.find_file(None), name)


class TestSentOn:
    def test_elsewhere(self, server: HubServer, content: bytes, tmp_path: Path) -> None:
        """The host of a redirected download is shown, allowed by the guard, and not given the token."""
        server.elsewhere = True
        server.faults.append(FaultyAnswer(cut=1000))
        reported: list[PullProgress] = []
        plan = pulled(server, tmp_path, reported.append, TOKEN)
        assert plan.model_path.read_bytes() == content
        assert "from localhost" in {one.redirect for one in reported}
        there = [one for one in server.downloads if one.host.startswith("localhost")]
        assert len(there) == 2
        assert not any("authorization" in one.headers for one in there)
        here = [one for one in server.downloads if one.host.startswith("127.")]
        assert {one.headers["authorization"] for one in here} == {f"Bearer {TOKEN}"}

    def test_unencrypted(self, content: bytes, tmp_path: Path) -> None:
        """A redirect from https to http is refused."""
        hub = Hub("https://hub.example", TOKEN)
        download = pulls.Download(hub, _plan(content, tmp_path), lambda _, __: None)
        with pytest.raises(ModelError, match="unencrypted"):
            download._redirected("https://hub.example/a", "http://cdn.example/a", {})

    def test_this_machine(self, content: bytes, tmp_path: Path) -> None:
        """A redirect of a remote hub to this machine is refused."""
        hub = Hub("https://hub.example")
        download = pulls.Download(hub, _plan(content, tmp_path), lambda _, __: None)
        with pytest.raises(ModelError, match="to this machine"):
            download._redirected("https://hub.example/a", "https://127.0.0.1/a", {})


def _plan(content: bytes, folder: Path) -> PullPlan:
    file = HubFile(FILE, len(content), hashlib.sha256(content).hexdigest())
    return PullPlan(folder, Manifest("x", "https://hub.example", NAME, COMMIT, "", "", file))


def test_no_token_on_disk(server: HubServer, tmp_path: Path) -> None:
    """Plan and manifest contain no token, nor does the printed form of a hub."""
    server.repositories[NAME].gated = True
    server.faults.append(FaultyAnswer(cut=100))
    server.faults.extend(FaultyAnswer(cut=0) for _ in range(pulls.MAX_ATTEMPTS))
    with pytest.raises(ModelError):
        pulled(server, tmp_path, token=TOKEN)
    (plan,) = unfinished_pulls(tmp_path)
    assert TOKEN not in plan.plan_path.read_text()
    carry_out(Hub(server.url, TOKEN), plan, lambda _: None)
    assert TOKEN not in manifest_path(plan.model_path).read_text()
    assert TOKEN not in repr(Hub(server.url, TOKEN))
    assert json.loads(manifest_path(plan.model_path).read_text())["hub"] == server.url
