"""An endpoint, which is an HTTP server that speaks OpenAI's protocol: its address, requests to it with retries while
it is busy or unreachable, and the models that it serves.

The host and port of a URL that the user named are reached, without proxies and without following redirects, while a
request runs. Nothing is known of what the endpoint does with the texts.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from engine.base import network_guard
from engine.base.errors import EndpointAway, EndpointError, RequestRefused, UsageError
from engine.base.number_format import duration
from engine.base.text import one_line
from engine.model.endpoints.background_loop import BackgroundLoop
from engine.model.endpoints.pacing import RequestLimit, wait_after

if TYPE_CHECKING:
    import httpx

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""

MAX_ATTEMPTS = 5
"""Default number of attempts at a request."""

REQUEST_SECONDS, CONNECT_SECONDS = 600.0, 15.0
"""Longest time until the last byte of an answer, and until there is a connection."""

MAX_SILENT_SHARE = 0.5
"""Largest share of the time limit of a request that may pass without a byte."""

RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same request is sent again, since it may succeed the next time."""

OVERLOAD_STATUSES = frozenset({429, 503})
"""Status codes of an endpoint that has too many requests, after which fewer are sent in parallel."""

REFUSED_REQUEST_STATUSES = frozenset({400, 403, 413, 422})
"""Status codes that concern one request only; after any other refusal the endpoint is not used again. 403 is among them
because moderation answers it; a key that gets it everywhere ends the run, as every request of a block fails."""

UNNAMED_FAULT = 500
"""Status of an error that came in an answer with status 200 and names no status itself."""

REPLACED_FIELDS = {"max_tokens": "max_completion_tokens", "temperature": ""}
"""Fields of a request that models which think refuse -> the name of the field to send in its place; "" for none."""

MAX_ANSWER_BYTES = 256 << 20
"""Largest size of an answer, unpacked: the 20 best tokens of 100,000 positions take some 100 MB."""

MAX_SHOWN_MODELS = 8
"""Number of an endpoint's models that an error names."""

