"""A model with known answers: it predicts repeated words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from engine.goals.questions import LogProb
from engine.model.prompt_files import Prompt


class ToyAsker:
    """A unigram model of the words before, one count added for each of `VOCABULARY` words.

    Attributes:
        asked: Pairs it was asked to read.
    """

    VOCABULARY = 1000

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        self.asked += pairs
        return [self._read(before.split(), after.split()) for before, after in pairs]

    def _read(self, before: Sequence[str], after: Sequence[str]) -> LogProb:
        seen = Counter(before)
        of = len(before) + self.VOCABULARY
        return LogProb(sum(math.log((seen[word] + 1) / of) for word in after), max(1, len(after)))
