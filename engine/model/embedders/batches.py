"""Sends texts to an embedding model in batches and checks the rows that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.base.errors import ModelError
from engine.model.embedders.vectors import Vectors, unit_rows

BATCH = 64

TextsToRows = Callable[[Sequence[str]], npt.ArrayLike]
"""Returns one row of numbers for each text, shape (texts, d); rows need not have length 1."""


def embed_in_batches(texts: Sequence[str], embed: TextsToRows, size: int = BATCH) -> Vectors:
    """Embeds texts `size` at a time; returns rows of length 1, shape (texts, d). Blank texts give zeros without a call.

    Raises:
        ModelError: The model returned another number of rows, rows of different lengths, or values that are not finite.
    """
    asked = [place for place, text in enumerate(texts) if text.strip()]
    found: Vectors | None = None
    for start in range(0, len(asked), size):
        places = asked[start : start + size]
        try:
            rows = unit_rows(embed([texts[place] for place in places]))
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"The embedding model gave no vectors: {error}.") from error
        if found is None:
            found = np.zeros((len(texts), rows.shape[1]), dtype=np.float32)
        if rows.shape != (len(places), found.shape[1]) or not rows.size:
            raise ModelError(
                f"The embedding model gave {rows.shape[0]} rows of {rows.shape[1]} numbers for "
                f"{len(places)} texts; {found.shape[1] or 'some'} numbers were expected."
            )
        found[places] = rows
    return np.zeros((len(texts), 0), dtype=np.float32) if found is None else found
