"""The weights of words behind sets of scores, kept so that each score can be taken apart into its words."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from io import BytesIO

import numpy as np

from engine.completeness.word_reasons import WordWeights


def pack(weights: WordWeights) -> bytes:
    """Returns weights as they are stored: a few megabytes, since most words stand in no log. Takes up to a second."""
    packed = BytesIO()
    arrays = {field.name: getattr(weights, field.name) for field in fields(weights)}
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


def put(conn: sqlite3.Connection, config_hash: str, packed: bytes) -> None:
    """Stores the weights of a registered set."""
    conn.execute(
        "INSERT INTO word_weights (config_hash, weights) VALUES (?, ?)", (config_hash, packed)
    )


def get(conn: sqlite3.Connection, config_hash: str) -> WordWeights | None:
    """Returns the weights of a set; None where it has none, as it reads no words, or was made in another project."""
    row = conn.execute(
        "SELECT weights FROM word_weights WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return None if row is None else WordWeights(**np.load(BytesIO(row[0])))
