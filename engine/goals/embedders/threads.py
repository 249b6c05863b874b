"""How many threads numpy multiplies matrices with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets numpy multiply matrices with one thread in this process until the block ends.

    For work of seconds, because sums then come out the same however many cores there are, and because numpy's threads
    wait for each other by spinning: on two cores that other processes also used, a fit of 0.3 s took 12 s with two.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
