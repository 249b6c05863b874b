"""Contrasts as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.records.validation import Contrast
from engine.validate import conclusions


def contrasts_json(contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """`contrasts`, each with its interval in `ci`, and `conclusions`, a sentence on each."""
    return {
        "contrasts": [
            {
                "figure": one.figure,
                "one": one.one,
                "other": one.other,
                "n": one.n,
                "values": [one.first, one.second],
                "difference": one.difference.value,
                "ci": [one.difference.low, one.difference.high],
                "p": one.p,
                "p_corrected": one.corrected,
            }
            for one in contrasts
        ],
        "conclusions": conclusions.pairwise(contrasts),
    }
