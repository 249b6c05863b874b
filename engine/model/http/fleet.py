"""Several endpoints that serve the same model and share the requests of one run."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.base.errors import EndpointAway, EndpointError
from engine.model.http.client import Account, BackgroundRun, EndpointClient

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class Replies(Protocol):
    """Where replies are kept."""

    def get(self, key: str) -> str | None:
        """What was kept under a key."""

    def put(self, key: str, value: str) -> None:
        """Keeps a reply."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens read and written, in any currency."""

    read: float
    written: float


@dataclass(slots=True)
class _Member:
    asker: EndpointClient
    prices: Prices | None
    gone: str | None = None


class Fleet:
    """Sends each request to the endpoint with the most free places. One that fails is not used again, and reported.

    Attributes:
        account: Counts since the last `begin`.
    """

    def __init__(
        self,
        members: Sequence[tuple[EndpointClient, Prices | None]],
        replies: Replies | None = None,
        *,
        identity: str = "",
    ) -> None:
        """Prepares.

        Args:
            replies: Cache of replies; None: no cache.
            identity: Properties of the endpoints, part of the cache key.
        """
        self._members = [_Member(*member) for member in members]
        self._replies, self._identity = replies, identity
        self._running: BackgroundRun | None = None
        self._cancelled = False
        self._again_before = 0
        self._turns: _Round | None = None
        self.account = Account()

    def begin(self) -> None:
        """Starts new counts, and clears an earlier `cancel`."""
        self._cancelled = False
        self._again_before = self._again()
        self.account = Account(cost=0.0 if any(m.prices for m in self._members) else None)

    def _again(self) -> int:
        return sum(member.asker.again for member in self._members)

    @property
    def taken_out(self) -> list[str]:
        """Reasons why endpoints are no longer used, in order of the endpoints."""
        return [member.gone for member in self._members if member.gone]

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Waits for work that uses `ask`.

        Raises:
            Cancelled: `cancel` was called.
            NetworkRefused: An offline switch is on.
        """
        running = self._running = BackgroundRun(
            [m.asker.address for m in self._members if not m.gone]
        )
        if self._cancelled:
            running.cancel()
        try:
            return running.run(lambda: self._within(work))
        finally:
            self._running = None

    def cancel(self) -> None:
        """Abandons requests in flight and refuses new ones until the next `begin`; may be called from any thread."""
        self._cancelled = True
        running = self._running
        if running is not None:
            running.cancel()

    async def ask(self, name: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer to a request, from the cache or from whichever endpoint has room.

        Args:
            name: Path of the request, as in `Address.url`.
            body: What is posted, without `model`.

        Raises:
            RequestRefused: This request is refused.
            ModelError: No endpoint is left.
        """
        turns = self._turns
        assert turns is not None, "inside run only"
        keys = [self._key(member, name, body) for member in self._members]
        if self._replies is not None:
            for key in keys:
                kept = self._replies.get(key)
                if kept is not None:
                    self.account.cached += 1
                    return json.loads(kept)
        while True:
            member = await turns.take()
            try:
                answer = await member.asker.ask(
                    turns.clients[id(member)], name, self._sent(member, body)
                )
            except EndpointAway as error:
                member.gone = error.message
            else:
                self._count(member, answer)
                if self._replies is not None:
                    self._replies.put(keys[self._members.index(member)], json.dumps(answer))
                return answer
            finally:
                self.account.again = self._again() - self._again_before
                turns.give_back(member)

    def _sent(self, member: _Member, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": member.asker.address.model, **body}

    def _key(self, member: _Member, name: str, body: Mapping[str, Any]) -> str:
        content = [self._identity, member.asker.address.base, name, self._sent(member, body)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _count(self, member: _Member, answer: Any) -> None:
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
            account.cost += (read * member.prices.read + written * member.prices.written) / 1e6

    async def _within(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with AsyncExitStack() as stack:
            clients = {
                id(member): await stack.enter_async_context(member.asker.client())
                for member in self._members
                if not member.gone
            }
            self._turns = _Round(self._members, clients)
            try:
                return await work()
            finally:
                self._turns = None


class _Round:
    """Waits for a free place at an endpoint, inside one event loop."""

    def __init__(
        self, members: Sequence[_Member], clients: Mapping[int, httpx.AsyncClient]
    ) -> None:
        self._members, self.clients = members, clients
        self._waiting: list[asyncio.Future[None]] = []
        for member in members:
            member.asker.pace.active = 0

    async def take(self) -> _Member:
        """The endpoint with the most room, once one has any.

        Raises:
            ModelError: None is left.
        """
        while True:
            left = [member for member in self._members if not member.gone]
            if not left:
                reasons = [member.gone for member in self._members if member.gone]
                raise EndpointError(" ".join(reasons), "Look at the endpoint, then run again.")
            best = max(left, key=lambda member: member.asker.pace.free)
            if best.asker.pace.free > 0:
                best.asker.pace.active += 1
                return best
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def give_back(self, member: _Member) -> None:
        """Frees a place and lets those who wait look again, the first first."""
        member.asker.pace.active -= 1
        room = sum(max(0, m.asker.pace.free) for m in self._members if not m.gone)
        alive = any(not m.gone for m in self._members)
        count = max(1, room) if alive else len(self._waiting)
        turns, self._waiting = self._waiting[:count], self._waiting[count:]
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
            else:  # its asker was cancelled; the next in line may have the place
                self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                return
