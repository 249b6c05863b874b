"""Compares the figures of two runs of the bench."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NOT_SPEED = ("machine", "part_budget_seconds")
"""Entries of a result that are no figures of a part."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure in an earlier run and in this one.

    Attributes:
        name: The names of its part and of itself, joined by dots.
        before, now: The figure; of a figure that was measured in rounds the median.
        before_range, now_range: The least and the largest of the rounds; None where there are none.
    """

    name: str
    before: float
    now: float
    before_range: tuple[float, float] | None = None
    now_range: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """`now` divided by `before`; None where that cannot be divided."""
        return self.now / self.before if self.before else None

    @property
    def overlaps(self) -> bool | None:
        """Whether the ranges of the rounds overlap, so that the difference may be chance; None without rounds."""
        if self.before_range is None or self.now_range is None:
            return None
        return (
            self.before_range[0] <= self.now_range[1] and self.now_range[0] <= self.before_range[1]
        )


def compare_results(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Compared]:
    """The figures that both results of `tests.benchmarks.parts.runner.run` have, in the order of the newer one.

    Lists of numbers are the rounds of one figure.
    """
    earlier = dict(_figures(before))
    found = []
    for name, value in _figures(now):
        other = earlier.get(name)
        if isinstance(value, list) and isinstance(other, list):
            ranges = ((min(other), max(other)), (min(value), max(value)))
            middles = (statistics.median(other), statistics.median(value))
            found.append(Compared(name, *middles, *ranges))
        elif isinstance(value, float) and isinstance(other, float):
            found.append(Compared(name, other, value))
    return found


def other_machine(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between the machines and versions of two results: ratios within a run may be compared across them,
    seconds may not."""
    facts = [dict(_facts(one.get("machine", {}))) for one in (before, now)]
    return [
        f"{name}: {facts[0].get(name)}, now {facts[1].get(name)}"
        for name in sorted(facts[0].keys() | facts[1].keys())
        if facts[0].get(name) != facts[1].get(name)
    ]


def _figures(value: Any, name: str = "") -> Iterator[tuple[str, float | list[float]]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if name or key not in NOT_SPEED:
                yield from _figures(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        if value and all(_is_number(one) for one in value):
            yield name, [float(one) for one in value]
    elif _is_number(value):
        yield name, float(value)


def _facts(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _facts(inner, f"{name} {key}".strip())
    else:
        yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
