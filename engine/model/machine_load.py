"""Whether other programs use so much of this machine that its speed cannot be measured."""

from __future__ import annotations

import os

BUSY_LOAD = 0.75
"""Load of the last minute, as a share of the cores, from which speeds are not compared with those of another time."""


def busy(cores: int) -> bool:
    """Whether the processors were busy in the last minute; False where the system does not say."""
    try:
        return os.getloadavg()[0] > BUSY_LOAD * cores
    except OSError:
        return False
