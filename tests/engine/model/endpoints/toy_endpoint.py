"""A toy server and its client, as a run has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.client import EndpointClient, parse_address
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.probe import probe
from engine.model.endpoints.sender import Replies, RequestSender
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
    peer: ToyPeer, can: Capabilities, *, replies: Replies | None = None, context: int | None = None
) -> EndpointModel:
    """A client for this server, ready for requests."""
    asker = EndpointClient(parse_address(peer.url), sleep=at_once)
    made = EndpointModel("toy", RequestSender(asker, None, replies), can)
    made.load(Path(), LoadOptions(context=context))
    return made


@contextmanager
def endpoint(manner: Manner) -> Iterator[tuple[EndpointModel, ToyPeer]]:
    """A server of one kind, and its client."""
    with running(manner) as peer:
        yield client(peer, capabilities(manner)), peer
