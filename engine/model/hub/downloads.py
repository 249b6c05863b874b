"""Downloads one file of a repository of the hub, and resumes where an earlier download ended.

The bytes that have arrived are the only state: a download asks for those that are missing.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from engine.base import network_guard
from engine.base.errors import HubError, ModelError
from engine.model.catalog_files import HubFile
from engine.model.endpoints.pacing import wait_after
from engine.model.hub.access import BUSY_STATUSES, Hub, hub_library, port_of

MAX_ATTEMPTS = 8
"""Most connections in a row that bring no data."""

WHOLE_FILE, PIECE, NO_SUCH_PIECE = 200, 206, 416
"""Status codes of an answer with the file from its beginning, with the piece that was asked for, and of a refusal
because the file ends before the piece."""

MAX_REDIRECTS = 5
"""Most requests on the way from the hub to the file."""

_RANGE = re.compile(r"bytes (?P<first>\d+)-\d+/(\d+|\*)")
"""Header of an answer that gives a piece, like `bytes 500-999/1000`: the first byte of the piece."""


class _RetryLater(Exception):
    """The connection failed and may be tried again."""

    def __init__(self, why: str, headers: Mapping[str, str] | None = None) -> None:
        """Creates the exception.

        Args:
            why: A sentence without its end.
            headers: Headers of the answer, which may say how long to wait; None for none.
        """
        super().__init__(why)
        self.headers: Mapping[str, str] = headers or {}


@dataclass(slots=True)
class Download:
    """The download of one file of a repository, which can be resumed at any moment.

    Attributes:
        revision: A commit, so that a resumed file is the file that was begun.
        file: The file in the repository.
        target: Path of the file while it is incomplete.
        report: Called after each piece with the number of bytes in `target` and the host that the hub redirects the
            download to ("" for none), and once before that host is asked.
    """

    hub: Hub
    repository: str
    revision: str
    file: HubFile
    target: Path
    report: Callable[[int, str], None]
    _redirect_host: str = ""

    def run(self) -> None:
        """Downloads until every byte is there.

        Raises:
            ModelError: The hub refuses, sends something else, or is away for too long; the disk is full.
            NetworkRefused: A switch forbids the network.
        """
        hub_library()
        attempt = 0
        with self.hub.client() as client:
            while (have := self._bytes_on_disk()) < self.file.size:
                try:
                    self._request_from(client, have)
                    failure = _RetryLater("the connection ended early")
                except _RetryLater as error:
                    failure = error
                if self._bytes_on_disk() >= self.file.size:
                    return
                # Only attempts that bring nothing count.
                attempt = 0 if self._bytes_on_disk() > have else attempt + 1
                if attempt >= MAX_ATTEMPTS:
                    raise self._final_error(failure) from failure
                time.sleep(wait_after(max(0, attempt - 1), failure.headers, jitter=0.0))

    def _bytes_on_disk(self) -> int:
        """Returns the number of bytes that have arrived."""
        return self.target.stat().st_size if self.target.exists() else 0

    def _request_from(self, client: Any, have: int) -> None:
        """Requests the bytes from number `have` on, follows the hub to where the file lies, and writes what arrives.

        Raises:
            _RetryLater: The connection failed, or the server is busy.
        """
        import httpx2
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers

        url = hf_hub_url(
            self.repository, self.file.path, revision=self.revision, endpoint=self.hub.url
        )
        headers = build_hf_headers(token=self.hub.sent_token)
        headers |= {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
        try:
            with contextlib.ExitStack() as stack:
                for _ in range(MAX_REDIRECTS):
                    host = urlsplit(url).hostname or ""
                    stack.enter_context(network_guard.reaching(host, port_of(url)))
                    answer = stack.enter_context(client.stream("GET", url, headers=headers))
                    if not answer.has_redirect_location:
                        self._write_answer(answer, have, host)
                        return
                    url = self._redirected(url, answer.headers["location"], headers)
                raise HubError(f"{self.hub.host} sends the download in circles.")
        except httpx2.TransportError as error:
            raise _RetryLater(str(error) or type(error).__name__) from error
        except httpx2.InvalidURL as error:
            raise self._bad_redirect_error() from error

    def _redirected(self, url: str, location: str, headers: dict[str, str]) -> str:
        """Returns the URL that a redirect leads to. The token is sent to the hub only, and https stays https."""
        try:
            target = urljoin(url, location)
            parts, port = urlsplit(target), port_of(target)
        except ValueError as error:
            raise self._bad_redirect_error() from error
        host = parts.hostname or ""
        if parts.scheme != "https" and not (parts.scheme == "http" and url.startswith("http://")):
            raise HubError(f"{self.hub.host} sends the download to {host} unencrypted.")
        hub = self.hub
        if (parts.scheme, host, port) != (urlsplit(hub.url).scheme, hub.host, hub.port):
            headers.pop("authorization", None)
            if network_guard.is_this_machine(host) and not network_guard.is_this_machine(hub.host):
                raise HubError(f"{hub.host} sends the download to this machine.")
            self._redirect_host = host
            self.report(self._bytes_on_disk(), host)
        return target

    def _bad_redirect_error(self) -> HubError:
        """Returns the error for a redirect to something that is no address."""
        return HubError(f"{self.hub.host} sends the download to an address that is none.")

    def _write_answer(self, answer: Any, have: int, host: str) -> None:
        """Writes what arrives to the file after its first `have` bytes; from its beginning where the server does not
        resume."""
        if answer.status_code in BUSY_STATUSES:
            raise _RetryLater(f"{host} answered {answer.status_code}", answer.headers)
        if answer.status_code == NO_SUCH_PIECE:
            self.target.unlink(missing_ok=True)
            raise _RetryLater(f"{host} does not have the rest")
        if answer.status_code not in (WHOLE_FILE, PIECE):
            self._refuse(answer, host)
        piece_range = _RANGE.match(answer.headers.get("content-range", ""))
        if answer.status_code == WHOLE_FILE:
            have = 0
        elif piece_range is None or int(piece_range["first"]) != have:
            raise HubError(f"{host} sent another piece than was asked for.", "Pull again.")
        try:
            with self.target.open("r+b" if self.target.exists() else "wb") as file:
                file.truncate(have)
                file.seek(have)
                for piece in answer.iter_raw():
                    have += len(piece)
                    if have > self.file.size:
                        raise HubError(
                            f"{host} sent more than the {self.file.size:,} bytes of the file.",
                            "Remove the pull and begin again.",
                        )
                    file.write(piece)
                    self.report(have, self._redirect_host)
        except OSError as error:
            raise HubError(
                f"{self.target.parent} cannot take the download ({error.strerror}).",
                "Make room there; pulling again goes on where it stopped.",
            ) from error

    def _refuse(self, answer: Any, host: str) -> None:
        """Raises the error for an answer that is no file."""
        from huggingface_hub.utils import hf_raise_for_status

        if host == self.hub.host:
            answer.read()
            with self.hub.translated_errors(self.repository):
                hf_raise_for_status(answer)
        raise HubError(f"{host} answered {answer.status_code}.", "Run it again later.")

    def _final_error(self, why: Exception) -> ModelError:
        """Returns the error for a download that no further attempt is made at."""
        error = self.hub.unreachable_error(why)
        arrived = f"{self._bytes_on_disk() / 1e6:,.1f} of {self.file.size / 1e6:,.1f} MB have arrived and are kept."
        return HubError(f"{error.message} {arrived}", "Pulling again goes on where it stopped.")