MAX_ERROR_CHARACTERS = 300
"""Number of characters of an endpoint's error text that are shown."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an endpoint, an HTTP server that speaks OpenAI's protocol, and the name of one of its models.

    Attributes:
        base: URL of the endpoint, as in `http://host:8080/v1`, without a slash at the end.
        host, port: The machine and the TCP port of that URL.
        model: Name of the model; "" if none was named.
    """

    base: str
    host: str
    port: int
    model: str

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine, so that what is sent to it does not leave it."""
        return network_guard.is_this_machine(self.host)

    def url(self, name: str) -> str:
        """Returns the URL of a path of the endpoint.

        Args:
            name: Path after `base`. With a leading slash it replaces the `/v1` of `base`, because servers put the paths
                that OpenAI does not have beside `/v1`.
        """
        parts = urlsplit(self.base)
        path = parts.path.removesuffix("/v1") + name if name.startswith("/") else None
        return urlunsplit(parts._replace(path=path or f"{parts.path.rstrip('/')}/{name}"))


def parse_address(url: str, *, leaf: str = "") -> Address:
    """Returns the address that a URL gives.

    Args:
        url: `http://host:8080/v1`, with `#model` if the endpoint serves several models.
        leaf: Last part of the path that is removed if it is there.

    Raises:
        UsageError: It is not an HTTP URL, or it has a user name or a password.
    """
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
    path = parts.path.rstrip("/")
    if leaf:
        path = path.removesuffix(f"/{leaf}")
    base = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Address(base, host, port or (443 if parts.scheme == "https" else 80), parts.fragment)


@dataclass(eq=False)
class _AttemptFailed(Exception):
    """An attempt at a request failed, and another may succeed.

    Attributes:
        what: What the endpoint did, a verb phrase such as `answered 503 (busy)`.
        headers: Headers of the answer; empty without one.
        is_silent: Whether there was no answer at all.
        is_broken: Whether the answer has the status of a success, but is no JSON or holds an error.
        is_overload: Whether the endpoint says that it has too many requests.
        is_connected: Whether there was a connection.
    """

    what: str
    headers: Mapping[str, str] = field(default_factory=dict)
    is_silent: bool = False
    is_broken: bool = False
    is_overload: bool = False
    is_connected: bool = True


class EndpointClient:
    """The HTTP client of one endpoint.

    Attributes:
        retries: Number of requests that were sent again since it was made.
    """

    def __init__(
        self,
        address: Address,
        key: str = "",
        *,
        sleep: Sleep = asyncio.sleep,
        attempts: int = MAX_ATTEMPTS,
        seconds: float = REQUEST_SECONDS,
        parallel: int | None = None,
    ) -> None:
        """Prepares a client; sends no request.

        Args:
            key: Bearer token; "" for none.
            sleep: Waits for a number of seconds.
            attempts: Largest number of attempts at a request.
            seconds: Time limit of a request, until its whole answer is there; half of it may go by without a byte.
            parallel: Number of requests that the endpoint serves in parallel, if it says so.
        """
        self.address = address
        self.request_limit = RequestLimit(parallel)
        self.retries = 0
        self._key, self._sleep, self._attempts, self._seconds = key, sleep, attempts, seconds
        self._refused_fields: set[str] = set()

    def with_one_attempt(self, address: Address) -> EndpointClient:
        """Returns a client for an address of the same server, with the same key, that makes one attempt at each
        request; more only while the endpoint is overloaded."""
        return EndpointClient(address, self._key, attempts=1, seconds=self._seconds)

    def open_connections(self) -> httpx.AsyncClient:
        """Returns a connection pool, which is a context manager."""
        import httpx  # slow to import, and most commands ask no endpoint

        uses_tls = self.address.base.startswith("https:")

        return httpx.AsyncClient(
            timeout=httpx.Timeout(self._seconds * MAX_SILENT_SHARE, connect=CONNECT_SECONDS),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            trust_env=False,  # a proxy would be another machine than the one that was named
            verify=ssl.create_default_context() if uses_tls else False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def ask(
        self, client: httpx.AsyncClient, name: str, body: Mapping[str, Any] | None
    ) -> Any:
        """Sends a request and returns the JSON of the answer.

        Args:
            name: Path of the request, as in `Address.url`.
            body: JSON to POST; None sends a GET.

        Raises:
            RequestRefused: The endpoint refuses this request, the last answer to it is broken, or it fails at this
                request while it answers others.
            EndpointAway: The endpoint cannot be reached, refuses everything, stays busy, or does not come to the end of
                an answer in time.
        """
        limit, answers_before = self.request_limit, self.request_limit.answers
        failures, max_failures = 0, self._attempts
        if (pause := limit.paused_until - time.monotonic()) > 0:
            await self._sleep(pause)
        while True:
            answers_before_attempt = limit.answers
            try:
                return await self._attempt(client, name, body)
            except _AttemptFailed as failed:
                failure = failed
            if failure.is_overload:
                limit.record_refusal()
                max_failures = MAX_ATTEMPTS  # what comes too fast does not fail for good
            # An endpoint that answered others meanwhile is not gone, however often it has too many requests.
            if not failure.is_overload or limit.answers == answers_before_attempt:
                failures += 1
            if failures >= max_failures:
                break
            self.retries += 1
            # Spreading requests needs no secrecy.
            wait = wait_after(max(0, failures - 1), failure.headers, random.random())
            if "retry-after" in failure.headers:
                limit.paused_until = time.monotonic() + wait
            await self._sleep(wait)
        # An endpoint that is there and answered others meanwhile fails at this request only.
        if failure.is_broken or (failure.is_connected and limit.answers > answers_before):
            raise RequestRefused(f"{self.address.base} {failure.what}.")
        away = self._away_error(failure.what)
        away.silent = failure.is_silent
        raise away

    async def _attempt(
        self, client: httpx.AsyncClient, name: str, body: Mapping[str, Any] | None
    ) -> Any:
        """Sends a request once and returns the JSON of the answer; see `ask`.

        Raises:
            RequestRefused: The endpoint refuses this request.
            EndpointAway: The endpoint refuses everything, or its answer does not end in time.
            _AttemptFailed: Another attempt may succeed.
        """
        import httpx

        sent = time.monotonic()
        try:
            answer, content = await self._send(client, name, body)
        except httpx.TransportError as error:
            raise _AttemptFailed(
                f"cannot be reached ({one_line(str(error)) or type(error).__name__})",
                is_silent=True,
                is_connected=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
            ) from error
        status = answer.status_code
        if answer.is_success and (parsed := _parse_json(content)) is not None:
            error_status = _status_inside(parsed)
            if error_status is None:
                self.request_limit.record_answer(time.monotonic() - sent)
                return parsed
            status = error_status
        what = self._status_text(status, answer.reason_phrase, content)
        if status in REFUSED_REQUEST_STATUSES:
            raise RequestRefused(f"{self.address.base} {what}.")
        if not answer.is_success and status not in RETRY_STATUSES:
            raise self._away_error(what)
        raise _AttemptFailed(
            what,
            answer.headers,
            is_broken=answer.is_success,
            is_overload=status in OVERLOAD_STATUSES,
        )

    async def _send(
        self, client: httpx.AsyncClient, name: str, body: Mapping[str, Any] | None
    ) -> tuple[httpx.Response, bytes]:
        """Sends a request once, see `ask`; returns the answer, whatever its status is, and its content. A field that
        the model does not take is left out or renamed from then on, and the request is sent again.

        Raises:
            httpx.TransportError: There is no connection, or it broke; another attempt may succeed.
            EndpointAway: The answer cannot be read, or does not end in time.
        """
        import httpx

        method = "GET" if body is None else "POST"
        fields = dict(body or {})
        for field_name in self._refused_fields & fields.keys():
            value = fields.pop(field_name)
            if new_name := REPLACED_FIELDS[field_name]:
                fields[new_name] = value
        try:
            async with (
                asyncio.timeout(self._seconds),
                client.stream(method, self.address.url(name), json=fields or body) as answer,
            ):
                content = await self._read_content(answer)
        except TimeoutError as error:
            raise self._overdue_error() from error
        except httpx.TransportError:
            raise
        except httpx.HTTPError as error:
            raise self._away_error(f"answered in a way that cannot be read ({error})") from error
        refused = _refused_fields(content) & fields.keys() if answer.status_code == 400 else set()
        if not refused:
            return answer, content
        self._refused_fields |= refused
        return await self._send(client, name, body)

    def ask_blocking(self, name: str, body: Mapping[str, Any] | None) -> Any:
        """Returns what `ask` returns, for synchronous callers and with connections of its own."""

        async def ask_once_connected() -> Any:
            """Opens the connections and asks."""
            async with self.open_connections() as client:
                return await self.ask(client, name, body)

        return BackgroundLoop(self.address.host, self.address.port).run(ask_once_connected)

    async def _read_content(self, answer: httpx.Response) -> bytes:
        """Returns the bytes of an answer, which must not be longer than `MAX_ANSWER_BYTES`: it may never end."""
        parts, size = [], 0
        async for part in answer.aiter_bytes():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise self._away_error(f"answered with more than {MAX_ANSWER_BYTES >> 20} MiB")
            parts.append(part)
        return b"".join(parts)

    def _status_text(self, status: int, reason: str, content: bytes) -> str:
        """Returns what an error message says of an answer that is an error: its status and the beginning of its
        text."""
        text = content.decode("utf-8", "replace")
        if self._key:
            text = text.replace(self._key, "…")  # some servers repeat the key that they refuse
        what = "gave an answer that is not JSON" if status == 200 else f"answered {status}"
        return f"{what} ({one_line(text, MAX_ERROR_CHARACTERS) or reason})"

    def _overdue_error(self) -> EndpointAway:
        """Returns the error of a request whose answer did not end in time."""
        error = EndpointAway(
            f"{self.address.base} did not finish an answer within {duration(self._seconds)}.",
            "Look at the endpoint; for one that is only slow, add it again with a longer --timeout.",
        )
        error.overdue = True
        return error

    def _away_error(self, failure: str) -> EndpointAway:
        """Returns the error of an endpoint that cannot be used; `failure` is what it did, a verb phrase."""
        return EndpointAway(
            f"{self.address.base} {failure}.", "Look at the endpoint, then run again."
        )


def _parse_json(content: bytes) -> Any:
    """Returns the JSON of an answer; None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _refused_fields(content: bytes) -> set[str]:
    """Returns the fields that a refusal says the model does not support, as in "'temperature' does not support 0"."""
    text = content.decode("utf-8", "replace")
    return {name for name in REPLACED_FIELDS if f"'{name}'" in text and "support" in text}


