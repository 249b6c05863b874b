"""The endpoint book: the endpoints that the user added, each with the capabilities that a probe showed.

An endpoint is an HTTP server that speaks OpenAI's protocol. Its key is never stored, only the name of the environment
variable that holds it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from engine.base.errors import ModelFileError, NameTaken, UsageError
from engine.base.files import create_private_folder, write_atomically
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import Capabilities, no_fields
from engine.model.endpoints.client import (
    REQUEST_SECONDS,
    Address,
    EndpointClient,
    parse_address,
    with_model,
)
from engine.model.endpoints.fleet import Fleet, Prices, Replies
from engine.model.endpoints.probe import PROBE_SECONDS, probe
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
        """Whether personal data is replaced in what is sent to it."""
        return not (self.as_is or self.address.local)

    @property
    def address(self) -> Address:
        """The address of the endpoint."""
        return parse_address(self.url)

    @property
    def optional_key(self) -> str:
        """The key, if one is needed and set; else ""."""
        return os.environ.get(self.key_env or "", "").strip()

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

    def entries(self, names: Container[str] | None = None) -> list[EndpointEntry]:
        """Returns all endpoints, or those of these names, in order of their names; those just added come last."""
        return [entry for name, entry in self._entries.items() if names is None or name in names]

    def named(self, name: str | None) -> tuple[str, ...]:
        """Returns the names of endpoints in a model name, `NAME` or `NAME,NAME2`; () if it names another model.

        Raises:
            UsageError: Some of the names are endpoints and some are not.
        """
        names = tuple(part.strip() for part in (name or "").split(",") if part.strip())
        endpoint_names = [name for name in names if name in self._entries]
        if endpoint_names and len(endpoint_names) < len(names):
            other = next(name for name in names if name not in self._entries)
            raise UsageError(
                f"{other!r} is no endpoint, so it cannot share a run with {endpoint_names[0]!r}.",
                "`workbench models list` names them.",
            )
        return names if endpoint_names else ()

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
        address = with_model(EndpointClient(parse_address(url), key, seconds=seconds))
        url = f"{address.base}#{address.model}"
        name = name or address.model.rstrip("/").rpartition("/")[-1]
        if "," in name:
            raise UsageError(f"{name!r} has a comma in it.", "Choose another with --name.")
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

    def fleet(self, names: tuple[str, ...], replies: Replies | None = None) -> Fleet:
        """Returns a fleet of endpoints that serve the same model.

        Raises:
            UsageError: They do not serve the same model alike, or a variable with a key is not set.
        """
        entries = self._entries_alike(names)
        first, *_ = entries
        members = [
            (
                EndpointClient(
                    entry.address,
                    _key(entry.key_env),
                    parallel=entry.can.parallel,
                    seconds=entry.timeout or REQUEST_SECONDS,
                ),
                entry.prices,
            )
            for entry in entries
        ]
        return Fleet(members, replies, identity=json.dumps(first.can.decisive, sort_keys=True))

    def can(self, names: tuple[str, ...]) -> Capabilities:
        """Returns what every one of these endpoints can do.

        Raises:
            UsageError: They do not serve the same model alike.
        """
        entries = self._entries_alike(names)
        first, *_ = entries
        contexts = [entry.can.context for entry in entries if entry.can.context]
        return replace(first.can, context=min(contexts, default=None))

    def loadable(self, names: tuple[str, ...], options: LoadOptions) -> LoadableModel:
        """Returns the model that these endpoints serve, for stages.

        Raises:
            UsageError: They do not serve the same model alike.
        """
        entries = self._entries_alike(names)
        can = self.can(names)
        label = ", ".join(names) + (" (endpoint)" if len(names) == 1 else " (endpoints)")
        return LoadableModel(
            label=label,
            path=Path(),
            options=options,
            adapter=None,
            fingerprints={
                "endpoints": sorted(entry.url for entry in entries),
                "capabilities": can.decisive,
                **({"redacted": True} if any(entry.redacted for entry in entries) else {}),
            },
            endpoints=names,
            endpoint_gives_fields=no_fields(can) is None,
        )

    def _entries_alike(self, names: tuple[str, ...]) -> list[EndpointEntry]:
        """Returns the entries of these names.

        Raises:
            UsageError: They do not serve the same model, or differ in what results depend on.
        """
        entries = [self._entries[name] for name in names]
        first, *others = entries
        for other in others:
            if other.address.model != first.address.model:
                raise UsageError(
                    f"{first.name!r} serves {first.address.model!r} and {other.name!r} serves "
                    f"{other.address.model!r}.",
                    "Endpoints that share a run serve the same model under the same name.",
                )
            differences = [
                capability
                for capability, value in first.can.decisive.items()
                if other.can.decisive[capability] != value
                # The name changes no result, and of the contexts `can` takes the shortest.
                and capability not in ("server", "context")
            ]
            if differences:
                raise UsageError(
                    f"{first.name!r} and {other.name!r} differ in {', '.join(differences)}.",
                    "Endpoints that share a run do the same; add them again if one was changed.",
                )
        return entries

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
