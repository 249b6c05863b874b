"""What is read at a place where a conversation could end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.interface import HiddenState


@dataclass(slots=True)
class BoundaryLogProbs:
    """Natural log-probabilities of the end tag and of the continuation at one mark.

    Attributes:
        state: The last hidden state there, shape (dimensions,); None where it was not asked for.
        generated: Whether the end tag is what the model writes there, each of its tokens being the most probable one
            after those before it; None where it is not known.
    """

    log_end: float = 0.0
    log_continue: float = 0.0
    state: HiddenState | None = None
    generated: bool | None = None
