"""The endpoints that are known on this machine: clients, checks before a run starts, descriptions, and what of a
project may leave this machine for them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from engine.base import network_guard
from engine.base.errors import AddressNotAllowed, NotFound, UsageError
from engine.base.text import one_line
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import (
    Capabilities,
    why_no_chat,
    why_no_fields,
    why_no_replies,
)
from engine.model.endpoints.client import Address, parse_address
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.sender import RequestSender
from engine.model.interface import Sampling
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from engine.model.tables import ReplyCache
from engine.project import settings
from engine.project.project import Project

ALLOWED_SETTING = "allowed_addresses"
"""Setting: the addresses beyond this machine that texts of the project may be sent to (`models allow`)."""

SECRET_SETTING = "pseudonym_secret"
"""Setting: the secret of the pseudonyms in requests: with it the same e-mail address has the same one in all runs."""

REPLIES = "replies.sqlite"
"""Name of the reply cache in the cache folder."""

MAX_PART_CHARACTERS = 160
"""Longest part of the summary of an endpoint, such as its URL."""


class Egress:
    """Guards what leaves this machine of one project."""

    def __init__(self, project: Project, redactor: Callable[[str], Callable[[str], str]]) -> None:
        """Reads nothing yet.

        Args:
            redactor: Returns a function that replaces personal data in a text by the pseudonyms of a secret.
        """
        self._project, self._redactor = project, redactor
        self._allowed: set[str] = set()  # as last read; read anew before an address is refused

    def check(self, addresses: Iterable[Address]) -> None:
        """Raises AddressNotAllowed if nobody allowed yet that texts are sent to one of these addresses.

        While the network is switched off, it leaves the refusal to the guard.
        """
        if network_guard.off_by():
            return  # the guard refuses every address, and names the switch
        for address in addresses:
            if not (address.local or address.base in self._allowed or self.allows(address)):
                raise AddressNotAllowed(
                    f"No text of this project was ever sent to {address.base}, and nobody allowed it.",
                    "`workbench models allow PROJECT NAME` shows what would be sent, and asks.",
                    address=address.base,
                )

    def allows(self, address: Address) -> bool:
        """Returns whether texts may be sent to an address beyond this machine."""
        self._allowed = set(self._project.read(settings.get, ALLOWED_SETTING, []))
        return address.base in self._allowed

    def allow(self, url: str) -> None:
        """Allows texts to be sent to an endpoint, of which `Address.base` is this URL.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._project.write(
            lambda conn: settings.put(
                conn, ALLOWED_SETTING, sorted({*settings.get(conn, ALLOWED_SETTING, []), url})
            )
        )

    @cached_property
    def redact(self) -> Callable[[str], str]:
        """Replaces personal data in a text by pseudonyms, the same ones in all runs of the project."""
        secret = self._project.read(settings.get, SECRET_SETTING)
        if secret is None:
            secret = secrets.token_hex(16)
            self._project.write(lambda conn: settings.put(conn, SECRET_SETTING, secret))
        return self._redactor(str(secret))


def addresses_in(fingerprints: Mapping[str, Any]) -> Iterator[Address]:
    """Yields the addresses of the endpoints that a stage asks, from its fingerprints."""
    for name, value in fingerprints.items():
        if isinstance(value, Mapping):
            yield from addresses_in(value)
        elif name == "endpoint":
            yield parse_address(value)
        # `http:URL`, with ` redacted` behind it where that holds, names the endpoint of an embedder
        elif name == "embedder" and str(value).startswith("http:"):
            yield parse_address(str(value).removeprefix("http:").removesuffix(" redacted"))


