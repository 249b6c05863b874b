"""Searching a hub and listing a repository, and the errors made of its refusals."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from engine.base.errors import HubError, ModelError, UsageError, WorkbenchError
from engine.model.hub.access import Hub, hub_from_environment, read_repository, search
from tests.hub_server import COMMIT, TOKEN, HubServer, Repository, serving

REPOSITORIES = {
    "one/Small-GGUF": Repository({"small-q8_0.gguf": b"x" * 800, "small-q4_0.gguf": b"y" * 400, "README.md": b"#"}),
    "two/Smaller-GGUF": Repository({"a.gguf": b"z"}, license="mit", downloads=900, gated=True),
    "two/Hidden-GGUF": Repository({"a.gguf": b"z"}, private=True),
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[HubServer]:
    """A hub with a few repositories."""
    with serving(REPOSITORIES) as server:
        yield server


class TestSearch:
    def test_by_name(self, server: HubServer) -> None:
        """A search finds repositories with the word in their name, most downloaded first, with license and gating."""
        found = search(Hub(server.url), "small")
        assert [(one.name, one.license, one.gated, one.downloads) for one in found] == [
            ("two/Smaller-GGUF", "mit", True, 900),
            ("one/Small-GGUF", "apache-2.0", False, 100),
        ]
        assert {one.changed for one in found} == {"2026-05-04"}


class TestRepository:
    def test_a_piece_of_the_name(self, server: HubServer) -> None:
        """A file is found by a part of its name that no other has; otherwise the error lists the files."""
        found = read_repository(Hub(server.url), "one/Small-GGUF")
        assert found.find_file("Q8").path == "small-q8_0.gguf"
        assert found.find_file("small-q4_0.gguf").size == 400
        for piece in ("small", "q2", None):
            with pytest.raises(UsageError, match=r"one/Small-GGUF") as caught:
                found.find_file(piece)
            assert "small-q4_0.gguf" in caught.value.hint
            assert "small-q8_0.gguf" in caught.value.hint

    @pytest.mark.parametrize(
        "path", ["../evil.gguf", "a/../../evil.gguf", "/evil.gguf", "a b.gguf", "\x1b[2J.gguf", ".h.gguf", "a//b.gguf",
                 "a-00001-of-00002.gguf"]
    )  # fmt: skip
    def test_paths_that_are_none(self, path: str, server: HubServer) -> None:
        """Files whose path is unsafe, and parts of models, are left out and counted."""
        server.repositories = {"a/b": Repository({path: b"w", "good.gguf": b"w"})}
        found = read_repository(Hub(server.url), "a/b")
        assert ([file.path for file in found.files], found.left_out) == (["good.gguf"], 1)


class TestRefusals:
    @pytest.mark.parametrize("name", ["", "one", "a/b/c", "../x", "a/b\n", "a b/c"])
    def test_no_name(self, name: str, server: HubServer) -> None:
        """An invalid repository name is refused without a request."""
        with pytest.raises(UsageError, match="no name of a repository"):
            read_repository(Hub(server.url), name)
        assert server.requests == []

    def test_away(self, capfd: pytest.CaptureFixture[str]) -> None:
        """An unreachable hub is one error with its address and what to do; the library prints nothing."""
        with serving({}) as server:
            url = server.url
        with pytest.raises(ModelError) as caught:
            search(Hub(url), "x")
        address = f"127.0.0.1:{server.port}"
        assert caught.value.message == f"{address} cannot be reached (Connection refused)."
        assert "HF_ENDPOINT" in caught.value.hint
        assert capfd.readouterr() == ("", "")


MODEL = {"_id": "0", "id": "a/b", "sha": COMMIT, "tags": ["gguf"], "siblings": []}
LARGE = b"[" + b" " * (9 << 20) + b"]"


def repository(**wrong: object) -> bytes:
    """What a hub says of a repository, with something wrong in it."""
    return json.dumps({**MODEL, **wrong}).encode()


def file(size: object) -> dict[str, object]:
    """What a hub says of a file."""
    lfs = {"sha256": "0" * 64, "size": size, "pointerSize": 134}
    return {"rfilename": "a.gguf", "size": 1, "blobId": "0", "lfs": lfs}


class TestWrongAnswers:
    @pytest.mark.parametrize(
        ("said", "headers", "body"),
        [
            pytest.param("none of a hub", {}, b"<html><h1>Welcome</h1></html>", id="a page"),
            pytest.param("none of a hub", {}, b"[" * 100_000, id="nested"),
            pytest.param("none of a hub", {}, b'[7, "x", null]', id="other types"),
            pytest.param("over 8 MiB", {}, LARGE, id="large"),
            pytest.param("packed", {"Content-Encoding": "gzip"}, gzip.compress(LARGE), id="packed"),
            pytest.param("over 8 MiB", {"Location": "/api/models?x"}, LARGE, id="a large redirect"),
            pytest.param("in circles", {"Location": "/api/models?x"}, b"", id="circles"),
            pytest.param("another address", {"Location": "http://127.0.0.1:9/"}, b"", id="a port"),
            pytest.param("another address", {"Location": "//else.example/"}, b"", id="a host"),
            pytest.param("another address", {"Location": "http://[::1"}, b"", id="no address"),
            pytest.param("another address", {"Location": "http://127.0.0.1:x"}, b"", id="no port"),
            pytest.param("another address", {"Location": "file:///etc/passwd"}, b"", id="a file"),
        ],
    )
    def test_of_a_search(
        self, said: str, headers: dict[str, str], body: bytes, server: HubServer
    ) -> None:
        """What is no answer of a hub, too large, packed or sent in circles or away is one line of error."""
        server.answer = 302 if "Location" in headers else 200, headers, body
        with pytest.raises(HubError, match=said) as caught:
            search(Hub(server.url), "x")
        assert "\n" not in str(caught.value)


class TestQuiet:
    def test_nothing_is_told(self, server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Requests name the library only and none of the machine's others, also where it was imported before telemetry
        was switched off; no token is sent unasked.
        """
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
        search(Hub(server.url), "small")
        read_repository(Hub(server.url), "one/Small-GGUF")
        for asked in server.requests:
            assert "authorization" not in asked.headers
            assert "torch" not in asked.headers["user-agent"]


class TestWhichHub:
    @pytest.mark.parametrize(
        "url", ["hub.example", "ftp://hub.example", "https://", "http://[::1", "https://a:99999"]
    )
    def test_no_url(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """An address that is no URL is an error that says so."""
        monkeypatch.setenv("HF_ENDPOINT", url)
        with pytest.raises(UsageError, match="HF_ENDPOINT"):
            hub_from_environment()

    def test_password_in_url(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A password in the address is refused, because it would be stored in manifests, and is not repeated in the
        error.
        """
        monkeypatch.setenv("HF_ENDPOINT", "https://me:secret@hub.example")
        with pytest.raises(WorkbenchError) as caught:
            hub_from_environment()
        assert "secret" not in str(caught.value)

    def test_token_goes_encrypted(self) -> None:
        """A token is sent to a remote hub over https only."""
        assert Hub("https://hub.example", TOKEN).sent_token == TOKEN
        assert Hub("http://127.0.0.1:80", TOKEN).sent_token == TOKEN
        assert Hub("http://hub.example", TOKEN).sent_token is False
