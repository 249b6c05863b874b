"""Asks the hub, a server from which models are downloaded: searches repositories with GGUF files, and lists the files
of a repository with sizes and checksums.

These rules hold for all requests of this module:
- The guard of the network lets the hub's own host through while a request runs, and no other host.
- The token comes from the environment, and goes to the hub's host only, over an encrypted connection or to this
  machine. It is in no message, no log and no file.
- Answers about models are limited in bytes and in time. An answer that is not what was asked for is a `HubError`.
- File names are used as paths only if they are plain names.

Nothing is known of what the hub stores about the requests that it answers.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from engine.base import network_guard
from engine.base.errors import HubError, ModelError, NetworkRefused, UsageError, WorkbenchError
from engine.base.text import one_line
from engine.model.catalog_files import HubFile
from engine.model.records import HubModel, HubRepository

DEFAULT_HUB = "https://huggingface.co"
"""The hub that is asked if `HF_ENDPOINT` names none."""

TOKEN = "HF_TOKEN"
"""Name of the environment variable with the token for the hub."""

READ_SECONDS = 10.0
"""Seconds without an answer before a request fails."""

CONNECT_SECONDS = 4.0

QUESTION_SECONDS = 60.0
"""Seconds until a question is answered whole, with its redirects and all pages of a list."""

MAX_ANSWER_BYTES = 8 << 20
"""Most bytes of an answer about models: what the hub says of 50 repositories, or of 20,000 files."""

MAX_REDIRECTS = 5
"""Most redirects that a question follows."""

_NO_HUB_HINT = "Look at HF_ENDPOINT; if it names a hub, run it again later."
"""Hint about a server that answers otherwise than a hub."""

SETTINGS = {
    **network_guard.SILENT,
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
"""Environment variables for `huggingface_hub`, which reads them when it is imported."""

BUSY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes of errors that may be temporary."""

TOO_MANY_REQUESTS = 429
"""Status code of a hub that asks to wait."""

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
"""Matches the number that an error of the system has in front of its text, like `[Errno 111] `."""

_api_lock = threading.Lock()
"""Held while a thread asks the hub: the library has one HTTP client for the process."""

MAX_REPOSITORIES = 50
"""Most repositories that a search returns."""

_PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9][\w.+-]*/)*[A-Za-z0-9][\w.+-]*\.gguf")
"""Matches a path in a repository that is safe as a path on disk: made of plain names, none of which begins with a
dot."""

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
"""Matches the end of the path of one of several files that make a model, like `a/model-00001-of-00003.gguf`."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
"""Matches a SHA-256 in hex."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
"""Matches the hash of a commit in hex."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Matches OWNER/NAME of a repository."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A model hub.

    Attributes:
        url: URL of the hub, without a slash at the end.
        token: Token of an account; empty for none.
    """

    url: str
    token: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """The name or address of its machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The TCP port that it answers on."""
        return port_of(self.url)

    @property
    def sent_token(self) -> str | bool:
        """The `token` argument for `huggingface_hub`: False if there is none or the connection would be unencrypted."""
        is_private = self.url.startswith("https://") or network_guard.is_this_machine(self.host)
        return self.token if self.token and is_private else False

    @contextlib.contextmanager
    def api_session(self, repository: str = "") -> Iterator[Any]:
        """Yields the client of the hub, while its host can be reached; one thread at a time.

        Args:
            repository: The repository that is asked for, for messages; "" for none.

        Raises:
            ModelError: The hub cannot be reached, does not know what was asked for, or refuses it.
            NetworkRefused: A switch forbids the network.
            UsageError: `repository` is no name of a repository.
        """
        library = hub_library()
        with _api_lock, network_guard.reaching(self.host, self.port):
            deadline = time.monotonic() + QUESTION_SECONDS
            library.set_client_factory(lambda: self._api_client(deadline))
            try:
                with self.translated_errors(repository):
                    yield library.HfApi(endpoint=self.url, token=self.sent_token)
            finally:
                # A connection that stayed open could be used later, when nobody asks for anything.
                library.close_session()

    def client(self) -> Any:
        """Returns an HTTP client for downloads, which follows no redirect; it reads at most `MAX_ANSWER_BYTES` of a
        refusal."""
        import httpx2

        def limit_refusal(answer: Any) -> None:
            """Limits an answer that is no file: the file itself may be of any size."""
            if not answer.is_success:
                self._limit_content(answer)

        return httpx2.Client(event_hooks={"response": [limit_refusal]}, **self._settings())

    def _settings(self) -> dict[str, Any]:
        """Returns the settings that all clients of the hub share."""
        import httpx2

        return {
            "timeout": httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            "trust_env": False,  # a proxy would be another machine than the one that was named
            "verify": ssl.create_default_context() if self.url.startswith("https://") else False,
        }

    def _limit_content(self, answer: Any, deadline: float = math.inf) -> None:
        """Makes an answer raise HubError when more than `MAX_ANSWER_BYTES` of it are read, or after a deadline.

        The time limit of each read would not end an answer that comes a byte at a time.

        Args:
            deadline: Time of the monotonic clock, in seconds, after which no more is read.

        Raises:
            HubError: It is packed, which nobody asked for: a few bytes may then be any number of them.
        """
        import httpx2

        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise HubError(
                f"{self.host} sent a packed answer, which was not asked for.", _NO_HUB_HINT
            )
        # Local names: inside the class below, `self` is the content.
        stream, host, check_deadline = answer.stream, self.host, self._check_deadline

        class Bounded(httpx2.SyncByteStream):  # type: ignore[misc]
            """The content of the answer, up to the limit."""

            def __iter__(self) -> Iterator[bytes]:
                """Yields the parts; raises HubError at a limit."""
                size = 0
                for part in stream:
                    check_deadline(deadline)
                    size += len(part)
                    if size > MAX_ANSWER_BYTES:
                        raise HubError(
                            f"{host} answered with over {MAX_ANSWER_BYTES >> 20} MiB.", _NO_HUB_HINT
                        )
                    yield part

            def close(self) -> None:
                """Closes the connection."""
                stream.close()

        answer.stream = Bounded()

    def _check_deadline(self, deadline: float) -> None:
        """Raises HubError after a time of the monotonic clock, in seconds."""
        if time.monotonic() > deadline:
            raise HubError(
                f"{self.host} did not finish its answer within {QUESTION_SECONDS:.0f} s.",
                "Run it again later.",
            )

    def _refuse_other_host(self, answer: Any) -> None:
        """Raises HubError for a redirect that leads away from the hub, or nowhere."""
        if not answer.has_redirect_location:
            return
        try:
            target = urlsplit(urljoin(str(answer.url), answer.headers["location"]))
            stays = (target.hostname, port_of(target.geturl())) == (self.host, self.port)
        except ValueError:
            stays = False
        if not stays:
            raise HubError(
                f"{self.host} sends the question on to another address, which is not followed.",
                "Name the other hub in HF_ENDPOINT if you trust it.",
            )

    def _api_client(self, deadline: float) -> Any:
        """Returns the HTTP client for the library; it follows redirects that stay on the hub, until the deadline.

        By itself the library tries an unreachable or busy hub six times, for half a minute, and prints that. Here a
        person waits, so the first failure is final.
        """
        import httpx2

        client = httpx2.Client(
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            event_hooks={
                "response": [
                    partial(self._limit_content, deadline=deadline),
                    self._refuse_other_host,
                ]
            },
            **self._settings(),
        )
        send = client.send

        def send_once(request: Any, **options: Any) -> Any:
            """Sends a request without packing and without a second attempt."""
            self._check_deadline(deadline)
            request.headers["Accept-Encoding"] = "identity"
            try:
                answer = send(request, **options)
            except httpx2.TransportError as error:
                raise self.unreachable_error(error) from error
            if answer.status_code in BUSY_STATUSES:
                raise self.busy_error(answer.status_code)
            return answer

        client.send = send_once
        return client

    def unreachable_error(self, why: Exception) -> ModelError:
        """Returns the error for a hub that does not answer."""
        reason = _ERRNO.sub("", one_line(str(why))) or type(why).__name__
        return HubError(
            f"{urlsplit(self.url).netloc} cannot be reached ({reason}).",
            "Look at the connection, or name another hub in HF_ENDPOINT; then run it again.",
        )

    def busy_error(self, status: int) -> ModelError:
        """Returns the error for a hub that answers with a status that has no error of its own."""
        if status == TOO_MANY_REQUESTS:
            return HubError(f"{self.host} asks to wait.", "Run it again in some minutes.")
        return HubError(f"{self.host} answered {status}.", "Run it again later.")

    @contextlib.contextmanager
    def translated_errors(self, repository: str) -> Iterator[None]:
        """Translates exceptions of a request in the block into errors of this program.

        Args:
            repository: The repository that is asked about; "" for none.

        Raises:
            UsageError: `repository` is no name of a repository.
            HubError: The hub cannot be reached, refuses, or answers otherwise than a hub.
        """
        import httpx2
        from huggingface_hub import errors

        try:
            yield
        except WorkbenchError:
            raise
        except errors.HFValidationError as error:
            raise _no_repository_error(repository) from error
        except errors.HfHubHTTPError as error:
            raise self._refusal(error, repository) from error
        except httpx2.TransportError as error:
            raise self.unreachable_error(error) from error
        except httpx2.TooManyRedirects as error:
            raise HubError(f"{self.host} sends the question in circles.", _NO_HUB_HINT) from error
        except Exception as error:
            # The library raises whatever a wrong answer makes it stumble over.
            raise HubError(
                f"{self.host} gave an answer that is none of a hub ({type(error).__name__}).",
                _NO_HUB_HINT,
            ) from error

    def _refusal(self, error: Any, repository: str) -> ModelError:
        """Returns the error for a refusal of the hub, by its kind and its HTTP status; what the hub wrote is not shown.

        Args:
            error: The error of `huggingface_hub`.
            repository: The repository that was asked about; empty for a search.
        """
        from huggingface_hub import errors

        status = error.response.status_code if error.response is not None else 0
        page = f"{self.url}/{repository}"
        if not repository and status == 404:
            return HubError(
                f"{self.url} is no hub: it does not know how to search.", "Look at HF_ENDPOINT."
            )
        if isinstance(error, errors.GatedRepoError):
            if self.sent_token:
                return HubError(
                    f"{repository} is gated, and the token in use has no access to it.",
                    f"Ask for access on {page} with the account of the token, then pull again.",
                )
            return HubError(
                f"{repository} is gated: its owners give access to those who accept their terms.",
                f"Accept them on {page}, put a token of that account into {TOKEN}, then pull again.",
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return HubError(
                f"{repository} has no such revision.", "Leave --revision out, or see " + page
            )
        if isinstance(error, errors.RemoteEntryNotFoundError):
            return HubError(
                f"{repository} no longer has this file.", "Remove the pull and look for it again."
            )
        if status == 401 and self.sent_token:
            return HubError(
                f"{self.host} does not accept the token.", f"Put a valid one into {TOKEN}, or none."
            )
        if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 404):
            return HubError(
                f"{self.host} has no repository {repository!r} that may be seen with"
                f" {'this' if self.sent_token else 'no'} token.",
                f"Look for it with `workbench models search`; for a private one put a token into {TOKEN}.",
            )
        return self.busy_error(status)


