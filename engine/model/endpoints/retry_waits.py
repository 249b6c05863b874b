"""Waiting times before retries: `Retry-After` if the endpoint sends it, else exponential backoff."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""The first and the longest wait in seconds; each wait is twice the previous one."""

JITTER = 0.25
"""Largest random extension of a wait, as a share of it, so that many clients do not retry at once."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_REMAINING = ("x-ratelimit-remaining-requests", "x-ratelimit-remaining", "ratelimit-remaining")
_RESET = ("x-ratelimit-reset-requests", "x-ratelimit-reset", "ratelimit-reset")


def wait_after(
    attempt: int, headers: Mapping[str, str], jitter: float, now: datetime | None = None
) -> float:
    """Returns the seconds to wait before a failed request is retried.

    Args:
        attempt: Number of earlier failures.
        headers: Headers of the answer with lower-case names; empty without an answer.
        jitter: Random number in [0, 1).
        now: Current time, for dates in headers; None reads the clock.
    """
    requested = _seconds(headers.get("retry-after"), now)
    if requested is not None:
        return min(LONGEST_WAIT, requested)
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * (1 + JITTER * jitter)


def wait_for_quota(headers: Mapping[str, str], now: datetime | None = None) -> float:
    """Returns the seconds until the rate limit in the headers of an answer allows another request; 0 if it allows one
    now."""
    remaining = next((headers[name] for name in _REMAINING if name in headers), None)
    if remaining is None or remaining.strip() != "0":
        return 0.0
    reset = next((headers[name] for name in _RESET if name in headers), None)
    return min(LONGEST_WAIT, _seconds(reset, now) or 0.0)


def _seconds(header: str | None, now: datetime | None) -> float | None:
    """Returns the seconds given by a header: a number, a duration such as `6m0s`, or a date; None for anything else."""
    text = (header or "").strip()
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return number if 0 <= number < float("inf") else None
    parts = _PART.findall(text)
    if parts and "".join(amount + unit for amount, unit in parts) == text:
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
