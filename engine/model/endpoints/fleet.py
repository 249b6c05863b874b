"""A fleet: several endpoints that serve the same model and share the requests of one run.

A place is the permission for one request in flight; each endpoint has as many as its `RequestLimit` allows.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from engine.base.errors import Cancelled, CostLimit, EndpointAway, EndpointError, RequestRefused
from engine.base.number_format import counted
from engine.model.endpoints.client import Account, BackgroundLoop, EndpointClient
from engine.model.endpoints.dialects import read_completion, text_pieces
from engine.model.interface import Spending

T = TypeVar("T")
"""Result of work that asks endpoints."""

TOKENS_PRICED = 1_000_000
"""Number of tokens that a price is given for."""

LEAST_CHARS_PER_TOKEN = 2.0
"""Characters of a token of a text that has more tokens than nearly all others, for the most that a request may cost."""

LEAST_SHOWN_COST = 0.00005
"""Smallest cost that is shown in four digits."""


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
        spending: What the run may cost that the requests are part of.
        check: Raises NetworkRefused where texts may not be sent.
        redact: Replaces personal data in every text that is sent; None sends texts as they are.
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
        self._loop = BackgroundLoop([client.address for client, _ in members])
        self._cancelled = False
        self._retries_before = 0
        self._places: _Places | None = None
        self._sent: set[str] = set()
        self._refused: dict[str, str] = {}
        self.account = Account()
        self.spending = Spending()
        self.check: Callable[[], None] = lambda: None
        self.redact: Callable[[str], str] | None = None
        self._rehearsed: list[Mapping[str, Any]] | None = None
        self._laid_out = ""

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

    @property
    def prices(self) -> Prices | None:
        """The prices of the first endpoint whose prices are known."""
        return next((member.prices for member in self._members if member.prices), None)

    @property
    def limit(self) -> int:
        """The number of requests that the endpoints bear side by side, as far as is known; at least one."""
        return sum(m.client.request_limit.limit for m in self._members if not m.removal_reason) or 1

    def spent(self) -> str:
        """Requests, tokens and cost since `begin`, and the endpoints that are no longer used."""
        account = self.account
        report = counted(account.requests, "request")
        report += f", {account.cached:,} more answered from the cache" if account.cached else ""
        report += f", {account.retries:,} sent again" if account.retries else ""
        report += f"; {account.read:,} tokens read, {account.written:,} written"
        if account.cost is not None:
            report += f", cost {account.cost:,.4f}"
            total = self.spending.cost
            more = total - account.cost > LEAST_SHOWN_COST
            report += f", {total:,.4f} with the stages before" if more else ""
        removed = (f"Taken out: {reason.rstrip('.')}" for reason in self.removal_reasons)
        return ". ".join([report, *removed])

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work that uses `ask`, and returns its result. Several threads may run work side by side.

        Raises:
            Cancelled: `cancel` was called.
            NetworkRefused: An offline switch is on.
        """
        if self._cancelled:
            raise Cancelled("The request was cancelled.")
        if self._rehearsed is None:
            self.check()
        return self._loop.run(lambda: self._run_with_places(work))

    def cancel(self) -> None:
        """Abandons requests in flight and refuses new ones until the next `begin`; may be called from any thread."""
        self._cancelled = True
        self._loop.cancel()

    def rehearse(self, work: Callable[[], object]) -> list[Mapping[str, Any]]:
        """Returns the bodies of the requests that work would send and pay for, as they would be sent. None is sent;
        those that depend on the answer to another are not among them."""
        rehearsed: list[Mapping[str, Any]] = []
        self._rehearsed = rehearsed
        try:
            with suppress(RequestRefused):
                work()
        finally:
            self._rehearsed = None
        return rehearsed

    def _rehearse(
        self, rehearsed: list[Mapping[str, Any]], name: str, body: Mapping[str, Any]
    ) -> Any:
        """Notes a request that is paid for; stands in for the server where tokens and templates are asked for.

        Raises:
            RequestRefused: The request is one that is paid for.
        """
        if is_paid(name):
            if body not in rehearsed:  # what is refused is asked for again, item by item
                rehearsed.append(body)
            raise RequestRefused("The request was only rehearsed.")
        if "tokens" not in body:
            messages = "\n".join(message["content"] for message in body.get("messages", ()))
            self._laid_out = str(body.get("prompt") or body.get("content") or messages)
        first = zlib.crc32(self._laid_out.encode())  # other texts have other tokens
        count = text_pieces(self._laid_out)
        return {"tokens": list(range(first, first + count)), "prompt": self._laid_out}

    async def ask(self, name: str, body: Mapping[str, Any]) -> Any:
        """Returns the JSON answer to a request, from the cache or from the endpoint with the most free places.

        Args:
            name: Path of the request, as in `Address.url`.
            body: What is posted, without `model`.

        Raises:
            RequestRefused: The endpoint refuses this request.
            ModelError: All endpoints have failed.
        """
        if self.redact is not None:
            body = _mapped(body, self.redact)
        if self._rehearsed is not None:
            return self._rehearse(self._rehearsed, name, body)
        keys = [self._key(member, name, body) for member in self._members]
        key, *_ = keys
        if key in self._refused:
            raise RequestRefused(self._refused[key])
        # Any endpoint of the fleet may have given the reply earlier.
        cached = map(self._replies.get, keys) if self._replies is not None else iter(())
        if self.spending.fresh and is_paid(name) and key not in self._sent:
            cached = iter(())
        if (reply := next((reply for reply in cached if reply is not None), None)) is not None:
            # A block is asked item by item after one of it was refused: that is no saving.
            self.account.cached += is_paid(name) and key not in self._sent
            return json.loads(reply)
        assert self._places is not None, "inside run only"
        in_flight = self._places.in_flight
        if (equal := in_flight.get(key)) is not None:
            self.account.cached += is_paid(name)
            return await asyncio.shield(equal)
        task = in_flight[key] = asyncio.create_task(self._send(self._places, name, body, keys))
        try:
            return await task
        except RequestRefused as error:
            self._refused[key] = error.message
            raise
        finally:
            del in_flight[key]

    async def _send(
        self, places: _Places, name: str, body: Mapping[str, Any], keys: Sequence[str]
    ) -> Any:
        """Returns the JSON answer of an endpoint, and keeps it under the key of that endpoint; see `ask`.

        Raises:
            RequestRefused: The endpoint refuses this request, or its answer is no completion.
            ModelError: All endpoints have failed.
        """
        while True:
            member = await places.take()
            spending, most = self.spending, 0.0
            try:
                most = await self._reserve(places, member, body) if is_paid(name) else 0.0
                answer = await member.client.ask(
                    places.clients[id(member)], name, self._body_with_model(member, body)
                )
            except EndpointAway as error:
                member.removal_reason = error.message
            else:
                if is_paid(name):
                    self._count(member, answer)
                self._sent.update(keys)
                if _is_worth_keeping(name, answer) and self._replies is not None:
                    self._replies.put(keys[self._members.index(member)], json.dumps(answer))
                return answer
            finally:
                if most:
                    spending.reserved.remove(most)
                self.account.retries = self._count_retries() - self._retries_before
                places.give_back(member)

    async def _reserve(self, places: _Places, member: _Member, body: Mapping[str, Any]) -> float:
        """Reserves the most that a request may cost, and returns it; 0 where the prices are unknown. Waits for the cost
        of requests in flight where it depends on that whether the run may cost so much.

        Raises:
            CostLimit: The run might then cost more than it may.
        """
        if member.prices is None:
            return 0.0
        spending = self.spending
        read = len(json.dumps(body, ensure_ascii=False)) / LEAST_CHARS_PER_TOKEN
        written = float(body.get("max_tokens", 0))
        most = (read * member.prices.read + written * member.prices.written) / TOKENS_PRICED
        limit = spending.max_cost
        while limit is not None and spending.cost + sum(spending.reserved) + most > limit:
            if not spending.reserved:
                raise CostLimit(
                    f"The run has cost {spending.cost:,.4f}, and its next request might cost {most:,.4f}: together more"
                    f" than the {limit:,.4f} of --max-cost.",
                    "Run it again with a higher --max-cost: it goes on where it stopped.",
                )
            await places.next_end()
        spending.reserved.append(most)
        return most

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
        cost = usage.get("cost")  # some servers say it themselves
        if not (isinstance(cost, int | float) and 0 <= cost < float("inf")):
            if member.prices is None:
                return
            millions_cost = read * member.prices.read + written * member.prices.written
            cost = millions_cost / TOKENS_PRICED
        account.cost = (account.cost or 0.0) + cost
        self.spending.cost += cost

    async def _run_with_places(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work while the connection pools of all endpoints are open, which all work shares."""
        # Cancelled work may still hold places of an earlier loop.
        if self._places is None or self._places.loop is not asyncio.get_running_loop():
            self._places = _Places(self._members)
        places = self._places
        places.users += 1
        try:
            return await work()
        finally:
            places.users -= 1
            if not places.users:
                self._places = None if self._places is places else self._places
                await places.close()


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a JSON value with all of its texts changed; the names of fields stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return value if value and isinstance(value[0], int) else [_mapped(v, change) for v in value]
    return value


def rehearsed_pieces(body: Mapping[str, Any]) -> float:
    """Returns the pieces of text in the prompt of a rehearsed request; see `text_pieces`."""
    prompt = body.get("prompt", "")
    if isinstance(prompt, list):
        return len(prompt)
    return text_pieces(prompt) + sum(
        text_pieces(message["content"]) for message in body.get("messages", ())
    )


def is_paid(name: str) -> bool:
    """Returns whether a request to this path costs tokens: those that only a server's own software has, such as
    `/tokenize`, do not."""
    return not name.startswith("/")


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
    """Gives out the free places of all endpoints, inside one event loop.

    Attributes:
        users: Number of works that use them.
        loop: The event loop that they are of.
        in_flight: The requests that are not answered yet, by their key.
        clients: The connection pool of each endpoint, by the id of its member.
    """

    def __init__(self, members: Sequence[_Member]) -> None:
        """Frees all places and opens the connection pool of each endpoint."""
        self._members, self.users = members, 0
        self.loop = asyncio.get_running_loop()
        self.in_flight: dict[str, asyncio.Task[Any]] = {}
        self._ended = asyncio.Event()
        self.clients = {id(member): member.client.open_connections() for member in members}
        for member in members:
            member.client.request_limit.active = 0

    async def close(self) -> None:
        """Closes the connection pools."""
        for client in self.clients.values():
            await client.aclose()

    async def take(self) -> _Member:
        """Waits for a free place, and returns the endpoint with the most of them, of two alike the one that answered
        less.

        Raises:
            ModelError: All endpoints have failed.
        """
        while True:
            available = [member for member in self._members if not member.removal_reason]
            if not available:
                reasons = [member.removal_reason or "" for member in self._members]
                raise EndpointError(" ".join(reasons), "Look at the endpoint, then run again.")
            limits = {id(member): member.client.request_limit for member in available}
            best = max(available, key=lambda m: (limits[id(m)].free, -limits[id(m)].answers))
            if best.client.request_limit.free > 0:
                best.client.request_limit.active += 1
                return best
            await self.next_end()

    def give_back(self, member: _Member) -> None:
        """Frees a place; what waits looks for one again."""
        limit = member.client.request_limit
        limit.active = max(0, limit.active - 1)
        self._ended.set()

    async def next_end(self) -> None:
        """Waits until the next request in flight has ended."""
        self._ended.clear()
        await self._ended.wait()