def _status_inside(answer: Any) -> int | None:
    """Returns the status of an error that an answer with status 200 holds; None for an answer that holds no error."""
    try:
        error = answer.get("error") or answer["choices"][0].get("error")
    except (AttributeError, KeyError, IndexError, TypeError):
        return None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int):
        return code
    return UNNAMED_FAULT if error else None


def served_models(client: EndpointClient) -> list[str]:
    """Returns the names of the models that an endpoint serves.

    Raises:
        ModelError: It cannot be reached or does not answer with a list.
    """
    answer = client.ask_blocking("models", None)
    try:
        return [str(item["id"]) for item in answer["data"]]
    except (KeyError, TypeError) as error:
        raise EndpointError(
            f"{client.address.base} did not answer with a list of models.",
            "It has to speak OpenAI's /v1.",
        ) from error


def resolve_model(client: EndpointClient) -> Address:
    """Returns the address of a client with the name of a model: the one that it names, else the only one served.

    The base of the returned address ends in `/v1` where only that URL lists models.

    Raises:
        ModelError: The endpoint cannot be reached or is too slow, or no model is named and it lists none.
        UsageError: No model is named, and the endpoint serves none or several.
    """
    address = client.address
    try:
        names = served_models(client)
    except (EndpointError, RequestRefused) as error:
        if isinstance(error, EndpointAway) and (error.silent or error.overdue):
            raise
        longer = replace(address, base=f"{address.base.removesuffix('/v1')}/v1")
        try:
            names = served_models(client.with_one_attempt(longer))
        except (EndpointError, RequestRefused):
            if address.model:
                return address  # some servers list no models
            raise error from None
        address = longer
    if address.model:
        return address
    if len(names) != 1:
        shown = one_line(", ".join(names[:MAX_SHOWN_MODELS])) or "none"
        raise UsageError(
            f"{address.base} serves {len(names)} models ({shown}).",
            "Name one: add #MODEL to the URL.",
        )
    (name,) = names
    return replace(address, model=name)
