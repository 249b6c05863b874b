"""Logs that were read, with their cells outside of the cache, so that a log that grew costs only what is new.

The cells lie in main memory and not in the cache of the model: there every decode would attend to all of them, and
whatever else the model is asked would drop them. Copying them back is exact. Measured with the default model: 600
tokens are 14 MB and are copied in 2 ms, where reading them takes 2.6 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.completeness.boundaries import BoundaryLogProbs
from engine.model.interface import Cells

KEPT_BYTES = 512 << 20
"""Most bytes of cells that are kept: about 23,000 tokens of the default model."""

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class KeptLog:
    """A log as it was read last.

    Attributes:
        tokens: The tokens whose cells are kept.
        readings: What was read at its marks; a mark is a number of tokens.
    """

    tokens: Tokens
    readings: Mapping[int, BoundaryLogProbs]
    cells: Cells


@dataclass(frozen=True, slots=True)
class KnownPrefix:
    """The beginning of a log that is known and need not be read.

    Attributes:
        log: The kept log that begins like it; None where none does.
        tokens: Number of tokens that need not be read.
        readings: What is known at its first marks.
    """

    log: KeptLog | None = None
    tokens: int = 0
    readings: Mapping[int, BoundaryLogProbs] = field(default_factory=dict)


class KeptLogs:
    """The logs that were read last, in a bounded number of bytes; those that were used longest ago go first."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._logs: list[KeptLog] = []

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def bytes(self) -> int:
        """Bytes of all cells that are kept."""
        return sum(log.cells.nbytes for log in self._logs)

    def start(self, tokens: Sequence[int], marks: Sequence[int]) -> KnownPrefix:
        """Finds the log that has most tokens in common with another one from the beginning on.

        The tokens end before the first mark at which nothing was read, since its logits have to be computed.
        """
        wanted = np.asarray(tokens, dtype=np.int32)
        best, shared = None, 0
        for log in reversed(self._logs):
            common = _common(log.tokens, wanted)
            if common > shared:
                best, shared = log, common
        if best is None:
            return KnownPrefix()
        known = {}
        for mark in marks:
            if mark > shared or mark not in best.readings:
                shared = min(shared, mark - 1)
                break
            known[mark] = best.readings[mark]
        return KnownPrefix(best, shared, known) if shared else KnownPrefix()

    def keep(
        self,
        tokens: Sequence[int],
        readings: Mapping[int, BoundaryLogProbs],
        cells: Cells,
        start: KnownPrefix,
    ) -> None:
        """Keeps a log that was read, in place of the one that it goes on from.

        Args:
            start: What it began with.
        """
        before = start.log
        if before is not None:
            self._logs = [log for log in self._logs if log is not before]
            if start.tokens < len(before.tokens):  # it goes on from a part of it only
                self._logs.append(before)
        self._logs.append(KeptLog(np.asarray(tokens, dtype=np.int32), readings, cells))
        held = self.bytes
        while held > self._most_bytes:
            held -= self._logs.pop(0).cells.nbytes

    def clear(self) -> None:
        """Forgets all logs: their cells are of no use to another model or adapter."""
        self._logs = []


def _common(a: Tokens, b: Tokens) -> int:
    """Number of first tokens that are the same."""
    length = min(len(a), len(b))
    differ = a[:length] != b[:length]
    return int(differ.argmax()) if differ.any() else length
