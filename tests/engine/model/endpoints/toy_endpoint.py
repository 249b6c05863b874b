"""A toy server and its client, as a run has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.client import EndpointClient, parse_address
from engine.model.endpoints.fleet import Fleet, Prices, Replies
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.probe import probe
from engine.model.interface import LoadOptions
from tests.engine.model.endpoints.toy_peer import Manner, ToyPeer, running


async def at_once(seconds: float) -> None:
    """A wait that takes no time."""


@cache
def capabilities(manner: Manner) -> Capabilities:
    """The probe result of a server of this kind."""
    with running(manner) as peer:
        return probe(parse_address(peer.url))


def client(
    peers: Sequence[ToyPeer],
    can: Capabilities,
    *,
    replies: Replies | None = None,
    prices: Prices | None = None,
    context: int | None = None,
) -> EndpointModel:
    """A client for these servers, ready for requests."""
    askers = [(EndpointClient(parse_address(peer.url), sleep=at_once), prices) for peer in peers]
    made = EndpointModel("toy", Fleet(askers, replies), can)
    made.load(Path(), LoadOptions(context=context))
    return made


@contextmanager
def endpoint(manner: Manner, count: int = 1) -> Iterator[tuple[EndpointModel, list[ToyPeer]]]:
    """Servers of one kind, and their client."""
    with ExitStack() as stack:
        peers = [stack.enter_context(running(manner)) for _ in range(count)]
        yield client(peers, capabilities(manner)), peers
