"""How much a file may unpack to before reading it ends.

A log that compresses a thousand times has nothing new in its records, so the limits refuse no honest one; a person can
raise them all the same (`import --most-unpacked`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.base.errors import Cancelled

FREELY_UNPACKED = 256 << 20
"""Number of bytes to which any file may unpack."""

MOST_TIMES = 1_000
"""How many times its size a file may unpack to beyond that; a history that each record repeats compresses some hundred
times."""

LEAST_OF_RECORD = 1 << 10
"""Number of bytes that a record counts for at least, so that there is a limit on their number too: about one for each
byte of the file, and a quarter of a million of a small one."""

RAISED = "(`import --most-unpacked` raises the limit)"
"""What each reason of a limit that can be raised ends with."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits and stops reading.

    Attributes:
        unpacked: Number of bytes to which any file may unpack.
        is_cancelled: Whether a person wants to stop; asked often, also within one record.
    """

    unpacked: int = field(default_factory=lambda: FREELY_UNPACKED)
    is_cancelled: Callable[[], bool] = _never

    def stop_if_cancelled(self) -> None:
        """Does nothing, or raises Cancelled when a person wants to stop."""
        if self.is_cancelled():
            raise Cancelled("Reading was cancelled.")

    @property
    def too_much(self) -> str:
        """Why reading ends at the limit."""
        size = self.unpacked / (1 << 20)
        free = f"{size:,.0f} MiB" if size < 1 << 10 else f"{size / (1 << 10):,.1f} GiB"
        return f"it unpacks to more than {free} and {MOST_TIMES:,} times its size, and is read no further {RAISED}"


class Expansion:
    """Counts to how much one file of a person unpacks, in all its parts.

    Attributes:
        bounds: The limits.
    """

    def __init__(self, size: int | None, bounds: Bounds) -> None:
        """
        Args:
            size: Number of bytes of the file; None if unknown, as of a pipe.
        """
        self.bounds = bounds
        self._size = size
        self._parts: dict[str, int] = {}
        self._total = 0

    def reading(self, part: str, size: int | None) -> Reading:
        """Counts one reading of a part from its beginning.

        Args:
            part: Its name.
            size: Number of bytes of the file that it stands for; None if unknown.
        """
        return Reading(self, part, size)

    def is_over(self, part: str, count: int, size: int) -> bool:
        """Returns whether a part of so many bytes of the file, of which `count` were unpacked, is too much, by itself
        or with the others. What is read again is not counted again, and what is too much by itself takes nothing from
        the others."""
        before = self._parts.get(part, 0)
        is_over = count > self._most(size)
        self._parts[part] = 0 if is_over else max(count, before)
        self._total += self._parts[part] - before
        return is_over or self._all_are_over()

    def may_begin(self, part: str) -> bool:
        """Returns whether a part may be read that was not read yet: not where the others were too much."""
        return part in self._parts or not self._all_are_over()

    def _all_are_over(self) -> bool:
        return self._size is not None and self._total > self._most(self._size)

    def _most(self, size: int) -> int:
        return max(self.bounds.unpacked, MOST_TIMES * size)


class Reading:
    """Counts one reading of a part of a file.

    Attributes:
        expansion: Counts all parts of the file.
        is_over: Whether it unpacked to more than it may, or may not be begun.
    """

    def __init__(self, expansion: Expansion, part: str, size: int | None) -> None:
        self.expansion, self._part, self._size = expansion, part, size
        self._count = 0
        self.is_over = not expansion.may_begin(part)

    @property
    def bounds(self) -> Bounds:
        """The limits."""
        return self.expansion.bounds

    def add(self, count: int, position: int = 0) -> bool:
        """Counts unpacked bytes; False if that is too much.

        Args:
            position: Number of bytes of the file that were read; used where the size is unknown.

        Raises:
            Cancelled: A person wants to stop.
        """
        self.bounds.stop_if_cancelled()
        self._count += count
        size = position if self._size is None else self._size
        self.is_over = self.expansion.is_over(self._part, self._count, size)
        return not self.is_over


def unlimited() -> Reading:
    """Returns a count without a limit, for what this program wrote."""
    return Expansion(None, Bounds(unpacked=sys.maxsize)).reading("", None)
