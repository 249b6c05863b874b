"""Keeps logs that the model has read, so that it reads only the new part of a log that has grown.

A cell is the place of one token in the cache of the model, and a mark is the number of tokens before one boundary. The
cells of kept logs are copied into main memory, for two reasons: in the cache every decode would attend to them, and
other requests would drop them. A copy is exact. Measured with the default model: the cells of 600 tokens take 14 MB,
and copying them back takes 2 ms, where reading the tokens takes 2.6 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.completeness.boundaries import BoundaryReading
from engine.model.interface import Cells

MAX_KEPT_BYTES = 512 << 20
"""Largest number of bytes of cells that are kept: about 23,000 tokens of the default model."""

Tokens = NDArray[np.int32]
"""Token ids, shape (tokens,)."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptLog:
    """A log as it was read last.

    Attributes:
        tokens: Its token ids.
        readings: The reading at each mark, by mark.
        cells: The cells of all its tokens.
    """

    tokens: Tokens
    readings: Mapping[int, BoundaryReading]
    cells: Cells


@dataclass(frozen=True, slots=True)
class KnownPrefix:
    """The beginning of a log that is known and need not be read.

    Attributes:
        log: The kept log that begins like it; None where none does.
        tokens: Number of tokens that need not be read.
        readings: The known readings, by mark: those of its first marks.
    """

    log: KeptLog | None = None
    tokens: int = 0
    readings: Mapping[int, BoundaryReading] = field(default_factory=dict)


class KeptLogs:
    """The logs that were read last, in a bounded number of bytes; those that were used longest ago go first."""

    def __init__(self, most_bytes: int = MAX_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._logs: list[KeptLog] = []

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def bytes(self) -> int:
        """Number of bytes of all cells that are kept."""
        return sum(log.cells.nbytes for log in self._logs)

    def known_prefix(self, tokens: Sequence[int], marks: Sequence[int]) -> KnownPrefix:
        """Returns the part of a log that the kept log with the longest common beginning already has.

        The part ends before the first mark at which nothing was read, since its logits have to be computed.

        Args:
            tokens: Token ids of the log.
            marks: Its marks, rising.
        """
        new_tokens = np.asarray(tokens, dtype=np.int32)
        best, shared = None, 0
        for log in reversed(self._logs):
            common = _common_length(log.tokens, new_tokens)
            if common > shared:
                best, shared = log, common
        if best is None:
            return KnownPrefix()
        readings = {}
        for mark in marks:
            if mark > shared or mark not in best.readings:
                shared = min(shared, mark - 1)
                break
            readings[mark] = best.readings[mark]
        return KnownPrefix(best, shared, readings) if shared else KnownPrefix()

    def keep(
        self,
        tokens: Sequence[int],
        readings: Mapping[int, BoundaryReading],
        cells: Cells,
        prefix: KnownPrefix,
    ) -> None:
        """Keeps a log that was read. It replaces the kept log that it continues; the logs used longest ago make room.

        Args:
            tokens: Token ids of the log.
            readings: The reading at each mark, by mark.
            cells: The cells of all its tokens.
            prefix: The part that was not read again, from `known_prefix`.
        """
        continued = prefix.log
        if continued is not None:
            self._logs = [log for log in self._logs if log is not continued]
            # Where the new log continues only a part, both stay, and the old one counts as just used.
            if prefix.tokens < len(continued.tokens):
                self._logs.append(continued)
        self._logs.append(KeptLog(np.asarray(tokens, dtype=np.int32), readings, cells))
        kept_bytes = self.bytes
        while kept_bytes > self._most_bytes:
            kept_bytes -= self._logs.pop(0).cells.nbytes

    def clear(self) -> None:
        """Forgets all logs: their cells are of no use to another model or adapter."""
        self._logs = []


def _common_length(a: Tokens, b: Tokens) -> int:
    """Returns the number of first tokens that are the same."""
    length = min(len(a), len(b))
    differ = a[:length] != b[:length]
    return int(differ.argmax()) if differ.any() else length
