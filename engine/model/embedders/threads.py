"""Limits the number of BLAS threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits BLAS to one thread in this process until the block ends.

    For computations of a few seconds: their results then do not depend on the number of cores. BLAS threads also wait
    for each other by spinning: on two cores that other processes used too, a fit of 0.3 s took 12 s with two threads.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
