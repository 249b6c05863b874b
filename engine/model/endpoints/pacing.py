"""The pace of the requests to an endpoint: how many are sent in parallel, and how long is waited before a retry.

The limit on parallel requests follows additive increase and multiplicative decrease: it doubles after as many answers
as it allows until answers become slower or the endpoint refuses one (slow start), then rises by one instead, is halved
after a "too many requests", and falls when answers become much slower. The wait before a retry is what the endpoint
asks for by `Retry-After`, else it doubles each time (exponential backoff).
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_LIMIT = 8.0
"""Limit of parallel requests before the first answer."""

MAX_PARALLEL_REQUESTS = 128
"""Highest limit of parallel requests, also for an endpoint that serves more."""

REFUSED_FACTOR, SLOW_FACTOR = 0.5, 0.8
"""Factors by which the limit of parallel requests falls after a refusal and after slow answers."""

SLOW_RATIO = 6.0
"""The limit falls if the moving average of durations is more than this many times its lowest value so far. The factor
is high, because a server that batches requests gains from more of them even if each takes longer."""

WAITING_RATIO = 2.0
"""The doubling ends if the moving average of durations is more than this many times its lowest value so far: where
twice as many requests take twice as long, the further ones only wait at the endpoint."""

NEWEST_WEIGHT = 0.2
"""Weight of the newest answer in the moving average of the durations."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""The first and the longest wait before a request is sent again, in seconds; each wait is twice the previous one."""

JITTER = 0.25
"""Largest random extension of a wait, as a share of the wait, so that many clients do not retry at once."""


class RequestLimit:
    """The limit on parallel requests to one endpoint.

    Attributes:
        active: Number of requests in flight, which the caller counts.
        answers: Number of answers that were recorded.
        paused_until: Time in seconds of the monotonic clock before which the endpoint wants no further request.
    """

    def __init__(self, served_in_parallel: int | None = None) -> None:
        """Starts with `FIRST_LIMIT`.

        Args:
            served_in_parallel: Number of requests that the endpoint serves in parallel; None if unknown.
        """
        self._max_limit = float(
            min(MAX_PARALLEL_REQUESTS, served_in_parallel or MAX_PARALLEL_REQUESTS)
        )
        self._limit = min(FIRST_LIMIT, self._max_limit)
        self._best_seconds: float | None = None
        self._average_seconds: float | None = None
        self.answers = self._answers_since_cut = 0
        self._doubling = True
        self.active = 0
        self.paused_until = 0.0

    @property
    def limit(self) -> int:
        """The largest number of requests in flight, at least one."""
        return max(1, int(self._limit))

    @property
    def free(self) -> int:
        """The number of further requests that may be sent now; negative if the limit fell below `active`."""
        return self.limit - self.active

    def record_answer(self, seconds: float) -> None:
        """Raises or lowers the limit after an answer that took this many seconds."""
        self.answers += 1
        self._answers_since_cut += 1
        average = self._average_seconds
        self._average_seconds = average = (
            seconds if average is None else average + NEWEST_WEIGHT * (seconds - average)
        )
        # Of requests that were sent together the shortest answers come first, so the first few are no measure.
        if self.answers >= FIRST_LIMIT:
            self._best_seconds = min(self._best_seconds or average, average)
        slowness = average / self._best_seconds if self._best_seconds else 1.0
        self._doubling = self._doubling and slowness <= WAITING_RATIO
        if slowness > SLOW_RATIO and self._answers_since_cut > self.limit:
            self._cut(SLOW_FACTOR)
        else:
            # While it doubles, by one for each answer; later by one in all after as many answers as the limit allows.
            rise = 1 if self._doubling else 1 / self._limit
            self._limit = min(self._max_limit, self._limit + rise)

    def record_refusal(self) -> None:
        """Lowers the limit after a refusal for too many requests, unless the request was sent before the last
        decrease."""
        if self._answers_since_cut >= 0:
            self._cut(REFUSED_FACTOR)
            # The requests in flight were sent under the old limit; their answers count up to 0 first.
            self._answers_since_cut = -self.active

    def _cut(self, factor: float) -> None:
        """Lowers the limit by a factor."""
        self._doubling = False
        self._limit = max(1.0, self._limit * factor)
        self._answers_since_cut = 0


def wait_after(attempt: int, headers: Mapping[str, str], jitter: float) -> float:
    """Returns the seconds to wait before a failed request is retried.

    Args:
        attempt: Number of earlier failures.
        headers: Headers of the answer with lower-case names; empty without an answer.
        jitter: Random number in [0, 1).
    """
    requested = _seconds(headers.get("retry-after", ""))
    if requested is not None:
        return min(LONGEST_WAIT, requested)
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * (1 + JITTER * jitter)


def _seconds(header: str) -> float | None:
    """Returns the seconds that a header names as a number; None for any other header, such as a date."""
    try:
        number = float(header)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
