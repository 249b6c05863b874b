"""Rows of numbers that stand for texts: float32, one row a text, length 1; a row of zeros is a text without any.

Everything here takes arrays that may be memory maps of more rows than fit, so it walks over them in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from engine.errors import UsageError

Vectors = npt.NDArray[np.float32]
"""Shape (n, d)."""
Numbers = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

BLOCK = 16_384
"""Rows that are looked at together; fixed, because sums depend on how they are cut."""


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices that cover `count` rows in order."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def unit_rows(raw: npt.ArrayLike) -> Vectors:
    """Rows of length 1, in float32; a row of zeros stays one.

    Raises:
        ValueError: A number is not finite, or these are no rows.
    """
    rows = np.array(raw, dtype=np.float32)
    if rows.ndim != 2:
        raise ValueError(f"vectors have {rows.ndim} dimensions, not rows and columns")
    if not np.isfinite(rows).all():
        raise ValueError("a vector has a number that is not finite")
    # Scaled by the largest number first: the squares of very small or large ones are not representable.
    peak = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    np.divide(rows, peak, out=rows, where=peak > 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def has_vector(vectors: Vectors) -> Mask:
    """For each row whether its text has a vector, that is, whether it is no row of zeros."""
    found = np.empty(len(vectors), dtype=np.bool_)
    for part in blocks(len(vectors)):
        found[part] = vectors[part].any(axis=1)
    return found


def same_space(*fingerprints: str) -> str:
    """The fingerprint that all of these are; vectors of different embedders have nothing to do with each other.

    Raises:
        UsageError: There are different ones.
    """
    different = sorted(set(fingerprints))
    if len(different) != 1:
        raise UsageError(
            f"Vectors of different embedders cannot be compared ({', '.join(different)}).",
            "Embed all conversations with one embedder.",
        )
    return different[0]


def row_keys(vectors: Vectors, seed: int) -> npt.NDArray[np.uint64]:
    """A number for each row that depends on its bits and the seed only, and looks random.

    Rows sorted by it are in an order that does not depend on the order they came in, and the first of them are a
    random sample. Arithmetic modulo 2**64 is exact, so blocks do not matter.
    """
    rng = np.random.default_rng([seed, 0x6B657973])
    factors = rng.integers(0, 2**63, size=vectors.shape[1], dtype=np.uint64) * 2 + 1
    keys = np.empty(len(vectors), dtype=np.uint64)
    for part in blocks(len(vectors), 4096):
        bits = np.ascontiguousarray(vectors[part], dtype=np.float32).view(np.uint32)
        mixed = bits.astype(np.uint64)
        mixed ^= mixed >> np.uint64(15)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        sums = (mixed * factors).sum(axis=1, dtype=np.uint64)
        sums ^= sums >> np.uint64(32)
        keys[part] = sums * np.uint64(0xD6E8FEB86659FD93)
    return keys


def mean_direction(vectors: Vectors, members: Indices) -> Floats:
    """The direction of the mean of some rows, shape (d,); zeros where they cancel out or there are none."""
    total = np.zeros(vectors.shape[1], dtype=np.float64)
    for part in blocks(len(members)):
        total += vectors[members[part]].sum(axis=0, dtype=np.float64)
    found: Floats = unit_rows(total[None, :] / max(1, len(members)))[0]
    return found
