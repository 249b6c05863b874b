"""A model with known answers: it predicts repeated words, and replies from a list."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from engine.goals.questions import LogProb
from engine.model.prompt_files import Prompt


class ToyAsker:
    """A unigram model of the words before, one count added for each of `VOCABULARY` words.

    Attributes:
        replies: What `generate` answers, in turn.
        bodies, grammars: What it was asked.
        asked: Pairs it was asked to read.
    """

    VOCABULARY = 1000

    def __init__(self, replies: Sequence[str] = ()) -> None:
        self.replies = list(replies)
        self.bodies: list[str] = []
        self.grammars: list[str | None] = []
        self.asked: list[tuple[str, str]] = []

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[str]:
        self.bodies += bodies
        self.grammars += [grammar] * len(bodies)
        return [self.replies.pop(0) for _ in bodies]

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        self.asked += pairs
        return [self._read(before.split(), after.split()) for before, after in pairs]

    def _read(self, before: Sequence[str], after: Sequence[str]) -> LogProb:
        seen = Counter(before)
        of = len(before) + self.VOCABULARY
        return LogProb(sum(math.log((seen[word] + 1) / of) for word in after), max(1, len(after)))
