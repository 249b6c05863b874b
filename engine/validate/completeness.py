"""Several ways to value the same conversations, held against the truncation test and against truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.validate import truths
from engine.validate.classification import classify
from engine.validate.truncation import cut_at
from engine.validation_rows import Classification, TruthRow, TruthTable

Values = Mapping[int, Mapping[int, float | None]]
"""For each conversation the value after each message that is a boundary, rising; None: no honest number."""

CLAIMS = ("not complete", "reward 0", "reward below 1")
"""Of `engine.validate.truths.CLAIMS` those that a low value at the end should go with."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation ends and where it was cut: indices of messages; `cut` is None where nothing can be cut."""

    last: int
    cut: int | None


def places(ways: Mapping[str, Values], names: Mapping[int, str], seed: int) -> dict[int, Place]:
    """The conversations that every way has an honest number for at their end and, where they can be cut, at the cut.

    Args:
        ways: At least one, by name.
        names: The id in the source of each conversation that is asked for.
        seed: Of the cuts.
    """
    found = {}
    for key, name in names.items():
        curves = [way.get(key, {}) for way in ways.values()]
        # Logs scored before a boundary was known have fewer of them; what is cut must be the same for all.
        shared = [message for message in curves[0] if all(message in one for one in curves)]
        if not shared or any(max(one) != shared[-1] for one in curves):
            continue
        nth = cut_at(seed, name, len(shared))
        place = Place(shared[-1], None if nth is None else shared[nth])
        asked = [place.last] if place.cut is None else [place.last, place.cut]
        if all(one[message] is not None for one in curves for message in asked):
            found[key] = place
    return found


def cut_test(way: Values, where: Mapping[int, Place], threshold: float) -> Classification:
    """How well a way tells whole conversations from cut ones.

    Args:
        where: As `places` gives them, of this way among others.

    Raises:
        ValueError: None of them can be cut.
    """
    cut = {key: place for key, place in where.items() if place.cut is not None}
    values = [_value(way, key, place.last) for key, place in cut.items()]
    values += [_value(way, key, place.cut) for key, place in cut.items() if place.cut is not None]
    return classify(values, [True] * len(cut) + [False] * len(cut), 2 * list(cut), threshold)


def truth_tables(
    ways: Mapping[str, Values], where: Mapping[int, Place], truth: Mapping[int, Mapping[str, Any]]
) -> tuple[TruthTable, ...]:
    """A table for each of `CLAIMS` that is known of some conversation; one that says the same as an earlier one of
    every conversation is left out.

    Args:
        where: As `places` gives them.
        truth: What is known of the conversations that are asked for.
    """
    about = {key: truths.of_conversation(one) for key, one in truth.items()}
    found: list[TruthTable] = []
    seen: list[dict[int, bool]] = []
    for claim in CLAIMS:
        known = {key: claims[claim] for key, claims in about.items() if claim in claims}
        holds = {key: known[key] for key in where if key in known}
        if not holds or known in seen:
            continue
        seen.append(known)
        positives = sum(holds.values())
        rows = []
        if 0 < positives < len(holds):
            for name, way in ways.items():
                low = [1 - _value(way, key, where[key].last) for key in holds]
                told = classify(low, list(holds.values()))
                rows.append(TruthRow(name, told.auroc, told.ap))
        means = truths.CLAIMS[claim]
        failing = len(holds) - positives
        found.append(TruthTable(claim, means, positives, failing, len(known), tuple(rows)))
    return tuple(found)


def _value(way: Values, key: int, message: int) -> float:
    value = way[key][message]
    if value is None:
        raise ValueError(f"Conversation {key} has no honest number after message {message}.")
    return value
