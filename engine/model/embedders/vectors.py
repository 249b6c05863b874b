"""Vectors of texts: arrays of float32 with one row of length 1 for each text; a row of zeros is a text without a
vector.

`has_vector` and `row_heights` work block by block, because arrays may be memory maps that are larger than the memory.
`embed_in_batches` sends texts to an embedding model, and checks the rows that it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from engine.base.errors import ModelError

Vectors = npt.NDArray[np.float32]
"""One row for each text, shape (n, d)."""

Numbers = npt.NDArray[np.int32]
"""Whole numbers, shape (n,) unless said otherwise."""

Indices = npt.NDArray[np.int64]
"""Indices of rows, shape (n,) unless said otherwise."""

Mask = npt.NDArray[np.bool_]
"""Flags, shape (n,) unless said otherwise."""

Floats = npt.NDArray[np.float32]
"""Single-precision numbers, such as those of one vector, shape (d,) unless said otherwise."""

BLOCK = 16_384
"""Rows in a block; fixed, because rounding of sums depends on the blocks."""

HEIGHT_BLOCK = 4096
"""Rows in a block whose heights are computed."""

DIRECTION_SALT = 0x6B657973
"""Second part of the seed of the direction, so that it repeats no other draw with the same seed; `keys` in ASCII."""

BATCH = 64
"""Texts that are sent to an embedding model at once, unless it takes more."""

TextsToRows = Callable[[Sequence[str]], npt.ArrayLike]
"""Returns one row of numbers for each text, shape (texts, d); rows need not have length 1."""


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Yields slices that cover `count` rows in order."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def unit_rows(raw: npt.ArrayLike) -> Vectors:
    """Returns rows scaled to length 1, as float32, shape (n, d); a row of zeros stays one.

    Raises:
        ValueError: A number is not finite, or `raw` does not have two dimensions.
    """
    rows = np.array(raw, dtype=np.float32)
    if rows.ndim != 2:
        raise ValueError(f"vectors have {rows.ndim} dimensions, not rows and columns")
    if not np.isfinite(rows).all():
        raise ValueError("a vector has a number that is not finite")
    # Divided by the largest number first: squares of very small or large numbers under- or overflow.
    peak = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    np.divide(rows, peak, out=rows, where=peak > 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def has_vector(vectors: Vectors) -> Mask:
    """Returns whether each row has a number other than 0, shape (n,)."""
    mask = np.empty(len(vectors), dtype=np.bool_)
    for block in blocks(len(vectors)):
        mask[block] = vectors[block].any(axis=1)
    return mask


def row_heights(vectors: Vectors, seed: int) -> npt.NDArray[np.float64]:
    """Returns how far each row reaches along a random direction, shape (n,).

    Rows sorted by it are in an order that does not depend on their original order. Another machine, whose vectors
    differ in the last bits, sorts them alike; by a hash of the bits it would not.
    """
    direction = np.random.default_rng([seed, DIRECTION_SALT]).random(vectors.shape[1]) - 0.5
    heights = np.empty(len(vectors))
    for block in blocks(len(vectors), HEIGHT_BLOCK):
        # Not a matrix product: its rounding depends on where a row stands.
        heights[block] = (vectors[block] * direction).sum(axis=1)
    return heights


def embed_in_batches(
    texts: Sequence[str], embed: TextsToRows, size: int = BATCH, parallel: int = 1
) -> Vectors:
    """Embeds texts `size` at a time; returns rows of length 1, shape (texts, d). Blank texts give zeros without a call.

    Args:
        parallel: Number of calls side by side, on threads.

    Raises:
        ModelError: The model returned another number of rows, rows of different lengths, or values that are not finite.
    """
    nonblank = [place for place, text in enumerate(texts) if text.strip()]
    batches = [nonblank[start : start + size] for start in range(0, len(nonblank), size)]
    batch_texts = [[texts[place] for place in places] for places in batches]
    with ThreadPoolExecutor(parallel, "embedding") as threads:
        rows_of_batches = (
            threads.map(embed, batch_texts) if parallel > 1 else map(embed, batch_texts)
        )
        return _placed_rows(len(texts), batches, iter(rows_of_batches))


def _placed_rows(
    count: int, batches: Sequence[Sequence[int]], rows_of_batches: Iterator[npt.ArrayLike]
) -> Vectors:
    """Returns the rows of all texts, see `embed_in_batches`.

    Args:
        count: Number of texts.
        batches: The places of the texts of each batch.
        rows_of_batches: The rows of each batch, which are computed when they are asked for.

    Raises:
        ModelError: The model gave no vectors, or not one of the same length for each text.
    """
    vectors: Vectors | None = None
    for places in batches:
        try:
            rows = unit_rows(next(rows_of_batches))
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"The embedding model gave no vectors: {error}.") from error
        if vectors is None:
            vectors = np.zeros((count, rows.shape[1]), dtype=np.float32)
        if rows.shape != (len(places), vectors.shape[1]) or not rows.size:
            raise ModelError(
                f"The embedding model gave {rows.shape[0]} rows of {rows.shape[1]} numbers for "
                f"{len(places)} texts; {vectors.shape[1] or 'some'} numbers were expected."
            )
        vectors[places] = rows
    return np.zeros((count, 0), dtype=np.float32) if vectors is None else vectors
