"""Compares several scorings of the same conversations: in the truncation test, and with truth.

A *scoring* is the values that one model or rule gives at the boundaries of conversations (the messages after which a
conversation could end). The *truncation test* cuts each conversation at a boundary before its last: a scoring should
have a higher value at the end (whole) than at the cut. AUROC is the probability that it has, for a whole and a cut
conversation drawn at random; F1 is that of calling a value from the threshold up whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.base.statistics.bootstrap import NAMES, BootstrapDraws, draw
from engine.base.statistics.intervals import Classification, Contrast, Interval
from engine.base.statistics.ranking import Placements, corrected, p_difference, placements
from engine.completeness.truncation import cut_at, matched
from engine.results.metrics import claims as truths
from engine.results.records import TruthRow, TruthTable

_F1 = NAMES.index("f1")
"""Index of F1 among the figures of a bootstrap draw."""

Values = Mapping[int, Mapping[int, float | None]]
"""Conversation id -> index of the boundary message, ascending -> normalized score; None where it is unscored."""

CLAIMS = ("not complete", "reward 0", "reward below 1", truths.JUDGED_FAILED)
"""The claims of `engine.results.metrics.claims.CLAIMS` that a low value at the end should predict."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation ends and is cut, as indices of messages.

    Attributes:
        last: The last boundary.
        cut: The boundary at which it is cut; None when it has only one.
        boundaries: All boundaries that every scoring has, in order.
    """

    last: int
    cut: int | None
    boundaries: tuple[int, ...]


def places(scorings: Mapping[str, Values], names: Mapping[int, str], seed: int) -> dict[int, Place]:
    """Returns the places to compare, for the conversations that every scoring scored at the end and at the cut.

    Args:
        scorings: The scorings by name, at least one.
        names: The id in the source of each conversation to test.
        seed: Seed of the cuts.
    """
    by_conversation = {}
    for key, name in names.items():
        curves = [scoring.get(key, {}) for scoring in scorings.values()]
        # Older scorings may have fewer boundaries, and the cut must be the same for all scorings.
        shared = [message for message in curves[0] if all(message in curve for curve in curves)]
        if not shared or any(max(curve) != shared[-1] for curve in curves):
            continue
        cut_index = cut_at(seed, name, len(shared))
        cut = None if cut_index is None else shared[cut_index]
        place = Place(shared[-1], cut, tuple(shared))
        needed = [place.last] if place.cut is None else [place.last, place.cut]
        if all(curve[message] is not None for curve in curves for message in needed):
            by_conversation[key] = place
    return by_conversation


def cut_test(
    scoring: Values, places_by_id: Mapping[int, Place], threshold: float
) -> BootstrapDraws:
    """Measures how well a scoring separates whole conversations from cut ones, observed and in bootstrap draws.

    Args:
        places_by_id: Result of `places` for scorings that include this one.

    Raises:
        ValueError: No conversation can be cut.
    """
    return draw(*pairs(scoring, places_by_id), threshold)


def matched_test(scoring: Values, places_by_id: Mapping[int, Place]) -> tuple[Interval | None, int]:
    """Measures how well a scoring tells whole conversations from longer ones cut at the same boundary.

    Returns:
        See `engine.completeness.truncation.matched`.
    """
    curves = [
        [scoring[key][message] for message in place.boundaries]
        for key, place in places_by_id.items()
    ]
    return matched([np.array(curve, dtype=float) for curve in curves])


def pairs(
    scoring: Values, places_by_id: Mapping[int, Place]
) -> tuple[list[float], list[bool], list[int]]:
    """Returns three parallel lists: the values of all whole and then all cut conversations, whether each is of a whole
    one, and the id of its conversation."""
    cut = {key: place for key, place in places_by_id.items() if place.cut is not None}
    values = [_value_at(scoring, key, place.last) for key, place in cut.items()]
    values += [
        _value_at(scoring, key, place.cut) for key, place in cut.items() if place.cut is not None
    ]
    return values, [True] * len(cut) + [False] * len(cut), 2 * list(cut)


def cut_contrasts(
    scorings: Mapping[str, Values],
    places_by_id: Mapping[int, Place],
    draws: Mapping[str, BootstrapDraws],
) -> tuple[Contrast, ...]:
    """Tests every two scorings against each other in the truncation test: AUROC by DeLong's test and F1 by bootstrap.
    Holm's correction covers all of them.

    Args:
        draws: The `cut_test` of each scoring.
    """
    values = {name: pairs(scoring, places_by_id) for name, scoring in scorings.items()}
    placed = {name: placements(*sample) for name, sample in values.items()}
    some_values, _, _ = next(iter(values.values()))
    n = len(some_values) // 2  # each conversation is in there whole and cut
    contrasts = []
    for first_name, second_name in combinations(scorings, 2):
        contrasts.append(_area_contrast(first_name, second_name, placed, draws, n))
        f1_difference, p = draws[first_name].difference(draws[second_name], "f1")
        contrasts.append(
            Contrast(
                figure="F1",
                one=first_name,
                other=second_name,
                n=n,
                first=float(draws[first_name].observed[_F1]),
                second=float(draws[second_name].observed[_F1]),
                difference=f1_difference,
                p=p,
            )
        )
    return corrected(contrasts)


def _area_contrast(
    first_name: str,
    second_name: str,
    placed: Mapping[str, Placements],
    draws: Mapping[str, BootstrapDraws],
    n: int,
) -> Contrast:
    """Returns the contrast of two scorings of the same items by AUROC, tested by DeLong's test, not yet corrected.

    Args:
        placed: The placements of each scoring.
        draws: The bootstrap draws of each scoring.
        n: Number of items.
    """
    first, second = placed[first_name], placed[second_name]
    difference, _ = draws[first_name].difference(draws[second_name], "auroc")
    return Contrast(
        figure="AUROC",
        one=first_name,
        other=second_name,
        n=n,
        first=first.area,
        second=second.area,
        difference=difference,
        p=p_difference(first, second),
    )


def truth_tables(
    scorings: Mapping[str, Values],
    places_by_id: Mapping[int, Place],
    claims_by_id: Mapping[int, Mapping[str, bool]],
) -> tuple[TruthTable, ...]:
    """Returns a table for each of `CLAIMS` that is decided for some conversation, except claims that have the same
    answers as an earlier one.

    Args:
        places_by_id: Result of `places`.
        claims_by_id: Whether each claim that is decided holds, by the id of the conversation.
    """
    tables: list[TruthTable] = []
    earlier_answers: list[dict[int, bool]] = []
    for claim in CLAIMS:
        answers = {key: claims[claim] for key, claims in claims_by_id.items() if claim in claims}
        # of those whose answer is known, the ones that every scoring scored
        holds = {key: answers[key] for key in places_by_id if key in answers}
        if not holds or answers in earlier_answers:
            continue
        earlier_answers.append(answers)
        positives = sum(holds.values())
        # a low value should predict the claim, so that high inverted ones do
        inverted = {
            name: [1 - _value_at(scoring, key, places_by_id[key].last) for key in holds]
            for name, scoring in scorings.items()
        }
        has_both_answers = 0 < positives < len(holds)
        rows, contrasts = (
            _truth_rows(inverted, list(holds.values())) if has_both_answers else ((), ())
        )
        tables.append(
            TruthTable(
                claim,
                description=truths.CLAIMS[claim],
                holds=positives,
                fails=len(holds) - positives,
                known=len(answers),
                rows=rows,
                contrasts=contrasts,
            )
        )
    return tuple(tables)


def _truth_rows(
    inverted: Mapping[str, list[float]], holds: list[bool]
) -> tuple[tuple[TruthRow, ...], tuple[Contrast, ...]]:
    """Returns a row for each scoring, whose values should be high where the claim holds, and a contrast by AUROC for
    every two scorings."""
    measured, contrasts = _against_labels(inverted, holds)
    rows = [TruthRow(name, measured[name].auroc, measured[name].ap) for name in inverted]
    return tuple(rows), contrasts


def _against_labels(
    scorings: Mapping[str, Sequence[float]], labels: Sequence[bool]
) -> tuple[dict[str, Classification], tuple[Contrast, ...]]:
    """Returns how well the values of each name find the labels, and a contrast by AUROC for every two names.

    Args:
        scorings: Values in [0, 1] of the same items, by name.
        labels: What is true of each item.
    """
    draws = {name: draw(values, labels) for name, values in scorings.items()}
    placed = {name: placements(values, labels) for name, values in scorings.items()}
    contrasts = []
    for first_name, second_name in combinations(scorings, 2):
        contrasts.append(_area_contrast(first_name, second_name, placed, draws, len(labels)))
    metrics = {name: drawn.classification() for name, drawn in draws.items()}
    return metrics, corrected(contrasts)


def _value_at(scoring: Values, key: int, message: int) -> float:
    """Returns the value of a conversation after a message.

    Raises:
        ValueError: There is none, although `places` chose the message.
    """
    value = scoring[key][message]
    if value is None:
        raise ValueError(f"Conversation {key} has no honest number after message {message}.")
    return value
