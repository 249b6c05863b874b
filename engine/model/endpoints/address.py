"""The URL of an endpoint and the name of its model."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from engine.base.errors import UsageError


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
    def secure(self) -> bool:
        """Whether the endpoint is reached with TLS."""
        return self.base.startswith("https:")

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
