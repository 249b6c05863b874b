"""Concatenates MiniLM and TF-IDF vectors: the meaning of a text, and the words that the goals of this project differ
by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.model.embedders.sentence import MiniLmEmbedder
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import Vectors, unit_rows

WORDS = 0.3
"""Weight of TF-IDF in a cosine. Chosen on `star` and `sgd` among 0, .3, .5 and .7; see docs/lab/goals.md."""


class ConcatEmbedder:
    """Concatenates weighted rows of both, so that a cosine is `WORDS` times that of TF-IDF plus (1 - `WORDS`) times
    that of MiniLM.

    Args:
        seed: Seed of the TF-IDF embedder.
        words: A fitted TF-IDF embedder; None makes one that has to be fitted.

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
        """Fits the TF-IDF part; see `TfidfEmbedder.fit`."""
        self._words.fit(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text: MiniLM alone for a text without a known word, zeros for a blank one."""
        words, meaning = self._words.embed(texts), self._meaning.embed(texts)
        columns = np.sqrt(WORDS) * words, np.sqrt(1 - WORDS) * meaning
        return unit_rows(np.concatenate(columns, axis=1))

    def state(self) -> bytes:
        """State of the TF-IDF part; MiniLM has none, its weights are an installed package."""
        return self._words.state()
