"""The URL of an endpoint and the name of its model."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from engine.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Address:
    """One endpoint.

    Attributes:
        base: Its URL, as in `http://host:8080/v1`, without a slash at the end.
        host, port: What is reached.
        model: Which of its models; empty where it has one.
    """

    base: str
    host: str
    port: int
    model: str

    @property
    def secure(self) -> bool:
        """Whether it is reached with TLS."""
        return self.base.startswith("https:")

    def url(self, name: str) -> str:
        """The URL of one of its paths; one with a leading slash lies beside `/v1`, as servers put what is their own."""
        parts = urlsplit(self.base)
        path = parts.path.removesuffix("/v1") + name if name.startswith("/") else None
        return urlunsplit(parts._replace(path=path or f"{parts.path.rstrip('/')}/{name}"))


def parse_address(url: str, *, leaf: str = "") -> Address:
    """Reads a URL.

    Args:
        url: `http://host:8080/v1`, with `#model` where the endpoint serves several.
        leaf: A last part of the path that may stand there and is not meant.

    Raises:
        UsageError: The URL is none, or holds a password.
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
