"""Requests to an endpoint that is busy, broken, slow or unreachable, against a real server on this machine."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.base.errors import Cancelled, CostLimit, EndpointAway, EndpointError, RequestRefused
from engine.model.endpoints import client
from engine.model.endpoints.client import MAX_ATTEMPTS, EndpointClient, parse_address
from engine.model.endpoints.pacing import LONGEST_WAIT
from engine.model.endpoints.sender import Prices, RequestSender
from engine.model.interface import Spending
from tests.engine.model.dripping import dripping
from tests.engine.model.endpoints.toy_peer import Fault, ToyPeer, hangs_up, running, says

BODY = {"prompt": "Hello", "max_tokens": 2, "temperature": 0}
SAFETY = 30.0
"""Seconds after which something hangs; nothing here is timed."""


class Waits(list[float]):
    """Records the seconds that the client wants to wait, without waiting."""

    async def note(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def peer() -> Iterator[ToyPeer]:
    with running("vllm") as made:
        yield made


def asker(peer: ToyPeer, waits: Waits, **options: Any) -> EndpointClient:
    return EndpointClient(parse_address(peer.url), sleep=waits.note, **options)


class TestOneEndpoint:
    @pytest.mark.parametrize(
        "fault", [says(429, "slowly"), says(503, "busy"), says(500, "oh"), hangs_up]
    )
    def test_again(self, peer: ToyPeer, fault: Fault) -> None:
        """A request that meets a busy, failing or disconnecting server is repeated, each time after a longer wait."""
        waits = Waits()
        peer.faults = [fault, fault]
        answer = asker(peer, waits).ask_blocking("completions", BODY)
        assert answer["usage"]["completion_tokens"] == 2
        assert len(waits) == 2
        assert 0.5 <= waits[0] <= 0.625 < 1 <= waits[1] <= 1.25

    @pytest.mark.parametrize(("said", "waited"), [("0.25", 0.25), ("100000", LONGEST_WAIT)])
    def test_retry_after(self, peer: ToyPeer, said: str, waited: float) -> None:
        """The client waits as long as the server asks, within bounds."""
        waits = Waits()
        peer.faults = [says(429, "slowly", Retry_After=said)]
        asker(peer, waits).ask_blocking("completions", BODY)
        assert waits == [waited]

    def test_busy_for_good(self, peer: ToyPeer) -> None:
        """After some attempts an error says that the endpoint is unavailable, with the server's message made safe to
        show.
        """
        waits = Waits()
        peer.faults = [says(503, b"out of \x1b[31mmemory")] * MAX_ATTEMPTS
        with pytest.raises(EndpointAway, match=r"503 .out of ␛"):
            asker(peer, waits).ask_blocking("completions", BODY)
        assert len(waits) == MAX_ATTEMPTS - 1

    @pytest.mark.parametrize("fault", [says(500, "oh"), hangs_up])
    def test_failing_at_one_request(self, peer: ToyPeer, fault: Fault) -> None:
        """Where every attempt at a request fails while the endpoint answers others, the request fails and not the
        endpoint; one that cannot be connected to is gone, whatever it answered before."""

        async def answer_others(_seconds: float) -> None:
            """Stands for the answer to another request while this one waits."""
            endpoint.request_limit.record_answer(0.1)

        endpoint = EndpointClient(parse_address(peer.url), sleep=answer_others)
        peer.faults = [fault] * MAX_ATTEMPTS
        with pytest.raises(RequestRefused):
            endpoint.ask_blocking("completions", BODY)
        endpoint = EndpointClient(parse_address("http://127.0.0.1:9/v1"), sleep=answer_others)
        with pytest.raises(EndpointAway, match="cannot be reached"):
            endpoint.ask_blocking("completions", BODY)

    @pytest.mark.parametrize("code", [400, 403, 413, 422])
    def test_about_the_request(self, peer: ToyPeer, code: int) -> None:
        """A refusal of one request is an error of that request and is not repeated."""
        peer.faults = [says(code, "too long")]
        with pytest.raises(RequestRefused, match=f"{code}.*too long"):
            asker(peer, Waits()).ask_blocking("completions", BODY)
        assert len(peer.completions) == 1

    @pytest.mark.parametrize("code", [401, 402, 404])
    def test_about_the_endpoint(self, peer: ToyPeer, code: int) -> None:
        """Any other refusal means that the endpoint is unusable, and is not repeated."""
        peer.faults = [says(code, "no")]
        with pytest.raises(EndpointAway, match=str(code)):
            asker(peer, Waits()).ask_blocking("completions", BODY)
        assert len(peer.completions) == 1

    @pytest.mark.parametrize(
        "error",
        [
            {"error": {"code": 502, "message": "upstream"}},
            {"error": "overloaded"},
            {"choices": [{"error": {"code": 502}, "text": "", "finish_reason": "error"}]},
        ],
    )
    def test_error_in_a_success(self, peer: ToyPeer, error: Any) -> None:
        """An error inside an answer with status 200 is asked for again, as one with a status of its own is."""
        peer.faults = [says(200, error)]
        waits = Waits()
        assert asker(peer, waits).ask_blocking("completions", BODY)["choices"]
        assert len(waits) == 1

    def test_without_end(self, peer: ToyPeer, monkeypatch: pytest.MonkeyPatch) -> None:
        """An answer that goes on for ever is read up to a limit, also one that was packed."""
        monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
        for told, headers in (
            (b"1" * 200_000, {}),
            (gzip.compress(bytes(200_000)), {"Content_Encoding": "gzip"}),
        ):
            peer.faults = [says(200, told, **headers)]
            with pytest.raises(EndpointAway, match="answered with more than"):
                asker(peer, Waits()).ask_blocking("completions", BODY)

    @pytest.mark.parametrize(
        "start", [b"HTTP/1.1 200 OK\r\nServer: ", b"HTTP/1.1 200 OK\r\n\r\n{"], ids=["head", "body"]
    )
    def test_a_byte_now_and_then(self, start: bytes) -> None:
        """An answer that goes on for ever, a byte at a time, is given up at the time limit of a request, and the
        request is not repeated."""
        waits = Waits()
        with dripping(start) as url:
            slow = EndpointClient(parse_address(f"{url}/v1#m"), sleep=waits.note, seconds=2.0)
            with pytest.raises(EndpointAway, match="did not finish an answer within 2 s") as error:
                slow.ask_blocking("completions", BODY)
        assert error.value.overdue
        assert waits == []


class MemoryCache(dict[str, str]):
    """A reply cache in memory."""

    def put(self, key: str, value: str) -> None:
        self[key] = value


def sender(
    peer: ToyPeer, replies: MemoryCache | None = None, prices: Prices | None = None
) -> RequestSender:
    made = RequestSender(asker(peer, Waits()), prices, replies)
    made.begin()
    return made


def ask(made: RequestSender, count: int = 1) -> list[Any]:
    """Sends different requests concurrently and returns the answers."""
    import asyncio

    async def work() -> list[Any]:
        bodies = [{**BODY, "prompt": f"Hello {number}"} for number in range(count)]
        return list(await asyncio.gather(*(made.ask("completions", body) for body in bodies)))

    return made.run(work)


class TestFaults:
    def test_it_fails(self, peer: ToyPeer) -> None:
        """An endpoint that failed is not asked again, until a new run begins."""
        peer.faults = [says(401, "no key")]
        made = sender(peer)
        for _ in range(2):
            with pytest.raises(EndpointError, match="401"):
                ask(made)
        assert len(peer.completions) == 1
        made.begin()
        assert len(ask(made)) == 1

    def test_too_much_at_once(self, peer: ToyPeer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each answer that the endpoint is overloaded reaches the endpoint's pace; all requests are answered in the
        end.
        """
        one = asker(peer, Waits())
        heard: list[int] = []
        refused = one.request_limit.record_refusal

        def listen() -> None:
            refused()
            heard.append(one.request_limit.limit)

        monkeypatch.setattr(one.request_limit, "record_refusal", listen)
        made = RequestSender(one)
        made.begin()
        before = one.request_limit.limit
        peer.faults = [says(429, "slowly")] * 4
        assert len(ask(made, 6)) == 6
        assert len(heard) == made.account.retries == 4
        assert min(heard) < before


