"""Embeddings of an OpenAI-compatible endpoint that the user named: the one thing in this room that uses a network.

What is covered: only the host and port of the given URL are reached, without proxies and without following redirects.
What is not covered: what the endpoint does with the texts.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import numpy.typing as npt

from engine import offline
from engine.errors import ModelError, UsageError
from engine.goals.batches import BATCH, embed_in_batches
from engine.goals.vectors import Vectors
from engine.text import one_line

ATTEMPTS = 5
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds; each wait is twice the one before, or what the server asks for."""
SECONDS = 120.0
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class HttpEmbedder:
    """Asks `POST …/embeddings`, again when the server is busy or away for a moment.

    Args:
        url: `http://host:8080/v1`, with `#model` where the endpoint serves several; a path that ends in `/embeddings`
            is taken as it is.
        key: Sent as bearer token; never part of the fingerprint.
        sleep: Waits so many seconds.

    Raises:
        UsageError: The URL is none.
    """

    kind = "http"
    fitted = True

    def __init__(
        self, url: str, *, key: str = "", sleep: Callable[[float], None] = time.sleep
    ) -> None:
        no_url = UsageError(f"{url!r} is no URL of an endpoint.", "Say http://HOST:PORT/v1.")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise no_url from error
        if parts.scheme not in ("http", "https") or not host:
            raise no_url
        if parts.username or parts.password:
            raise UsageError("A URL with a password in it would be stored.", "Give the key apart.")
        self._host, self._port = host, port or (443 if parts.scheme == "https" else 80)
        path = parts.path.rstrip("/").removesuffix("/embeddings")
        self._base = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        self._model = parts.fragment
        self._key = key
        self._sleep = sleep

    @property
    def recipe(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        """The endpoint and its model: what stands behind them cannot be seen from here."""
        return f"http:{self._base}#{self._named_model()}"

    def fit(self, texts: Iterable[str]) -> None:
        """There is nothing to learn."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text, zeros for a blank one.

        Raises:
            ModelError: The endpoint cannot be reached, refuses, or answers something else.
        """
        return embed_in_batches(texts, self._ask, BATCH)

    def state(self) -> bytes | None:
        """Nothing: the URL is the state."""
        return None

    def _ask(self, texts: Sequence[str]) -> npt.ArrayLike:
        answer = self._request(
            "POST", "embeddings", {"model": self._named_model(), "input": list(texts)}
        )
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            found = [item["embedding"] for item in items]
            complete = [item["index"] for item in items] == list(range(len(texts)))
        except (KeyError, TypeError, ValueError) as error:
            raise self._unexpected("no list of embeddings") from error
        if not complete:
            raise self._unexpected(f"{len(found)} embeddings for {len(texts)} texts")
        return found

    def _named_model(self) -> str:
        if not self._model:
            answer = self._request("GET", "models", None)
            try:
                names = [str(item["id"]) for item in answer["data"]]
            except (KeyError, TypeError) as error:
                raise self._unexpected("no list of models") from error
            if len(names) != 1:
                shown = one_line(", ".join(names[:8])) or "none"
                raise UsageError(
                    f"{self._base} serves {len(names)} models ({shown}).",
                    "Name one: add #MODEL to the URL.",
                )
            self._model = names[0]
        return self._model

    def _request(self, method: str, name: str, body: Any) -> Any:
        """The JSON that the endpoint answers."""
        url = httpx.URL(self._base)
        url = url.copy_with(path=f"{url.path.rstrip('/')}/{name}")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        trouble = ""
        with (
            offline.reaching(self._host, self._port),
            httpx.Client(
                timeout=SECONDS,
                headers=headers,
                trust_env=False,  # a proxy would be another machine than the one that was named
                verify=ssl.create_default_context() if url.scheme == "https" else False,
            ) as client,
        ):
            for attempt in range(ATTEMPTS):
                wait = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)
                try:
                    answer = client.request(method, url, json=body)
                except httpx.TransportError as error:
                    trouble = f"cannot be reached ({one_line(str(error)) or type(error).__name__})"
                else:
                    if answer.is_success:
                        try:
                            return answer.json()
                        except ValueError as error:
                            raise self._unexpected("something that is no JSON") from error
                    said = one_line(answer.text) or answer.reason_phrase
                    trouble = f"answered {answer.status_code} ({said})"
                    if answer.status_code not in _BUSY:
                        break
                    wait = _asked_wait(answer.headers.get("retry-after"), wait)
                if attempt + 1 < ATTEMPTS:
                    self._sleep(wait)
        raise ModelError(f"{self._base} {trouble}.", "Look at the endpoint, then run again.")

    def _unexpected(self, what: str) -> ModelError:
        return ModelError(
            f"{self._base} answered {what}.", "It has to speak OpenAI's /v1/embeddings."
        )


def _asked_wait(header: str | None, otherwise: float) -> float:
    """Seconds that a server asks to wait, bounded; a date or nonsense is not heard."""
    try:
        asked = float(header or "")
    except ValueError:
        return otherwise
    return min(LONGEST_WAIT, asked) if asked >= 0 else otherwise