def hub_from_environment() -> Hub:
    """Returns the hub that `HF_ENDPOINT` names, else Hugging Face; its token from `HF_TOKEN`.

    Raises:
        UsageError: `HF_ENDPOINT` is no URL.
    """
    url = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_HUB
    no_url = UsageError(f"HF_ENDPOINT is {one_line(url)!r}.", "It has to be http(s)://HOST[:PORT].")
    try:
        parts = urlsplit(url)
        port_of(url)
    except ValueError as error:
        raise no_url from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise no_url
    if parts.username or parts.password:
        raise UsageError("HF_ENDPOINT has a password in it.", f"Put a token into {TOKEN} instead.")
    return Hub(url, os.environ.get(TOKEN, "").strip())


def hub_library() -> Any:
    """Imports `huggingface_hub` without telemetry and progress bars, and returns it.

    Raises:
        NetworkRefused: The variable HF_HUB_OFFLINE is set.
    """
    os.environ.update(SETTINGS)
    import huggingface_hub
    from huggingface_hub import constants

    # Another library may have imported it before the variables were set.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    if constants.HF_HUB_OFFLINE:
        raise NetworkRefused(
            "The hub is not asked, because the variable HF_HUB_OFFLINE is set.",
            "Unset it and run it again.",
        )
    return huggingface_hub


