"""How often a measurement is repeated: until its time is used."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator


def rounds(max_rounds: int, seconds: float = math.inf) -> Iterator[int]:
    """Numbers of rounds from 0: the first in any case, and another one while it is likely to end in time.

    Args:
        max_rounds: Most rounds.
        seconds: Time for all of them, from the first `next` on; a round is expected to take as long as those before.
    """
    start = time.monotonic()
    for number in range(max_rounds):
        spent = time.monotonic() - start
        if number and spent + spent / number > seconds:
            return
        yield number
