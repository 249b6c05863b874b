"""The truncation test over several scorings of the same conversations, and their comparison with truth.

A *scoring* is the values that one model or rule gives at the *boundaries*, the places where a conversation could end.
The test compares each whole conversation with the same one cut at an earlier boundary; all scorings are tested on the
same cuts. AUROC is the probability that a whole conversation has a higher value than a cut one, both drawn at random.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from engine.base.statistics.bootstrap import BootstrapDraws, draw
from engine.base.statistics.intervals import Interval
from engine.base.statistics.ranking import placements
from engine.completeness.truncation import cut_at, matched
from engine.results.records import TruthRow, TruthTable
from engine.results.validation.claims import CLAIMS, JUDGED_FAILED, areas_in_words

Values = Mapping[int, Mapping[int, float | None]]
"""A scoring: by the id of a conversation and the index of a boundary message, ascending, the normalized score; None
where there is none."""

_LOW_CLAIMS = ("not complete", "reward 0", "reward below 1", JUDGED_FAILED)
"""The claims that a low value at the end of a conversation should predict; see `engine.results.validation.claims`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation ends and is cut, as indices of messages.

    Attributes:
        last: The last boundary.
        cut: The boundary at which the conversation is cut; None where it has only one boundary.
        boundaries: All boundaries that every scoring has, ascending.
    """

    last: int
    cut: int | None
    boundaries: tuple[int, ...]


def cut_places(
    scorings: Mapping[str, Values], names: Mapping[int, str], seed: int
) -> dict[int, Place]:
    """Returns the places, by id, of the conversations that every scoring scores at the end and at the cut.

    Args:
        scorings: The scorings by name, at least one.
        names: The id in the source of each conversation that may be tested, by its id.
        seed: Seed of the cuts.
    """
    places_by_id = {}
    for key, name in names.items():
        curves = [scoring.get(key, {}) for scoring in scorings.values()]
        # older scorings may have fewer boundaries, and the cut must be the same for all scorings
        shared = [message for message in curves[0] if all(message in curve for curve in curves)]
        if not shared or any(max(curve) != shared[-1] for curve in curves):
            continue
        cut_index = cut_at(seed, name, len(shared))
        cut = None if cut_index is None else shared[cut_index]
        place = Place(shared[-1], cut, tuple(shared))
        needed = [place.last] if place.cut is None else [place.last, place.cut]
        if all(curve[message] is not None for curve in curves for message in needed):
            places_by_id[key] = place
    return places_by_id


def cut_test(
    scoring: Values, places_by_id: Mapping[int, Place], threshold: float
) -> BootstrapDraws:
    """Returns how well a scoring separates whole conversations from cut ones, as observed and in bootstrap draws.

    Args:
        places_by_id: Result of `cut_places` for scorings that include this one.
        threshold: Value from which a conversation is called whole.

    Raises:
        ValueError: No conversation can be cut.
    """
    return draw(*_whole_and_cut(scoring, places_by_id), threshold)


def matched_test(scoring: Values, places_by_id: Mapping[int, Place]) -> tuple[Interval | None, int]:
    """Returns how well a scoring separates whole conversations from longer ones cut at the same boundary.

    The result is that of `engine.completeness.truncation.matched`: the share and the number of pairs.
    """
    curves = [
        [scoring[key][message] for message in place.boundaries]
        for key, place in places_by_id.items()
    ]
    return matched([np.array(curve, dtype=float) for curve in curves])


def _whole_and_cut(
    scoring: Values, places_by_id: Mapping[int, Place]
) -> tuple[list[float], list[bool], list[int]]:
    """Returns the values of whole conversations and then of the same ones cut, as three parallel lists.

    The lists have each value, whether it is that of a whole conversation, and the id of the conversation.
    """
    cuts = {key: place.cut for key, place in places_by_id.items() if place.cut is not None}
    values = [_value_of_boundary(scoring, key, places_by_id[key].last) for key in cuts]
    values += [_value_of_boundary(scoring, key, cut) for key, cut in cuts.items()]
    return values, [True] * len(cuts) + [False] * len(cuts), 2 * list(cuts)


def best_against_baseline(
    scorings: Mapping[str, Values], places_by_id: Mapping[int, Place], baselines: Collection[str]
) -> str:
    """Returns a sentence that compares the best scores with the best baseline in the truncation test.

    The best is the one with the largest AUROC. The sentence is empty where there are no scores or no baseline.

    Args:
        baselines: Names of the scorings that are baselines.
    """
    placements_by_name = {
        name: placements(*_whole_and_cut(scoring, places_by_id))
        for name, scoring in scorings.items()
    }
    by_area = sorted(placements_by_name, key=lambda name: -placements_by_name[name].area)
    scores = next((name for name in by_area if name not in baselines), None)
    baseline = next((name for name in by_area if name in baselines), None)
    if scores is None or baseline is None:
        return ""
    best = placements_by_name[scores], placements_by_name[baseline]
    return areas_in_words((scores, baseline), best)


def truth_tables(
    scorings: Mapping[str, Values],
    places_by_id: Mapping[int, Place],
    claims_by_id: Mapping[int, Mapping[str, bool]],
) -> tuple[TruthTable, ...]:
    """Returns a table for each claim of `_LOW_CLAIMS` that is decided for a conversation.

    A claim that has the same answers as an earlier one gets no table.

    Args:
        places_by_id: Result of `cut_places`.
        claims_by_id: Whether each claim that is decided holds, by the id of the conversation.
    """
    tables: list[TruthTable] = []
    earlier_answers: list[dict[int, bool]] = []
    for claim in _LOW_CLAIMS:
        answers = {key: claims[claim] for key, claims in claims_by_id.items() if claim in claims}
        # only the conversations that every scoring scores
        holds = {key: answers[key] for key in places_by_id if key in answers}
        if not holds or answers in earlier_answers:
            continue
        earlier_answers.append(answers)
        positives = sum(holds.values())
        # a low value should predict the claim, so a high inverted value does
        inverted = {
            name: [1 - _value_of_boundary(scoring, key, places_by_id[key].last) for key in holds]
            for name, scoring in scorings.items()
        }
        has_both_answers = 0 < positives < len(holds)
        rows = _truth_rows(inverted, list(holds.values())) if has_both_answers else ()
        tables.append(
            TruthTable(
                claim,
                description=CLAIMS[claim],
                holds=positives,
                fails=len(holds) - positives,
                known=len(answers),
                rows=rows,
            )
        )
    return tuple(tables)


def _truth_rows(inverted: Mapping[str, list[float]], holds: list[bool]) -> tuple[TruthRow, ...]:
    """Returns a row for each scoring, whose values should be high where the claim holds."""
    classifications = {
        name: draw(values, holds).classification() for name, values in inverted.items()
    }
    return tuple(
        TruthRow(name, classifications[name].auroc, classifications[name].ap) for name in inverted
    )


def _value_of_boundary(scoring: Values, key: int, message: int) -> float:
    """Returns the value of a conversation at a boundary, given by its message.

    Raises:
        ValueError: There is no value, although `cut_places` chose the boundary.
    """
    value = scoring[key][message]
    if value is None:
        raise ValueError(f"Conversation {key} has no honest number after message {message}.")
    return value
