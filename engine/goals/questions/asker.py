"""The interface of a language model that the goal questions use. The model process implements it; tests use toy models.

There are two requests. `generate` writes replies. `log_probs` computes the probabilities of given continuations: of
"yes" against "no", or of texts after a list of other texts. Requests are batched and equal prefixes are decoded once,
so callers pass one pair for each continuation, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.model.prompt_files import Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated reply.

    Attributes:
        text: The generated text, without the beginning of the reply that the prompt gives.
        cut: Whether it ended at the length limit.
    """

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class LogProb:
    """Log-probability of a continuation.

    Attributes:
        total: Sum of the natural log-probabilities of its tokens.
        tokens: Number of its tokens, at least one.
    """

    total: float
    tokens: int


class Asker(Protocol):
    """A model that answers requests; its methods raise the errors of the model process."""

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[Answer]:
        """Generates one reply for each body, with greedy decoding.

        Args:
            bodies: Texts inserted between `prompt.before` and `prompt.question`. Control tokens in them are read as
                plain text.
            grammar: GBNF grammar that constrains the reply.
        """

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        """Returns the log-probability of each continuation, for pairs (body, continuation).

        Args:
            prompt: Placed around each body, with its beginning of the reply; None reads the body alone, after the
                model's beginning-of-sequence tokens.
        """
