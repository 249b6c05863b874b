"""The interface of a language model that the goal questions use. The model process implements it; tests use toy models.

Two requests are enough. `generate` writes replies. `log_probs` computes the probability of given continuations, from
which a yes or no is read as one answer against the other, and so is how well one list of texts continues another.
Requests are batched: equal prefixes are decoded once and forked, so callers give each continuation a pair of its own,
in any order.
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
        text: What was written after the prompt's own beginning of the reply.
        cut: It ran into the length limit.
    """

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class LogProb:
    """How probable a continuation is.

    Attributes:
        total: Sum of the natural log-probabilities of its tokens.
        tokens: How many those are, at least one.
    """

    total: float
    tokens: int


class Asker(Protocol):
    """A model that answers requests; it raises the errors of the model process."""

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[Answer]:
        """Writes one reply to each body laid into the prompt, greedily.

        Args:
            bodies: Texts between `prompt.before` and `prompt.question`. Untrusted: control tokens in them are text.
            grammar: GBNF that the reply follows.
        """

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        """Returns the log-probability of each continuation, for pairs (body, continuation).

        Args:
            prompt: Laid around each body, with its beginning of the reply; None reads the bare body, with the
                tokens in front that the model wants at the start of a sequence.
        """
