"""The endpoint book: the endpoints that the user added, each with the capabilities that a probe showed.

An endpoint is an HTTP server that speaks OpenAI's protocol. Its key is never stored, only the name of the environment
variable that holds it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from engine.base.errors import ModelFileError, NameTaken, UsageError
from engine.base.files import create_private_folder, write_atomically
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import Capabilities, why_no_fields
from engine.model.endpoints.client import (
    REQUEST_SECONDS,
    Address,
    EndpointClient,
    parse_address,
    resolve_model,
)
from engine.model.endpoints.probe import PROBE_SECONDS, probe
from engine.model.endpoints.sender import Prices, Replies, RequestSender
from engine.model.interface import LoadOptions


@dataclass(frozen=True, slots=True)
class EndpointEntry:
    """One endpoint of the book.

    Attributes:
        name: Name of the endpoint in runs.
        url: URL with the model, as in `http://host:8080/v1#model`.
        can: Capabilities that the probe showed.
        key_env: Name of the environment variable that holds the key; None if none is needed.
        prices: Prices of tokens, as the user gave them or the endpoint lists them; None if neither did.
        timeout: Time limit of a request in seconds; None for the default.
        as_is: Whether texts are sent with the personal data in them, though it is not on this machine.
    """

    name: str
    url: str
    can: Capabilities
    key_env: str | None = None
    prices: Prices | None = None
    timeout: float | None = None
    as_is: bool = False

    @property
    def redacted(self) -> bool:
        """Whether personal data is replaced in what is sent to the endpoint."""
        return not (self.as_is or self.address.local)

    @property
    def address(self) -> Address:
        """The address of the endpoint."""
        return parse_address(self.url)

    @property
    def optional_key(self) -> str:
        """The key, if one is needed and set; else ""."""
        return os.environ.get(self.key_env or "", "").strip()

    def sender(self, replies: Replies | None = None) -> RequestSender:
        """Returns a sender of requests to the endpoint.

        Args:
            replies: Cache of replies; None for no cache.

        Raises:
            UsageError: The variable with the key is not set.
        """
        client = EndpointClient(
            self.address,
            _key(self.key_env),
            parallel=self.can.parallel,
            seconds=self.timeout or REQUEST_SECONDS,
        )
        identity = json.dumps(self.can.result_params, sort_keys=True)
        return RequestSender(client, self.prices, replies, identity=identity)

    def loadable(self, options: LoadOptions) -> LoadableModel:
        """Returns the model that it serves, for stages."""
        return LoadableModel(
            label=f"{self.name} (endpoint)",
            path=Path(),
            options=options,
            adapter=None,
            fingerprints={
                "endpoint": self.url,
                "capabilities": self.can.result_params,
                **({"redacted": True} if self.redacted else {}),
            },
            endpoint=self.name,
            endpoint_gives_fields=why_no_fields(self.can) is None,
        )

    def as_params(self) -> dict[str, Any]:
        """Returns the entry as JSON values, without the name."""
        return {
            "url": self.url,
            "key_env": self.key_env,
            "prices": asdict(self.prices) if self.prices else None,
            "capabilities": asdict(self.can),
            **({"timeout": self.timeout} if self.timeout else {}),
            **({"as_is": True} if self.as_is else {}),
        }

    @classmethod
    def from_params(cls, name: str, params: Mapping[str, Any]) -> EndpointEntry:
        """Returns the entry that `as_params` gave; raises KeyError or ValueError for anything else."""
        fields = {**params, "name": name, "can": params["capabilities"]}
        return msgspec.convert(fields, cls)


class EndpointBook:
    """The endpoints of one user, in a JSON file in the data folder."""

    def __init__(self, data: Path) -> None:
        """Reads the file.

        Raises:
            ModelFileError: The file cannot be read.
        """
        self.file = data / "endpoints.json"
        self._entries: dict[str, EndpointEntry] = {}
        try:
            stored = json.loads(self.file.read_text("utf-8"))
            for name, params in sorted(stored.items()):
                self._entries[name] = EndpointEntry.from_params(name, params)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"The list of endpoints {self.file} cannot be read: {error}.",
                "Move it away; endpoints can be added again.",
            ) from error

    def entries(self) -> list[EndpointEntry]:
        """Returns all endpoints in order of their names; those just added come last."""
        return list(self._entries.values())

    def entry(self, name: str | None) -> EndpointEntry | None:
        """Returns the endpoint with this name; None for no name, or if there is none."""
        return self._entries.get(name or "")

    def add(
        self,
        url: str,
        name: str | None = None,
        *,
        key_env: str | None = None,
        prices: Prices | None = None,
        timeout: float | None = None,
        as_is: bool = False,
    ) -> EndpointEntry:
        """Probes an endpoint and stores the result; one with the same name and URL is probed again.

        Args:
            url: URL of the endpoint, with `#model` if it serves several models.
            name: Name of the entry; None takes the last part of the model's name.
            key_env, prices, timeout, as_is: See `EndpointEntry`.

        Raises:
            ModelError: The endpoint cannot be reached, answers too slowly, or cannot do anything useful.
            UsageError: The URL is invalid, the name is taken, or the variable is not set.
        """
        key = _key(key_env)
        seconds = timeout or PROBE_SECONDS
        address = resolve_model(EndpointClient(parse_address(url), key, seconds=seconds))
        url = f"{address.base}#{address.model}"
        name = name or address.model.rstrip("/").rpartition("/")[-1]
        existing = self._entries.get(name)
        if existing is not None and existing.url != url:
            raise NameTaken(f"The name {name!r} is taken.", "Choose another with --name.")
        can = probe(address, key, seconds=seconds)
        if prices is None and can.listed_prices:
            prices = Prices(*can.listed_prices)
        self._entries[name] = entry = EndpointEntry(
            name=name,
            url=url,
            can=can,
            key_env=key_env,
            prices=prices,
            timeout=timeout,
            as_is=as_is,
        )
        self._save()
        return entry

    def forget(self, name: str) -> None:
        """Removes an endpoint from the list; sends no request."""
        del self._entries[name]
        self._save()

    def _save(self) -> None:
        """Writes the file."""
        create_private_folder(self.file.parent)
        content = {name: entry.as_params() for name, entry in self._entries.items()}
        write_atomically(self.file, json.dumps(content, indent=1, sort_keys=True))


def _key(variable: str | None) -> str:
    """Returns the key in an environment variable; "" without a variable.

    Raises:
        UsageError: The variable is not set.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"The environment variable {variable} holds no key.",
            f"Set it, as in `export {variable}=…`; the key itself is stored nowhere.",
        )
    return key
