"""What of a project may leave this machine: to which addresses its texts may be sent, and the pseudonyms that take the
place of personal data in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from engine.base import network_guard
from engine.base.errors import AddressNotAllowed
from engine.model.endpoints.client import Address, parse_address
from engine.project import settings
from engine.project.project import Project

ALLOWED_KEY = "allowed_addresses"
"""Setting: the addresses beyond this machine that texts of the project may be sent to (`models allow`)."""

SECRET_KEY = "pseudonym_secret"
"""Setting: the secret of the pseudonyms in requests: with it the same e-mail address has the same one in all runs."""


class Egress:
    """Guards what leaves this machine of one project."""

    def __init__(self, project: Project, redactor: Callable[[str], Callable[[str], str]]) -> None:
        """Reads nothing yet.

        Args:
            redactor: Returns a function that replaces personal data in a text by the pseudonyms of a secret.
        """
        self._project, self._redactor = project, redactor
        self._allowed: set[str] = set()

    def check(self, addresses: Iterable[Address]) -> None:
        """Raises AddressNotAllowed if nobody allowed yet that texts are sent to one of these addresses."""
        if network_guard.switch():
            return  # the guard refuses it, and names the switch
        for address in addresses:
            if not (address.local or address.base in self._allowed or self.allows(address)):
                raise AddressNotAllowed(
                    f"No text of this project was ever sent to {address.base}, and nobody allowed it.",
                    "`workbench models allow PROJECT NAME` shows what would be sent, and asks.",
                    address=address.base,
                )

    def allows(self, address: Address) -> bool:
        """Returns whether texts may be sent to an address beyond this machine."""
        with self._project.reading() as conn:
            self._allowed = set(settings.get(conn, ALLOWED_KEY, []))
        return address.base in self._allowed

    def allow(self, url: str) -> None:
        """Allows texts to be sent to an endpoint, of which `Address.base` is this URL.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._project.write(
            lambda conn: settings.put(
                conn, ALLOWED_KEY, sorted({*settings.get(conn, ALLOWED_KEY, []), url})
            )
        )

    @cached_property
    def redact(self) -> Callable[[str], str]:
        """Replaces personal data in a text by pseudonyms, the same ones in all runs of the project."""
        with self._project.reading() as conn:
            secret = settings.get(conn, SECRET_KEY)
        if secret is None:
            secret = secrets.token_hex(16)
            self._project.write(lambda conn: settings.put(conn, SECRET_KEY, secret))
        return self._redactor(str(secret))


def addresses_in(fingerprints: Mapping[str, Any]) -> Iterator[Address]:
    """Yields the addresses of the endpoints that a stage asks, from its fingerprints."""
    for name, value in fingerprints.items():
        if isinstance(value, Mapping):
            yield from addresses_in(value)
        elif name == "endpoint":
            yield parse_address(value)
        elif name == "embedder" and str(value).startswith("http:"):
            yield parse_address(str(value).removeprefix("http:").removesuffix(" redacted"))
