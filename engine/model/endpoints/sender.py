"""Sends the requests of a run to an endpoint, counts their tokens and cost, and answers equal requests from a cache.

A place is the permission for one request in flight; there are as many as the `RequestLimit` of the endpoint allows. A
request is rehearsed when its body is noted instead of sent, to estimate what a run will cost.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from engine.base.errors import Cancelled, CostLimit, EndpointAway, EndpointError, RequestRefused
from engine.base.number_format import counted
from engine.model.endpoints.background_loop import BackgroundLoop
from engine.model.endpoints.capabilities import counted_tokens, read_completion, usage_of
from engine.model.endpoints.client import EndpointClient
from engine.model.endpoints.tokens import count_pieces
from engine.model.interface import Spending

T = TypeVar("T")
"""Result of work that asks an endpoint."""

TOKENS_PRICED = 1_000_000

LEAST_CHARS_PER_TOKEN = 2.0
"""Fewest characters that a token is assumed to have, so that a cost is not guessed too low; nearly all texts have
more."""

MIN_SHOWN_DIFFERENCE = 0.00005
"""Cost of earlier stages above which the total is shown; a smaller one would be `.0000` with four digits."""


@dataclass(slots=True)
class Account:
    """What the requests of a run have taken.

    Attributes:
        requests: Number of requests that are paid for (`is_paid`) and that an endpoint answered.
        cached: Number of such requests that were answered from the cache, or by an equal one in flight.
        retries: Number of requests that were sent again.
        read: Number of prompt tokens.
        written: Number of tokens of replies.
        cost: Cost in the currency of the prices; None if no prices are known.
    """

    requests: int = 0
    cached: int = 0
    retries: int = 0
    read: int = 0
    written: int = 0
    cost: float | None = None


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

    def cost_of(self, read_tokens: float, written_tokens: float) -> float:
        """Returns what reading and writing numbers of tokens costs, in the currency of the prices."""
        return (read_tokens * self.read + written_tokens * self.written) / TOKENS_PRICED


class RequestSender:
    """Sends requests to one endpoint. Once it has failed, it is not asked again until the next `begin`.

    Attributes:
        prices: What its tokens cost; None if that is unknown.
        account: What the requests since the last `begin` have taken.
        spending: What the run of the requests may cost.
        check_allowed: Raises NetworkRefused where texts may not be sent.
        redact: Replaces personal data in every text that is sent; None sends texts as they are.
    """

    def __init__(
        self,
        client: EndpointClient,
        prices: Prices | None = None,
        replies: Replies | None = None,
        *,
        identity: str = "",
    ) -> None:
        """Prepares; sends no request.

        Args:
            replies: Cache of replies; None for no cache.
            identity: Properties of the endpoint as text, which are part of the cache key.
        """
        self.prices = prices
        self._client = client
        self._replies = replies
        self._identity = identity
        # What the endpoint did when it failed; None while it works.
        self._failure: str | None = None
        self._loop = BackgroundLoop(client.address.host, client.address.port)
        self._cancelled = False
        self._retries_before = 0
        self._places: _Places | None = None
        # Keys of the requests that were answered since `begin`.
        self._sent: set[str] = set()
        # Messages of the refusals since `begin`, by key of the request.
        self._refused: dict[str, str] = {}
        self.account = Account()
        self.spending = Spending()
        self.check_allowed: Callable[[], None] = lambda: None
        self.redact: Callable[[str], str] | None = None
        # Bodies of the requests while they are rehearsed, else None.
        self._rehearsed: list[Mapping[str, Any]] | None = None
        # The text whose tokens were asked for last in a rehearsal.
        self._rehearsed_text = ""

    def begin(self) -> None:
        """Starts new counts, clears an earlier `cancel`, and lets what was refused be sent again."""
        self._cancelled, self._failure = False, None
        self._sent.clear()
        self._refused.clear()
        self._retries_before = self._client.retries
        self.account = Account(cost=None if self.prices is None else 0.0)

    @property
    def limit(self) -> int:
        """The number of requests that the endpoint bears side by side, as far as is known; at least one."""
        return self._client.request_limit.limit

    def spent(self) -> str:
        """Returns the requests, tokens and cost since `begin`, in words."""
        account = self.account
        report = counted(account.requests, "request")
        if account.cached:
            report += f", {account.cached:,} more answered from the cache"
        if account.retries:
            report += f", {account.retries:,} sent again"
        report += f"; {account.read:,} tokens read, {account.written:,} written"
        if account.cost is not None:
            report += f", cost {account.cost:,.4f}"
            total = self.spending.cost
            if total - account.cost > MIN_SHOWN_DIFFERENCE:
                report += f", {total:,.4f} with the stages before"
        return report

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work that uses `ask`, and returns its result. Several threads may run work side by side.

        Raises:
            Cancelled: `cancel` was called.
            NetworkRefused: An offline switch is on.
        """
        if self._cancelled:
            raise Cancelled("The request was cancelled.")
        if self._rehearsed is None:
            self.check_allowed()
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
        """Notes a request that is paid for; answers one for tokens or a template as a server would, with made-up
        tokens.

        Raises:
            RequestRefused: The request is one that is paid for.
        """
        if is_paid(name):
            if body not in rehearsed:  # what is refused is asked for again, item by item
                rehearsed.append(body)
            raise RequestRefused("The request was only rehearsed.")
        if "tokens" not in body:
            messages = "\n".join(message["content"] for message in body.get("messages", ()))
            self._rehearsed_text = str(body.get("prompt") or body.get("content") or messages)
        text = self._rehearsed_text
        first = zlib.crc32(text.encode())  # other texts have other tokens
        return {"tokens": list(range(first, first + count_pieces(text))), "prompt": text}

    async def ask(self, name: str, body: Mapping[str, Any]) -> Any:
        """Returns the JSON answer to a request, from the cache or from the endpoint.

        Args:
            name: Path of the request, as in `Address.url`.
            body: What is posted, without `model`.

        Raises:
            RequestRefused: The endpoint refuses this request.
            CostLimit: The run might cost more than it may.
            ModelError: The endpoint has failed.
        """
        if self.redact is not None:
            body = _with_changed_texts(body, self.redact)
        if self._rehearsed is not None:
            return self._rehearse(self._rehearsed, name, body)
        key = self._key(name, body)
        if key in self._refused:
            raise RequestRefused(self._refused[key])
        ignores_cache = self.spending.fresh and is_paid(name) and key not in self._sent
        reply = None if self._replies is None or ignores_cache else self._replies.get(key)
        if reply is not None:
            # No saving if this run sent it itself: where an item is refused, the items of its block are asked one by
            # one.
            self.account.cached += is_paid(name) and key not in self._sent
            return json.loads(reply)
        assert self._places is not None, "inside run only"
        in_flight = self._places.in_flight
        if (same_request := in_flight.get(key)) is not None:
            self.account.cached += is_paid(name)
            return await asyncio.shield(same_request)
        task = in_flight[key] = asyncio.create_task(self._send(self._places, name, body, key))
        try:
            return await task
        except RequestRefused as error:
            self._refused[key] = error.message
            raise
        finally:
            del in_flight[key]

    async def _send(self, places: _Places, name: str, body: Mapping[str, Any], key: str) -> Any:
        """Returns the JSON answer of the endpoint, and keeps it under the key; see `ask`.

        Raises:
            RequestRefused: The endpoint refuses this request, or its answer is no completion.
            CostLimit: The run might cost more than it may.
            ModelError: The endpoint has failed.
        """
        await places.take()
        spending, reserved_cost = self.spending, 0.0
        try:
            if self._failure is not None:
                raise EndpointError(self._failure, "Look at the endpoint, then run again.")
            reserved_cost = await self._reserve(places, body) if is_paid(name) else 0.0
            answer = await self._client.ask(places.client, name, self._body_with_model(body))
        except EndpointAway as error:
            self._failure = error.message
            raise EndpointError(error.message, "Look at the endpoint, then run again.") from error
        finally:
            if reserved_cost:
                spending.reserved.remove(reserved_cost)
            self.account.retries = self._client.retries - self._retries_before
            places.give_back()
        if is_paid(name):
            self._add_to_account(answer)
        self._sent.add(key)
        completion = read_completion(answer) if name.endswith("completions") else None
        # A completion without text may be the fault of an endpoint that recovers: the same request is sent again.
        is_worth_keeping = completion is None or completion.text.strip() or completion.positions
        if is_worth_keeping and self._replies is not None:
            self._replies.put(key, json.dumps(answer))
        return answer

    async def _reserve(self, places: _Places, body: Mapping[str, Any]) -> float:
        """Reserves the most that a request may cost, and returns it; 0 where the prices are unknown. Where that cost
        might exceed the limit together with those of the requests in flight, it waits until these have ended.

        Raises:
            CostLimit: The run might then cost more than it may.
        """
        if self.prices is None:
            return 0.0
        spending = self.spending
        read = len(json.dumps(body, ensure_ascii=False)) / LEAST_CHARS_PER_TOKEN
        written = float(body.get("max_tokens", 0))
        max_cost = self.prices.cost_of(read, written)
        limit = spending.max_cost
        while limit is not None and spending.cost + sum(spending.reserved) + max_cost > limit:
            if not spending.reserved:
                raise CostLimit(
                    f"The run has cost {spending.cost:,.4f}, and its next request might cost {max_cost:,.4f}:"
                    f" together more than the {limit:,.4f} of --max-cost.",
                    "Run it again with a higher --max-cost: it goes on where it stopped.",
                )
            await places.next_end()
        spending.reserved.append(max_cost)
        return max_cost

    def _body_with_model(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the body of a request, which names the model."""
        return {"model": self._client.address.model, **body}

    def _key(self, name: str, body: Mapping[str, Any]) -> str:
        """Returns the key of a request in the cache of replies, a SHA-256 in hex."""
        content = [self._identity, self._client.address.base, name, self._body_with_model(body)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _add_to_account(self, answer: Any) -> None:
        """Adds an answer to the account: its request, its tokens as the endpoint counts them, and their cost."""
        account = self.account
        account.requests += 1
        read = counted_tokens(answer, "prompt_tokens") or 0
        written = counted_tokens(answer, "completion_tokens") or 0
        account.read += read
        account.written += written
        cost = usage_of(answer).get("cost")  # some servers say it themselves
        if not (isinstance(cost, int | float) and 0 <= cost < float("inf")):
            if self.prices is None:
                return
            cost = self.prices.cost_of(read, written)
        account.cost = (account.cost or 0.0) + cost
        self.spending.cost += cost

    async def _run_with_places(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs work while the connection pool is open, which all work shares."""
        # Cancelled work may still hold places of an earlier loop.
        if self._places is None or self._places.loop is not asyncio.get_running_loop():
            self._places = _Places(self._client)
        places = self._places
        places.users += 1
        try:
            return await work()
        finally:
            places.users -= 1
            if not places.users:
                self._places = None if self._places is places else self._places
                await places.client.aclose()


def _with_changed_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a JSON value with all of its texts changed; the names of fields stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _with_changed_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        is_tokens = bool(value) and isinstance(value[0], int)
        return value if is_tokens else [_with_changed_texts(inner, change) for inner in value]
    return value


def rehearsed_pieces(body: Mapping[str, Any]) -> float:
    """Returns the pieces of text in the prompt of a rehearsed request, see `count_pieces`; of token ids their
    number."""
    prompt = body.get("prompt", "")
    if isinstance(prompt, list):
        return len(prompt)
    return count_pieces(prompt) + sum(
        count_pieces(message["content"]) for message in body.get("messages", ())
    )


def is_paid(name: str) -> bool:
    """Returns whether a request to this path costs tokens: those that only a server's own software has, such as
    `/tokenize`, do not."""
    return not name.startswith("/")


class _Places:
    """Gives out the free places of an endpoint, inside one event loop.

    Attributes:
        users: Number of calls of `RequestSender.run` that use them.
        loop: The event loop in which they are given out.
        in_flight: The requests that are not answered yet, by their key.
        client: The connection pool.
    """

    def __init__(self, client: EndpointClient) -> None:
        """Frees all places and opens the connection pool."""
        self._limit, self.users = client.request_limit, 0
        self._limit.active = 0
        self.loop = asyncio.get_running_loop()
        self.in_flight: dict[str, asyncio.Task[Any]] = {}
        self._ended = asyncio.Event()
        self.client = client.open_connections()

    async def take(self) -> None:
        """Waits for a free place."""
        while self._limit.free <= 0:
            await self.next_end()
        self._limit.active += 1

    def give_back(self) -> None:
        """Frees a place, and wakes up all that wait for one."""
        self._limit.active = max(0, self._limit.active - 1)
        self._ended.set()

    async def next_end(self) -> None:
        """Waits until the next request in flight has ended."""
        self._ended.clear()
        await self._ended.wait()
