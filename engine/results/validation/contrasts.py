"""Formats contrasts (tests of the difference between two rows) as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.statistics.records import (
    Contrast,
)
from engine.base.text import one_line
from engine.results.metrics import conclusions

_LONGEST = 400


def contrasts_about(name: str, contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """Returns a sentence for each contrast that involves the row of this name."""
    mine = [one for one in contrasts if name in (one.one, one.other)]
    return tuple(one_line(sentence, _LONGEST) for sentence in conclusions.pairwise(mine))


def contrasts_json(contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """Returns `contrasts`, each with its interval in `ci`, and `conclusions`, a sentence for each."""
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
