"""The field `like` of filters: conversations whose vectors are nearest to that of some words."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.base.errors import NotYet, UsageError
from engine.conversations.filter_fields import FieldQuery
from engine.conversations.filters import Term
from engine.goals.tables.clusterings import shown_id, stored_clustering
from engine.project.idset import IdSet

if TYPE_CHECKING:
    from engine.model.embedders.vectors import Vectors

MOST_ALIKE = 50
"""Most conversations that a term matches, as many as a list of more like one has."""
DECIMALS = 5
"""Decimals of cosines that are compared: processors round the last ones differently. Equal ones are in id order."""


def nearest(conn: sqlite3.Connection, term: Term, among: IdSet) -> array[int]:
    """Returns the conversations of a set whose vectors in the clustering of goals have the largest cosine with that of
    the words, at most `MOST_ALIKE`, the nearest first; only those with a cosine above 0.

    Raises:
        NotYet: Nothing was clustered yet, or no text of the project has any of the words.
        UsageError: The vectors were made by a model that a filter does not start.
    """
    # Imported here: they bring numpy, which a list of conversations does not wait for.
    import numpy as np

    from engine.goals.tables import vectors

    words = " ".join(term.values)
    made_by = vectors.config(conn, stored_clustering(conn, shown_id(conn)).vector_config)
    assert made_by is not None
    if made_by.state is None and made_by.embedder != "minilm":
        raise UsageError(
            f"The vectors are of {made_by.embedder}, which a filter does not start.",
            "Cluster with --embedder tfidf, minilm or mixed.",
        )
    vector = _vector_of(words, made_by.embedder, made_by.state)
    if not vector.any():
        raise NotYet(f"No conversation has any of the words “{words}”.", "Use other words.")
    ids, rows = vectors.read_vectors(conn, made_by.config_hash, among.ascending())
    cosines = (rows @ vector).round(DECIMALS)
    best = np.argsort(-cosines, kind="stable")[:MOST_ALIKE]
    return array("q", ids[best[cosines[best] > 0]].tolist())


@lru_cache(maxsize=8)
def _vector_of(words: str, embedder: str, state: bytes | None) -> Vectors:
    """Returns the vector of some words, shape (d,), by an embedder or by its fitted state."""
    from engine.model.embedders.embedder import embedder_for, embedder_from_state

    made = embedder_for(embedder) if state is None else embedder_from_state(embedder, state)
    vector: Vectors = made.embed([words])[0]
    return vector


def _matches(conn: sqlite3.Connection, term: Term, among: IdSet) -> IdSet:
    """Returns the conversations of a set that are most like the words."""
    return among.of(nearest(conn, term, among))


FIELD_QUERIES: Mapping[str, FieldQuery] = {"like": FieldQuery(_matches, rank=nearest)}
"""Answers terms on likeness, by the name of the field."""
