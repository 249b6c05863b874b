"""The figures of the charts of a watch, each with the filter of the conversations behind it."""

from __future__ import annotations

from engine.conversations.filter_fields import NOVEL
from engine.conversations.filters import Filter, Term
from engine.results.watch.chart import Chart, Part
from engine.results.watch.service import NOVEL_LABEL
from screens.shell.figures import Figure


def completion_figures(chart: Chart) -> list[Figure]:
    """The points, the newest first, then those that run and the past ones."""
    points = [
        Figure(
            f"{point.complete.part} of {point.complete.of} complete"
            f"{', outside the limits' if point.outside else ''}, up to {point.until[:16].replace('T', ' ')}",
            Filter((_ended(at * chart.size + 1, (at + 1) * chart.size),)),
            point.complete.of,
        )
        for at, point in enumerate(chart.points)
    ]
    return [
        Figure("still running", _watched("running"), chart.running),
        *points[::-1],
        Figure("past ones, which set the limits", _watched("past")),
    ]


def goal_figures(chart: Chart) -> list[Figure]:
    """Each goal among those watched and among the past ones, the largest change first."""
    found = []
    for one in chart.goals:
        goal = Filter().with_choice("goal", NOVEL if one.label == NOVEL_LABEL else one.label)
        sides: list[tuple[str, str, Part]] = [("new", "now", one.now), ("past", "past", one.past)]
        for value, word, part in sides:
            wanted = goal.with_choice("watched", value)
            found.append(Figure(f"{word} {part.share:.0%}  {one.label}", wanted, part.part))
    return found


def _ended(first: int, last: int) -> Term:
    return Term("ended", ":", (str(first), str(last)), span=True)


def _watched(value: str) -> Filter:
    return Filter().with_choice("watched", value)
