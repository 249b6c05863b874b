"""A fleet: several endpoints that serve the same model and share the requests of one run.

A place is the permission for one request in flight; each endpoint has as many as its `RequestLimit` allows.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.base.errors import EndpointAway, EndpointError, RequestRefused
from engine.model.endpoints.client import Account, BackgroundRun, EndpointClient
from engine.model.endpoints.dialects import read_completion

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
"""Result of work that asks endpoints."""

TOKENS_PRICED = 1_000_000
"""Number of tokens that a price is given for."""


class Replies(Protocol):
    """A cache of replies."""

    def get(self, key: str) -> str | None:
        """Returns the reply that is stored under a key; None for none."""

    def put(self, key: str, value: str) -> None:
        """Stores a reply."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens read and written, in any currency."""

    read: float
    written: float


@dataclass(slots=True)
class _Member:
    """One endpoint of a fleet.

    Attributes:
        removal_reason: Why it is no longer used; None while it is.
    """

    client: EndpointClient
    prices: Prices | None
    removal_reason: str | None = None


class Fleet:
    """Sends each request to the endpoint with the most free places. An endpoint that fails is not used again.

    Attributes:
        account: What the requests since the last `begin` have taken.
    """

    def __init__(
        self,
        members: Sequence[tuple[EndpointClient, Prices | None]],
        replies: Replies | None = None,
        *,
        identity: str = "",
    ) -> None:
        """Prepares a fleet; sends no request.

        Args:
            members: The client and the prices of each endpoint; None if the prices are unknown.
            replies: Cache of replies; None for no cache.
            identity: Properties of the endpoints as text, which are part of the cache key.
        """
        self._members = [_Member(*member) for member in members]
        self._replies, self._identity = replies, identity
        self._background_run: BackgroundRun | None = None
        self._cancelled = False
        self._retries_before = 0
        self._places: _Places | None = None
        self._in_flight: dict[str, asyncio.Task[Any]] = {}
        self._sent: set[str] = set()
        self._refused: dict[str, str] = {}
        self.account = Account()

    def begin(self) -> None:
        """Starts new counts, clears an earlier `cancel`, and lets what was refused be sent again."""
        self._cancelled = False
        self._sent.clear()
        self._refused.clear()
        self._retries_before = self._count_retries()
        has_prices = any(member.prices for member in self._members)
        self.account = Account(cost=0.0 if has_prices else None)

    def _count_retries(self) -> int:
        """Returns how many requests all clients have sent again since they were made."""
        return sum(member.client.retries for member in self._members)

    @property
    def removal_reasons(self) -> list[str]:
        """The reasons why endpoints are no longer used, in order of the endpoints."""
        return [member.removal_reason for member in self._members if member.removal_reason]

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work that uses `ask`, and returns its result.

        Raises:
            Cancelled: `cancel` was called.
            NetworkRefused: An offline switch is on.
        """
        background_run = self._background_run = BackgroundRun(
            [member.client.address for member in self._members if not member.removal_reason]
        )
        if self._cancelled:
            background_run.cancel()
        try:
            return background_run.run(lambda: self._run_with_clients(work))
        finally:
            self._background_run = None

    def cancel(self) -> None:
        """Abandons requests in flight and refuses new ones until the next `begin`; may be called from any thread."""
        self._cancelled = True
        background_run = self._background_run
        if background_run is not None:
            background_run.cancel()

    async def ask(self, name: str, body: Mapping[str, Any]) -> Any:
        """Returns the JSON answer to a request, from the cache or from the endpoint with the most free places.

        Args:
            name: Path of the request, as in `Address.url`.
            body: What is posted, without `model`.

        Raises:
            RequestRefused: The endpoint refuses this request.
            ModelError: All endpoints have failed.
        """
        keys = [self._key(member, name, body) for member in self._members]
        key, *_ = keys
        if key in self._refused:
            raise RequestRefused(self._refused[key])
        # Any endpoint of the fleet may have given the reply earlier.
        cached = map(self._replies.get, keys) if self._replies is not None else iter(())
        if (reply := next((reply for reply in cached if reply is not None), None)) is not None:
            # A block is asked item by item after one of it was refused: that is no saving.
            self.account.cached += key not in self._sent
            return json.loads(reply)
        if (equal := self._in_flight.get(key)) is not None:
            self.account.cached += 1
            return await asyncio.shield(equal)
        task = self._in_flight[key] = asyncio.create_task(self._send(name, body, keys))
        try:
            return await task
        except RequestRefused as error:
            self._refused[key] = error.message
            raise
        finally:
            del self._in_flight[key]

    async def _send(self, name: str, body: Mapping[str, Any], keys: Sequence[str]) -> Any:
        """Returns the JSON answer of an endpoint, and keeps it under the key of that endpoint; see `ask`.

        Raises:
            RequestRefused: The endpoint refuses this request, or its answer is no completion.
            ModelError: All endpoints have failed.
        """
        places = self._places
        assert places is not None, "inside run only"
        while True:
            member = await places.take()
            try:
                answer = await member.client.ask(
                    places.clients[id(member)], name, self._body_with_model(member, body)
                )
            except EndpointAway as error:
                member.removal_reason = error.message
            else:
                self._count(member, answer)
                self._sent.update(keys)
                if _is_worth_keeping(name, answer) and self._replies is not None:
                    self._replies.put(keys[self._members.index(member)], json.dumps(answer))
                return answer
            finally:
                self.account.retries = self._count_retries() - self._retries_before
                places.give_back(member)

    def _body_with_model(self, member: _Member, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the body of a request to one endpoint, which names its model."""
        return {"model": member.client.address.model, **body}

    def _key(self, member: _Member, name: str, body: Mapping[str, Any]) -> str:
        """Returns the key of a request to one endpoint in the cache of replies, a SHA-256 in hex."""
        content = [
            self._identity,
            member.client.address.base,
            name,
            self._body_with_model(member, body),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _count(self, member: _Member, answer: Any) -> None:
        """Adds an answer to the account: its request, its tokens as the endpoint counts them, and their cost."""
        account = self.account
        account.requests += 1
        usage = answer.get("usage") if isinstance(answer, dict) else None
        if not isinstance(usage, dict):
            return
        read, written = (
            count if isinstance(count, int) else 0
            for count in (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        )
        account.read += read
        account.written += written
        if member.prices and account.cost is not None:
            millions_cost = read * member.prices.read + written * member.prices.written
            account.cost += millions_cost / TOKENS_PRICED

    async def _run_with_clients(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work while the connection pools of all endpoints are open."""
        async with AsyncExitStack() as stack:
            clients = {
                id(member): await stack.enter_async_context(member.client.open_connections())
                for member in self._members
                if not member.removal_reason
            }
            self._places = _Places(self._members, clients)
            try:
                return await work()
            finally:
                self._places = None


def _is_worth_keeping(name: str, answer: Any) -> bool:
    """Returns whether an answer may be given to the same request again: a completion without text may be the fault of
    an endpoint that recovers.

    Raises:
        RequestRefused: The answer has not the form that the path gives.
    """
    if not name.endswith("completions"):
        return True
    completion = read_completion(answer)
    return bool(completion.text.strip() or completion.steps)


class _Places:
    """Gives out the free places of all endpoints, inside one event loop."""

    def __init__(
        self, members: Sequence[_Member], clients: Mapping[int, httpx.AsyncClient]
    ) -> None:
        """Frees all places.

        Args:
            clients: The connection pool of each endpoint, by the id of its member.
        """
        self._members, self.clients = members, clients
        self._waiting: list[asyncio.Future[None]] = []
        for member in members:
            member.client.request_limit.active = 0

    async def take(self) -> _Member:
        """Waits for a free place, and returns the endpoint with the most of them.

        Raises:
            ModelError: All endpoints have failed.
        """
        while True:
            available = [member for member in self._members if not member.removal_reason]
            if not available:
                reasons = [
                    member.removal_reason for member in self._members if member.removal_reason
                ]
                raise EndpointError(" ".join(reasons), "Look at the endpoint, then run again.")
            best = max(available, key=lambda member: member.client.request_limit.free)
            if best.client.request_limit.free > 0:
                best.client.request_limit.active += 1
                return best
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def give_back(self, member: _Member) -> None:
        """Frees a place and wakes as many waiting requests as there are free places, the longest waiting first."""
        member.client.request_limit.active -= 1
        usable = [other for other in self._members if not other.removal_reason]
        free_places = sum(max(0, other.client.request_limit.free) for other in usable)
        # Where no endpoint is left, all wake up, to raise the error.
        count = max(1, free_places) if usable else len(self._waiting)
        woken, self._waiting = self._waiting[:count], self._waiting[count:]
        for waiter in woken:
            if not waiter.done():
                waiter.set_result(None)
            else:  # this request was cancelled; the next one may have the place
                self._wake()

    def _wake(self) -> None:
        """Wakes the longest waiting request that was not cancelled."""
        while self._waiting:
            waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