class TestAccount:
    def test_tokens_and_cost(self, peer: ToyPeer) -> None:
        """Tokens are those that the server counts; the cost is at the prices that a person gave."""
        made = sender(peer, prices=Prices(read=2.0, written=10.0))
        ask(made, 3)
        account = made.account
        # The start token and `Hello N`, and two tokens of each reply.
        assert (account.requests, account.read, account.written) == (3, 24, 6)
        assert account.cost == pytest.approx((24 * 2 + 6 * 10) / 1e6)

    def test_a_limit_on_the_cost(self, peer: ToyPeer) -> None:
        """A run stops before a request that might cost more than what is left, and never costs more than its limit;
        with a higher one it goes on, and pays nothing twice."""
        kept, prices = MemoryCache(), Prices(read=1e4, written=1e4)
        made = sender(peer, replies=kept, prices=prices)
        made.spending = Spending(max_cost=1.0)
        with pytest.raises(CostLimit, match=r"might cost .* --max-cost"):
            ask(made, 40)
        assert 0.5 < made.spending.cost <= 1.0
        assert not made.spending.reserved
        made.begin()
        made.spending = Spending(max_cost=100.0)
        assert len(ask(made, 40)) == len(peer.completions) == 40

    def test_nothing_is_asked_twice(self, peer: ToyPeer) -> None:
        """A cached reply costs no request, and is the same."""
        kept = MemoryCache()
        first = ask(sender(peer, replies=kept), 3)
        made = sender(peer, replies=kept)
        assert ask(made, 3) == first
        assert len(peer.completions) == 3
        assert (made.account.requests, made.account.cached) == (0, 3)

    @pytest.mark.parametrize(
        "choice", [{"text": ""}, {"message": {"content": None}}, {"text": " \n"}], ids=str
    )
    def test_what_is_not_kept(self, peer: ToyPeer, choice: Any) -> None:
        """A completion without text is no saving: the endpoint may have recovered when it is asked again."""
        kept = MemoryCache()
        peer.faults = [says(200, {"choices": [choice]})]
        ask(sender(peer, replies=kept))
        assert not kept
        (answer,) = ask(sender(peer, replies=kept))
        assert answer["choices"][0]["text"]
        assert kept

    def test_equal_requests_are_one(self, peer: ToyPeer) -> None:
        """Equal requests in flight are sent once, and all get the answer; without a cache too."""
        import asyncio

        made = sender(peer)
        peer.delay = 0.05

        async def work() -> list[Any]:
            return list(await asyncio.gather(*(made.ask("completions", BODY) for _ in range(5))))

        first, *others = made.run(work)
        assert others == [first] * 4
        assert len(peer.completions) == made.account.requests == 1
        assert made.account.cached == 4


class TestThreads:
    def test_share_the_places(self, peer: ToyPeer) -> None:
        """Work that several threads run is sent side by side, and each thread gets its own answers."""
        made = sender(peer)
        peer.delay = 0.2
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda: answers.extend(ask(made, 2))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SAFETY)
        assert len(answers) == 6
        assert len(peer.completions) == made.account.requests == 2  # equal ones are one


class TestCancelling:
    def test_without_waiting_for_the_server(self, peer: ToyPeer) -> None:
        """A cancel gives up requests in flight at once, without waiting for their answers."""
        peer.delay = 20.0
        made = sender(peer)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                ask(made, 8)
            except Cancelled as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while len(peer.completions) < 4:
            time.sleep(0.01)
        made.cancel()
        thread.join(SAFETY)
        assert failures
        assert peer.active
