"""Describes a curve in a sentence, and finds its steepest rise and fall. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base import number_format
from engine.completeness.records.scores import CurvePoint


@dataclass(frozen=True, slots=True)
class Reach:
    """When the curve came to the threshold, as indices of boundaries.

    Attributes:
        reached: Where the last stretch at or above the threshold begins.
        fell: The boundary after that stretch, where the curve is below it again and stays so; None if it never is.
        before: How many earlier stretches at or above the threshold there were.
    """

    reached: int
    fell: int | None
    before: int


def reach(values: Sequence[float], threshold: float) -> Reach | None:
    """Finds the last stretch of boundaries at or above the threshold; None when there is none."""
    above = [value >= threshold for value in values]
    starts = [
        at for at, is_above in enumerate(above) if is_above and (at == 0 or not above[at - 1])
    ]
    if not starts:
        return None
    fell = next((at for at in range(starts[-1], len(above)) if not above[at]), None)
    return Reach(starts[-1], fell, len(starts) - 1)


def format_reach(
    points: Sequence[CurvePoint], threshold: float, last_turn: int, digits: int = 2
) -> str:
    """The sentence under a curve, empty when there is no curve.

    `reached at turn 7, 4 turns after it` when it stays at or above the threshold; `reached at turn 3, fell again
    at turn 5 (reopened)` when it does not; `never reached, highest .31 at turn 4`. Earlier stretches are counted:
    `reached at turn 7 (and once before), the last`.

    Args:
        last_turn: The last turn of the conversation, boundary or not.
    """
    if not points:
        return ""
    values = [point.p_end_normalised for point in points]
    found = reach(values, threshold)
    if found is None:
        top = max(range(len(values)), key=values.__getitem__)
        number = number_format.probability(values[top], digits)
        return f"never reached, highest {number} at turn {points[top].turn}"
    turn = points[found.reached].turn
    words = f"reached at turn {turn}"
    if found.before:
        times = "once" if found.before == 1 else f"{found.before} times"
        words += f" (and {times} before)"
    if found.fell is not None:
        return words + f", fell again at turn {points[found.fell].turn} (reopened)"
    after = last_turn - turn
    return words + (
        f", {number_format.counted(after, 'turn')} after it" if after > 0 else ", the last"
    )


def steepest(values: Sequence[float], direction: int) -> int | None:
    """The boundary at which the curve rises (1) or falls (-1) most from the one before, the first of equals.

    None when it never does.
    """
    best, where = 0.0, None
    for at in range(1, len(values)):
        step = direction * (values[at] - values[at - 1])
        if step > best:
            best, where = step, at
    return where
