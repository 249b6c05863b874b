"""A hub on this machine: as much of the API as `huggingface_hub` uses to search, look and download, and its faults.

A test scripts the downloads that go wrong: each answer takes the next `FaultyAnswer` of `faults`, then all are whole.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.engine.model.endpoints.toy_peer import QuietServer

COMMIT = "c0ffee" + "0" * 34
TOKEN = "hf_canary_0123456789"
_RESOLVE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_API = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+)(/revision/(?P<revision>[^/]+))?")


@dataclass
class Repository:
    """What the hub has of a name.

    Attributes:
        files: Content by path.
        sizes: Sizes that it claims in place of the right ones.
    """

    files: dict[str, bytes]
    license: str = "apache-2.0"
    gated: bool = False
    private: bool = False
    downloads: int = 100
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class FaultyAnswer:
    """One answer that is not as it should be.

    Attributes:
        cut: The connection ends after so many bytes.
        flip: The byte at this place of the file is another one.
        hold: The answer stops after `cut` bytes until this is set.
    """

    cut: int | None = None
    flip: int | None = None
    hold: threading.Event | None = None


@dataclass
class HubRequest:
    """One request: what was asked for, of which host, with which headers."""

    method: str
    path: str
    host: str
    headers: dict[str, str]


class HubServer:
    """Serves repositories on a port of this machine until it is closed.

    Attributes:
        elsewhere: Downloads are sent on to the name `localhost`, which is another host than the hub's address.
        answer: Status, headers and body of each answer about models, in place of the truth.
        requests: Everything that was asked.
    """

    def __init__(self, repositories: dict[str, Repository]) -> None:
        self.repositories = repositories
        self.faults: deque[FaultyAnswer] = deque()
        self.elsewhere = False
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        self.requests: list[HubRequest] = []
        hub = self

        class Handler(_Handler):
            server_hub = hub

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def downloads(self) -> list[HubRequest]:
        """The requests for files."""
        return [one for one in self.requests if "/resolve/" in one.path or "/blob/" in one.path]


@contextmanager
def serving(repositories: dict[str, Repository]) -> Iterator[HubServer]:
    """A hub for the time of a block."""
    server = HubServer(repositories)
    try:
        yield server
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    server_hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, where = self.server_hub, urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.requests.append(HubRequest(self.command, self.path, headers.get("host", ""), headers))
        if where.path.startswith("/api/models") and hub.answer:
            status, headers, body = hub.answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
        elif where.path == "/api/models":
            self._found(parse_qs(where.query))
        elif api := _API.fullmatch(where.path):
            self._info(api["name"], api["revision"])
        elif place := _RESOLVE.fullmatch(where.path):
            if hub.elsewhere:
                self._refuse(302, location=f"http://localhost:{hub.port}/blob{where.path}")
            else:
                self._file(place["name"], place["path"], place["revision"])
        elif (place := _RESOLVE.fullmatch(where.path.removeprefix("/blob"))) is not None:
            self._file(place["name"], place["path"], place["revision"])
        else:
            self._refuse(404, "EntryNotFound")

    # The API

    def _found(self, query: dict[str, list[str]]) -> None:
        word = query.get("search", [""])[0].lower()
        wanted = set(query.get("expand", []))
        found = sorted(self.server_hub.repositories.items(), key=lambda pair: -pair[1].downloads)
        names = [(name, one) for name, one in found if word in name.lower() and not one.private]
        limit = int(query.get("limit", ["20"])[0])
        self._json([self._model(name, one, wanted) for name, one in names[:limit]])

    def _model(self, name: str, one: Repository, wanted: set[str]) -> dict[str, Any]:
        known = {
            "downloads": one.downloads,
            "likes": 7,
            "gated": "manual" if one.gated else False,
            "tags": ["gguf", f"license:{one.license}"],
            "lastModified": "2026-05-04T10:00:00.000Z",
        }
        return {"_id": "0", "id": name, **{key: known[key] for key in known if key in wanted}}

    def _info(self, name: str, revision: str | None) -> None:
        one = self._seen(name)
        if one is None:
            return
        if revision not in (None, "main", COMMIT):
            self._refuse(404, "RevisionNotFound")
            return
        siblings = []
        for path, content in one.files.items():
            sha = hashlib.sha256(content).hexdigest()
            size = one.sizes.get(path, len(content))
            lfs = {"size": size, "sha256": sha, "pointerSize": 134}
            siblings.append({"rfilename": path, "size": size, "blobId": "0" * 40, "lfs": lfs})
        self._json(
            {
                **self._model(name, one, {"downloads", "likes", "gated", "tags", "lastModified"}),
                "sha": COMMIT,
                "private": one.private,
                "cardData": {"license": one.license},
                "siblings": siblings,
            }
        )

    def _seen(self, name: str) -> Repository | None:
        """A repository, unless it may not be seen, which is answered here."""
        one = self.server_hub.repositories.get(name)
        given = self.headers.get("authorization", "")
        if given and given != f"Bearer {TOKEN}":
            self._refuse(401, message="Invalid credentials in Authorization header")
            return None
        if one is None or (one.private and not given):
            self._refuse(401 if not given else 404, "RepoNotFound")
            return None
        return one

    # Files

    def _file(self, name: str, path: str, revision: str) -> None:
        one = self.server_hub.repositories.get(name)
        if not self.path.startswith("/blob"):
            one = self._seen(name)
            if one is None:
                return
            if one.gated and not self.headers.get("authorization"):
                self._refuse(401, "GatedRepo")
                return
        if one is None or path not in one.files or revision not in ("main", COMMIT):
            self._refuse(404, "EntryNotFound")
            return
        faults = self.server_hub.faults
        self._send(one.files[path], faults.popleft() if faults else FaultyAnswer())

    def _send(self, content: bytes, fault: FaultyAnswer) -> None:
        if fault.flip is not None:
            content = (
                content[: fault.flip] + bytes([content[fault.flip] ^ 1]) + content[fault.flip + 1 :]
            )
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        start = int(asked[1]) if asked else 0
        if start >= len(content):
            self._refuse(416)
            return
        body = content[start:]
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if fault.cut is None else body[: fault.cut])
        if fault.cut is not None:
            self.wfile.flush()
            if fault.hold is not None:
                fault.hold.wait(30)
            self.close_connection = True

    # Answers

    def _json(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(
        self, status: int, code: str = "", *, message: str = "", location: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in (
            ("X-Error-Code", code), ("X-Error-Message", message), ("Location", location),
        ):  # fmt: skip
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
