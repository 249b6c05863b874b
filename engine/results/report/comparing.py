"""The section of a report that compares two sides, or the values of a field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.number_format import counted, figure
from engine.base.text import one_line
from engine.opener.conversations import ConversationService
from engine.results.comparison.formatting import (
    breakdown_notes,
    change_text,
    entropy_text,
    goal_name,
    has_trees,
    notes,
    p_text,
    points,
    rate_text,
    side_text,
    value_text,
)
from engine.results.comparison.records import Breakdown, Comparison, Difference, Part, Side
from engine.results.report.document import Block, Paragraph, Ranges, Table

MOST_GOALS = 12
"""Tests of goals that are listed without a significant difference; those with one are all listed."""
MOST_TO_READ = 4
"""Differences of which conversations are listed."""
MOST_BARS = 20
_IN_POINTS = ("completion", "share of goal", "completion in goal")


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison to report on, and what its conversations are read from: one store for each side, which may be the
    same."""

    found: Comparison | Breakdown
    rows: tuple[ConversationService, ConversationService]


def comparison_blocks(compared: Compared) -> Iterator[Block]:
    """What differs with intervals and tests, as a table and a chart, and conversations to read."""
    if isinstance(compared.found, Breakdown):
        yield from _breakdown(compared.found, compared.rows)
    else:
        yield from _comparison(compared.found, compared.rows)


def _comparison(
    found: Comparison, rows: tuple[ConversationService, ConversationService]
) -> Iterator[Block]:
    several = rows[0] is not rows[1]
    for letter, side in zip("AB", found.sides, strict=True):
        yield Paragraph(f"{letter}: {side_text(_without_folder(side) if several else side)}.")
    if found.corrected_change is not None:
        change = found.corrected_change
        yield Paragraph(
            f"Completion without the errors of the scores: {points(change.value)} points from A to B"
            f" (95% interval {points(change.low)} to {points(change.high)})."
        )
    overall = [one for one in found.differences if one.goal is None]
    goals = [one for one in found.differences if one.goal is not None]
    told = [one for one in goals if one.significant]
    rest = [one for one in goals if not one.significant]
    listed = [*overall, *told, *rest[: max(0, MOST_GOALS - len(told))]]
    yield Table(
        "What differs between A and B; changes of shares in points, p corrected for all tests",
        ("what", "A", "B", "change (95% interval)", "p", "needed on each side"),
        tuple(
            (
                _name(one),
                value_text(one, 0),
                value_text(one, 1),
                change_text(one),
                p_text(one),
                "" if one.needed is None else f"{one.needed:,}",
            )
            for one in listed
        ),
        frozenset((1, 2, 3, 4, 5)),
    )
    yield from _chart("Changes from A to B in points, with 95% intervals", map(_labelled, listed))
    if goals:
        yield Paragraph(
            f"{counted(len(told), 'difference')} of goals found among {len(goals):,} tested."
            + (f" {len(goals) + len(overall) - len(listed):,} more tests are not listed."
               if len(listed) < len(goals) + len(overall) else "")
            + (f" {counted(found.untested, 'goal')} with too few conversations for a test."
               if found.untested else "")
        )  # fmt: skip
    for line in notes(found):
        yield Paragraph(line)
    yield from _to_read([(f"{_name(one)}, {'AB'[one.examples_in]}", one) for one in listed], rows)


def _breakdown(
    found: Breakdown, rows: tuple[ConversationService, ConversationService]
) -> Iterator[Block]:
    yield from breakdown_tables(found, f"by {found.field}; p corrected for all tests")
    changes = ((part.value, part.change) for part in found.parts if part.change is not None)
    yield from _chart(
        f"Changes of completion by {found.field} in points, with 95% intervals", changes
    )
    for line in breakdown_notes(found):
        yield Paragraph(line)
    yield from _to_read(
        [
            (f"{part.value if part.change.examples_in else part.against}", part.change)
            for part in found.parts
            if part.change is not None
        ],
        rows,
    )


def breakdown_tables(found: Breakdown, caption: str) -> Iterator[Block]:
    """The values of a field with completion and, where there are response trees, uncertainty, and the changes."""
    heads = [
        found.field,
        "conversations",
        "scored",
        "complete",
        "corrected",
        "change in points",
        "p",
    ]
    yield Table(
        f"Completion {caption}", tuple(heads), tuple(map(_part, found.parts)), _rest_of(heads)
    )
    if has_trees(found):
        heads = [found.field, "with a response tree", "mean entropy in bits", "change in bits", "p"]
        rows = tuple(map(_uncertain, found.parts))
        yield Table(f"Uncertainty {caption}", tuple(heads), rows, _rest_of(heads))


def _rest_of(heads: Sequence[str]) -> frozenset[int]:
    """All columns but the first."""
    return frozenset(range(1, len(heads)))


def _part(part: Part) -> tuple[str, ...]:
    return (
        part.value,
        f"{part.rate.conversations:,}",
        f"{part.rate.scored:,}",
        *rate_text(part.rate),
        *_change(part.change),
    )


def _uncertain(part: Part) -> tuple[str, ...]:
    return part.value, f"{part.trees:,}", entropy_text(part), *_change(part.entropy_change)


def _change(change: Difference | None) -> tuple[str, str]:
    return ("", "") if change is None else (change_text(change), p_text(change))


def _name(one: Difference) -> str:
    return one.measure if one.goal is None else goal_name(one)


def _labelled(one: Difference) -> tuple[str, Difference]:
    return _name(one), one


def _chart(title: str, labelled: Iterator[tuple[str, Difference]]) -> Iterator[Block]:
    """The changes of shares; measures of other units would need other axes."""
    shown = [(label, one) for label, one in labelled if one.measure in _IN_POINTS]
    if not shown:
        return
    yield Ranges(
        title,
        tuple(
            (label, 100 * one.change.low, 100 * one.change.value, 100 * one.change.high,
             points(one.change.value))
            for label, one in shown[:MOST_BARS]
        ),
    )  # fmt: skip


def _to_read(
    labelled: Sequence[tuple[str, Difference]],
    rows: tuple[ConversationService, ConversationService],
) -> Iterator[Block]:
    """Conversations of the clearest differences."""
    clear = sorted(
        (one for one in labelled if one[1].significant and one[1].examples),
        key=lambda one: one[1].p,
    )
    cells = []
    for label, one in clear[:MOST_TO_READ]:
        for row in rows[one.examples_in].rows(one.examples):
            score = "" if row.p_end_normalised is None else figure(row.p_end_normalised)
            cells.append((label, row.external_id, score, one_line(row.opening, 100)))
    if cells:
        yield Table(
            "What differs most: its least complete conversations",
            ("what", "conversation", "score", "begins with"),
            tuple(cells),
            frozenset((2,)),
        )


def _without_folder(side: Side) -> Side:
    """A side that is a project by the name of its file: whoever reads the report does not know the folders."""
    return Side(Path(side.name).name, side.filter, side.rate)