class Endpoints:
    """The endpoints in the list of this machine, for one open project or a command. Sends no request and opens no reply
    cache before it is needed."""

    def __init__(self, data: Path, cache: Path, egress: Egress | None = None) -> None:
        """Reads the list of endpoints.

        Args:
            data: Folder with the list.
            cache: Folder of the reply cache.
            egress: Guards what leaves this machine of a project; None where nothing is sent.

        Raises:
            ModelFileError: The list cannot be read.
        """
        self._data, self._cache, self._egress = data, cache, egress
        self.book.entries()  # raises now if the list cannot be read
        self._replies: ReplyCache | None = None

    @property
    def book(self) -> EndpointBook:
        """The current list; commands may add to it while a project is open.

        Raises:
            ModelFileError: It cannot be read.
        """
        return EndpointBook(self._data)

    def is_endpoint(self, name: str | None) -> bool:
        """Returns whether a name is that of an endpoint."""
        return self.book.entry(name) is not None

    def entry(self, name: str) -> EndpointEntry:
        """Returns the endpoint of this name; raises NotFound if it is not in the list any more."""
        entry = self.book.entry(name)
        if entry is None:
            raise NotFound(f"There is no endpoint {name!r} any more.")
        return entry

    def connect(self, name: str) -> EndpointModel:
        """Returns a client for this endpoint.

        Raises:
            UsageError: It is not in the list any more, or a variable with a key is not set.
        """
        if self._replies is None:
            self._replies = ReplyCache(self._cache / REPLIES)
        return self._client(name, self._replies)

    def _client(self, name: str, replies: ReplyCache | None) -> EndpointModel:
        """Returns a client for the endpoint of this name, with a cache of replies or without."""
        entry = self.entry(name)
        sender = entry.sender(replies)
        self.guard(sender, entry.address, entry.redacted)
        return EndpointModel(name, sender, entry.can)

    def guard(self, sender: RequestSender, address: Address, redacted: bool) -> None:
        """Makes a sender refuse an address that nobody allowed, and replace personal data in what it sends.

        Args:
            redacted: Whether personal data is replaced.
        """
        if self._egress is not None and not address.local:
            sender.check_allowed = partial(self._egress.check, [address])
            sender.redact = self._egress.redact if redacted else None

    def entry_at(self, url: str) -> EndpointEntry | None:
        """Returns the endpoint at a URL, preferably one with a key; None if none was added, or the text is no URL."""
        if not url.startswith(("http://", "https://")):
            return None
        base = parse_address(url, leaf="embeddings").base  # the URL may be that of the embedder
        entries = [entry for entry in self.book.entries() if entry.address.base == base]
        return max(entries, key=lambda entry: bool(entry.key_env), default=None)

    def close(self) -> None:
        """Closes the reply cache."""
        if self._replies is not None:
            self._replies.close()
            self._replies = None

    # Checks before a run starts. They never refuse a model of this machine.

    def check_writing(self, model: LoadableModel, prompt: Prompt) -> None:
        """Raises UsageError if the model is behind an endpoint that cannot write replies to this prompt."""
        self._check_capability(model, "replies", lambda can: why_no_replies(can, prompt))

    def check_fields(self, model: LoadableModel, what: str) -> None:
        """Raises UsageError if the model is behind an endpoint whose replies have no fields, which `what` needs."""
        self._check_capability(model, what, why_no_fields)

    def check_chat(self, model: LoadableModel, sampling: Sampling) -> None:
        """Raises UsageError if the model is behind an endpoint that cannot write chat replies with this sampling."""
        self._check_capability(model, "replies to messages", lambda can: why_no_chat(can, sampling))

    def check_prices(self, model: LoadableModel) -> None:
        """Raises UsageError if what an endpoint costs is not known, so that no limit on the cost can hold."""
        entry = self.book.entry(model.endpoint)
        if entry is not None and entry.prices is None:
            raise UsageError(
                f"What {entry.name} costs is not known, so --max-cost cannot hold.",
                "Add it again with --prices READ WRITTEN, what a million tokens cost.",
            )

    def _check_capability(
        self, model: LoadableModel, what: str, reason: Callable[[Capabilities], str | None]
    ) -> None:
        """Raises UsageError if there is a reason why the endpoint of a model cannot give something.

        Args:
            what: What a run wants of the model, in words.
            reason: Returns the reason for the capabilities of an endpoint; None for none.
        """
        if model.endpoint is not None:
            client = self._client(model.endpoint, None)
            client.refuse(what, reason(client.can))


def endpoint_summary(entry: EndpointEntry) -> str:
    """Returns a line about an endpoint: its URL, its server, what work it can do, and why it cannot do the rest."""
    can = entry.can
    server = can.server if can.server != "unknown" else ""
    parts = [entry.url, server, *work_lines(can)]
    return ", ".join(one_line(part, MAX_PART_CHARACTERS) for part in parts if part)


def work_lines(can: Capabilities) -> list[str]:
    """Returns one line with the work that an endpoint can do, and one for each other kind of work with the reason."""
    fields = why_no_fields(can)
    # `paper-summary` stands for all prompts that are sent as messages (`chat`): they need the same of an endpoint
    reasons: dict[str, str | None] = {
        "replies": why_no_replies(can, parse_prompt("paper-summary", prompt_text("paper-summary"))),
        "labels of goals": fields,
        "answers to questions": fields,
        "merge questions": fields,
    }
    possible = [work for work, reason in reasons.items() if reason is None]
    lines = [f"gives {', '.join(possible)}"] if possible else []
    return lines + [f"no {work}: {reason}" for work, reason in reasons.items() if reason]
