"""What of a project would leave this machine for endpoints: how much, and one request in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.base.text import as_json
from engine.conversations.filters import parse_filter
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.model.endpoints.capabilities import no_fields
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.sender import TOKENS_PRICED
from engine.model.interface import CHARS_PER_TOKEN, LoadOptions

if TYPE_CHECKING:
    from engine.opener.open_project import OpenProject


@dataclass(frozen=True, slots=True)
class EgressPreview:
    """What would leave this machine.

    Attributes:
        address: URL of the endpoint.
        conversations, characters, tokens: Size of the project; the tokens are estimated.
        cost: Cost of reading it once; None without prices.
        with_personal_data: Number of conversations in which the program finds personal data.
        redacted: Whether that is replaced by pseudonyms.
        first_request: Body of the first request for a summary, as it would be sent; None for an embedder.
    """

    address: str
    conversations: int
    characters: int
    tokens: int
    cost: float | None
    with_personal_data: int
    redacted: bool
    first_request: Mapping[str, Any] | None

    def lines(self) -> list[str]:
        """Returns in words what would leave this machine: what, how much, and one request in full."""
        cost = "" if self.cost is None else f", {self.cost:,.2f} at its prices,"
        replaced = "replaced by names such as [email 3f2a9c]" if self.redacted else "sent as it is"
        lines = [
            f"To {self.address}: texts of conversations, goals and prompts, as each run needs them.",
            f"{counted(self.conversations, 'conversation')}, {self.characters:,} characters, about"
            f" {self.tokens:,} tokens{cost} if all is read once.",
            f"In {self.with_personal_data:,} of them the program finds personal data, which is {replaced}."
            " It does not find names of people.",
        ]
        if self.first_request is not None:
            request = as_json(self.first_request, indent=1)
            lines += ["The first request of a run that summarizes goals, in full:", request]
        return lines


def egress_preview(workspace: OpenProject, model: str) -> EgressPreview:
    """Returns what of a project would leave this machine for an endpoint; sends nothing.

    Args:
        model: Name or URL of an endpoint.

    Raises:
        UsageError: There is no such endpoint, or it is on this machine.
    """
    named = workspace.endpoints.book.entry(model)
    entry = named or workspace.endpoints.entry_at(model)
    address = entry.address if entry else parse_address(model, leaf="embeddings")
    if address.local:
        raise UsageError(f"{model} is on this machine: nothing leaves it.", "Just use it.")
    writes = entry is not None and (named is not None or no_fields(entry.can) is None)
    served = entry.loadable(LoadOptions()) if entry is not None and writes else None
    with workspace.project.reading() as conn:
        ids = ALL.ids(conn)
        characters = sum(conversations.chars(conn, ids))
        personal = len(Selection(parse_filter("personal:any")).ids(conn))
    chars_per_token = entry.can.chars_per_token if entry else None
    tokens = round(characters / (chars_per_token or CHARS_PER_TOKEN))
    prices = entry.prices if entry else None
    return EgressPreview(
        address=address.base,
        conversations=len(ids),
        characters=characters,
        tokens=tokens,
        cost=tokens * prices.read / TOKENS_PRICED if prices else None,
        with_personal_data=personal,
        redacted=entry is None or entry.redacted,
        first_request=workspace.goal_stages().first_request(served) if served else None,
    )
