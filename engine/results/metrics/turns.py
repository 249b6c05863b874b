"""Means of truth by number of turns: the statistics table of the RecLLMSim data set, for any truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SINGLE = ("reward", "complete")
"""Fields of truth with one value for each conversation, in addition to the ratings; `complete` counts as 1 or 0."""
OF_ANSWERS = "satisfaction"
"""Field of truth with a value for each answer; a conversation's value is the mean over the answers that have one."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over the `count` conversations of a row that have the value."""

    value: float
    count: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """The conversations with one number of turns, and the mean of each figure that any of them has."""

    turns: int
    conversations: int
    means: Mapping[str, Mean]


def by_turns(conversations: Iterable[tuple[int, Mapping[str, Any] | None]]) -> list[TurnRow]:
    """Returns a row for each number of turns that occurs, ascending.

    Args:
        conversations: Number of turns and truth of each conversation. A turn is a user message, as in RecLLMSim.
    """
    counts: dict[int, int] = defaultdict(int)
    found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turns, truth in conversations:
        counts[turns] += 1
        for name, value in figures(truth or {}).items():
            found[turns][name].append(value)
    return [
        TurnRow(
            turns,
            counts[turns],
            {
                name: Mean(sum(values) / len(values), len(values))
                for name, values in found[turns].items()
            },
        )
        for turns in sorted(counts)
    ]


def figures(truth: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in a truth: ratings by name, and the fields `SINGLE` and `OF_ANSWERS`."""
    rating = truth.get("rating")
    named = dict(rating) if isinstance(rating, Mapping) else {}
    named |= {name: truth[name] for name in SINGLE if name in truth}
    ratings = truth.get(OF_ANSWERS)
    if isinstance(ratings, list) and (known := [one for one in ratings if _is_number(one)]):
        named[OF_ANSWERS] = sum(known) / len(known)
    return {str(name): float(value) for name, value in named.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
