"""What the goal questions need of a language model. The model process answers it; tests answer it with toy models.

Two requests are enough. `generate` writes replies. `log_probs` reads how probable given continuations are; a yes or no
is read from it as the probability of one answer against the other, and so is how much better one list of texts explains
another. Requests are batched: prefixes that are equal are decoded once and forked, so callers give each continuation
its own pair and do not care about order.
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
    """A model that answers. Errors and cancelling are those of the model process."""

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[Answer]:
        """Writes one reply to each body laid into the prompt, greedily.

        Args:
            bodies: What stands between `prompt.before` and `prompt.question`. Untrusted: no control tokens.
            grammar: GBNF that the reply follows.
        """

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        """Reads how probable continuations are, one result for each pair (body, continuation).

        Args:
            prompt: Laid around each body, with its beginning of the reply; None reads the bare body, with the
                tokens in front that the model wants at the start of a sequence.
        """
