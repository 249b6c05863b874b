"""MiniLM and TF-IDF side by side: what a text means, and the words that this project's goals differ by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.goals.embedders.sentence import MiniLmEmbedder
from engine.goals.embedders.tfidf import TfidfEmbedder
from engine.goals.embedders.vectors import Vectors, unit_rows

WORDS = 0.3
"""Share of the words in a cosine. Chosen on `star` and `sgd` among 0, .3, .5 and .7; see docs/results/goals.md."""


class ConcatEmbedder:
    """The rows of both, one after the other, so that a cosine is `WORDS` times that of words plus the rest of MiniLM.

    Args:
        seed: Of the words.
        words: Fitted already; None: to be fitted.

    Raises:
        UsageError: The extra `embed` is not installed.
    """

    kind = "mixed"

    def __init__(self, *, seed: int = 0, words: TfidfEmbedder | None = None) -> None:
        self._words = words or TfidfEmbedder(seed=seed)
        self._meaning = MiniLmEmbedder()

    @property
    def recipe(self) -> str:
        return f"mixed-1:{WORDS}:{self._words.recipe}:{self._meaning.recipe}"

    @property
    def fitted(self) -> bool:
        return self._words.fitted

    @property
    def fingerprint(self) -> str:
        return f"mixed-1:{WORDS}:{self._words.fingerprint}:{self._meaning.fingerprint}"

    def fit(self, texts: Iterable[str]) -> None:
        """Learns the words; see `TfidfEmbedder.fit`."""
        self._words.fit(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text; by its meaning alone where no word is known, zeros for a blank one."""
        words, meaning = self._words.embed(texts), self._meaning.embed(texts)
        said = np.sqrt(WORDS) * words, np.sqrt(1 - WORDS) * meaning
        return unit_rows(np.concatenate(said, axis=1))

    def state(self) -> bytes:
        """That of the words: the rest is the package."""
        return self._words.state()
