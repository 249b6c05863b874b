"""The divergences of a conversation: what an adapter changed at each of its boundaries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Divergence:
    """KL(base || fine-tuned) at the boundaries of one conversation.

    Attributes:
        curve: (place, bits) of each boundary, in order; empty where it could not be read. The place is the piece of the
            log where a model reads it, and the index of the message where it is stored.
        tokens: Tokens of the log up to its last boundary; not stored.
        reason: Why there is none, or what was left out of the log; None where nothing was.
    """

    curve: tuple[tuple[int, float], ...]
    tokens: int
    reason: str | None = None

    @property
    def mean(self) -> float | None:
        """Mean over the boundaries in bits; None without any."""
        return sum(bits for _, bits in self.curve) / len(self.curve) if self.curve else None
