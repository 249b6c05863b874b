"""Vectors and texts whose groups are known."""

from __future__ import annotations

import numpy as np

from engine.model.embedders.vectors import Numbers, Vectors, unit_rows


def grouped(
    groups: int = 6, each: int = 40, *, dimensions: int = 16, noise: float = 0.15, seed: int = 1
) -> tuple[Vectors, Numbers]:
    """Rows of length 1 around directions at right angles, shuffled, and the group of each."""
    rng = np.random.default_rng(seed)
    centers = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))[0][:groups]
    labels = rng.permutation(np.repeat(np.arange(groups, dtype=np.int32), each))
    rows = centers[labels] + noise * rng.standard_normal((len(labels), dimensions))
    return unit_rows(rows), labels


def same_partition(a: Numbers, b: Numbers) -> bool:
    """Whether both put the same rows together, whatever they call the clusters."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


WISHES = {
    "refund": ("I want my money back for the {}", "please refund the {} that broke"),
    "flight": ("book a flight to {} for me", "I need a plane ticket to {}"),
    "weather": ("what will the weather be in {}", "is rain expected in {} tomorrow"),
}
THINGS = ("kettle", "Lisbon", "chair", "Oslo", "lamp", "Quito", "radio", "Turin", "desk", "Perth")


def wishes() -> tuple[list[str], list[str]]:
    """Sixty short texts of three kinds, and the kind of each."""
    texts = [
        (form.format(thing), kind)
        for kind, forms in WISHES.items()
        for form in forms
        for thing in THINGS
    ]
    return [text for text, _ in texts], [kind for _, kind in texts]