def port_of(url: str) -> int:
    """Returns the port of a URL; raises ValueError where it has no valid one."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def search(hub: Hub, text: str, limit: int = 20) -> list[HubModel]:
    """Returns at most `limit` repositories with GGUF files that the hub lists for a text, most downloaded first.

    Raises:
        ModelError: The hub cannot be asked.
        NetworkRefused: A switch forbids the network.
    """
    with hub.api_session() as api:
        repositories = api.list_models(
            search=text,
            filter="gguf",
            sort="downloads",
            limit=min(limit, MAX_REPOSITORIES),
            expand=["downloads", "likes", "gated", "tags", "lastModified"],
        )
        return [_hub_model(info) for info in repositories if _REPOSITORY.fullmatch(str(info.id))]


def read_repository(hub: Hub, repository: str, revision: str | None = None) -> HubRepository:
    """Returns the GGUF files of a repository.

    Args:
        revision: Branch, tag or commit; None for what the hub shows.

    Raises:
        ModelError: The hub cannot be asked, or has no such repository.
        NetworkRefused: A switch forbids the network.
        UsageError: It is no name of a repository.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise _no_repository_error(repository)
    with hub.api_session(repository) as api:
        info = api.model_info(repository, revision=revision, files_metadata=True)
        if not _COMMIT.fullmatch(info.sha or ""):
            raise HubError(f"{hub.host} does not say which commit of {repository} this is.")
        ggufs = [file for file in info.siblings or () if str(file.rfilename).endswith(".gguf")]
        files = [file for gguf in ggufs if (file := _pullable_file(gguf)) is not None]
        card = info.card_data.get("license") if info.card_data else None
        return HubRepository(
            name=repository,
            revision=info.sha,
            license=_license(card if isinstance(card, str) else None, info.tags),
            gated=bool(info.gated),
            files=tuple(sorted(files, key=lambda file: (file.size, file.path))),
            left_out=len(ggufs) - len(files),
        )


def _no_repository_error(name: str) -> UsageError:
    """Returns the error for a text that is no name of a repository."""
    return UsageError(
        f"{name!r} is no name of a repository.", "Say OWNER/NAME, as the hub shows it."
    )


def _hub_model(info: Any) -> HubModel:
    """Returns the record of a repository that a search found."""
    return HubModel(
        name=str(info.id),
        gated=bool(info.gated),
        license=_license(None, info.tags),
        downloads=int(info.downloads or 0),
        likes=int(info.likes or 0),
        changed=info.last_modified.date().isoformat() if info.last_modified else "",
    )


def _license(card: str | None, tags: Iterable[str] | None) -> str:
    """Returns the license of a repository: that of its card, else that of its tags; empty if there is none."""
    named = (tag.removeprefix("license:") for tag in tags or () if tag.startswith("license:"))
    return card or next(named, "")


def _pullable_file(listed_file: Any) -> HubFile | None:
    """Returns the record of a file of a repository that can be pulled; None for any other file.

    It has to be a whole model with a plain name, a size and a checksum.
    """
    lfs = listed_file.lfs
    path, sha256 = str(listed_file.rfilename), str(lfs.sha256) if lfs else ""
    size = int(lfs.size) if lfs else None
    if not _PLAIN_PATH.fullmatch(path) or _SPLIT.search(path):
        return None
    if not _SHA256.fullmatch(sha256) or not size or size < 0:
        return None
    return HubFile(path, size, sha256)
