"""Charts in block characters: the completeness curve of a conversation with its sentence, the histogram of scores.

A point of the curve is a boundary (the place after a message at which a conversation could end) with its score, the
probability that the conversation is complete there. Heights are in eighths of a cell, the finest that block characters
show; rows of a chart are counted from the top.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from engine.base import number_format
from engine.completeness.records import CurvePoint, DecisionRule
from screens.widgets.formatting import STATE_LOOKS, TONES, fitting

_CURVE_TONES = [*(look.tone_class for look in STATE_LOOKS.values()), "tone--bright", "tone--muted"]
"""Component classes of the curve: of the states, of the marked point, of the threshold."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"
"""Blocks of growing height, in eighths of a cell."""
MAX_COLUMNS_PER_POINT = 3
"""Most columns of a point of the curve, where there is room for so many."""
BINS = 40
"""Bins of the histogram of scores."""


@dataclass(frozen=True, slots=True)
class CurveData:
    """The data of a curve.

    Attributes:
        points: The boundaries in order, each with its score.
        rule: Tells the state of a score: incomplete, borderline or complete.
        last_turn: The last turn of the conversation, whether it ends at a boundary or not.
    """

    points: tuple[CurvePoint, ...] = ()
    rule: DecisionRule = field(default_factory=DecisionRule)
    last_turn: int = 0

    def score_text(self, point: CurvePoint) -> str:
        """Returns the score of a point, with as many digits as its state needs."""
        p = point.p_end_normalised
        return number_format.probability(p, self.rule.digits(p))

    @property
    def sentence(self) -> str:
        """A sentence about the curve, see `format_reach`."""
        return format_reach(self.points, self.rule.threshold, self.last_turn)


def spread(points: int, width: int) -> list[range]:
    """Returns the indices of the points that each of `width` columns shows.

    Few points get up to `MAX_COLUMNS_PER_POINT` columns each; many points share a column.
    """
    if points == 0 or width <= 0:
        return []
    if points <= width:
        columns = min(MAX_COLUMNS_PER_POINT, width // points)
        return [range(index, index + 1) for index in range(points) for _ in range(columns)]
    return [
        range(column * points // width, (column + 1) * points // width) for column in range(width)
    ]


def block_rows(values: Sequence[float], height: int) -> list[str]:
    """Returns values in [0, 1] as `height` rows of block characters, the top row first.

    Every value is at least an eighth of a row high.
    """
    eighths = [max(1, round(min(max(value, 0.0), 1.0) * height * 8)) for value in values]
    return [
        "".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in eighths)
        for row in reversed(range(height))
    ]


class Curve(Widget):
    """Draws the curve, and on its last line a mark below the marked point with the figures of that point.

    A widget of a single line shows the curve, the figures of the marked point, and what the curve says in words.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = "Curve { height: 4; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._data = CurveData()
        self._marked_index: int | None = None

    def show(self, data: CurveData) -> None:
        """Draws a curve, and marks its last point."""
        self._data, self._marked_index = data, None
        self.refresh()

    @property
    def marked(self) -> int | None:
        """Index of the marked point; None when there are none."""
        points = len(self._data.points)
        if points == 0:
            return None
        return points - 1 if self._marked_index is None else min(self._marked_index, points - 1)

    def mark_message(self, message: int) -> None:
        """Marks the last boundary that is not after a message, by its index; where there is none, the first one."""
        boundaries = bisect_right(self._data.points, message, key=lambda point: point.message)
        self._marked_index = max(0, boundaries - 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Returns one row of the chart, or the line of the mark."""
        width, height = self.size
        base = self.rich_style
        points = self._data.points
        columns = spread(len(points), width if height > 1 else max(4, width // 4))
        if not columns:
            text = "no curve: nothing has been scored" if y == 0 else ""
            style = base + self.get_component_rich_style("tone--muted", partial=True)
            return Strip([Segment(text, style)]).crop_extend(0, width, base)
        marked = self.marked or 0
        if height == 1:
            return self._single_line(columns, marked, width)
        if y == height - 1:
            return self._mark_line(columns, marked, width)
        return Strip(self._row(columns, marked, y, height - 1)).crop_extend(0, width, base)

    def _row(self, columns: list[range], marked: int, y: int, rows: int) -> list[Segment]:
        """Returns row `y` of a chart of `rows` rows; columns that show the point with the index `marked` are bright."""
        points, base = self._data.points, self.rich_style
        # A column of several points shows the highest, because peaks are what a reader looks for.
        values = [max(points[index].p_end_normalised for index in column) for column in columns]
        # Counted from the top, while the threshold is a share of the height from below.
        threshold_row = rows - 1 - min(rows - 1, int(self._data.rule.threshold * rows))
        looks = {name: self.get_component_rich_style(name, partial=True) for name in _CURVE_TONES}
        segments = []
        for column, value, block in zip(columns, values, block_rows(values, rows)[y], strict=True):
            tone = STATE_LOOKS[self._data.rule.state(value)].tone_class
            if block == " " and y == threshold_row:
                block, tone = "┄", "tone--muted"
            style = base + looks[tone]
            if marked in column:
                style = style + looks["tone--bright"]
            segments.append(Segment(block, style))
        if y == threshold_row and rows > 1:
            style = base + looks["tone--muted"]
            label = f"┄ {number_format.probability(self._data.rule.threshold)}"
            segments.append(Segment(label, style))
        return segments

    def _single_line(self, columns: list[range], marked: int, width: int) -> Strip:
        """Returns the chart of a single row, the figures of the marked point, and the curve in words."""
        base = self.rich_style
        point = self._data.points[marked]
        rule = self._data.rule
        tone = STATE_LOOKS[rule.state(point.p_end_normalised)].tone_class
        score = self._data.score_text(point)
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        parts = [
            *self._row(columns, marked, 0, 1),
            Segment(f"  turn {point.turn} ", base),
            Segment(score, base + self.get_component_rich_style(tone, partial=True)),
            Segment(f" ┄ {number_format.probability(rule.threshold)}  ", muted),
        ]
        room = width - Strip(parts).cell_length
        words = self._data.sentence
        if len(words) > room > 0:
            words = fitting(words.split(", "), room)
        parts.append(Segment(words, base))
        return Strip(parts).crop_extend(0, width, base)

    def _mark_line(self, columns: list[range], marked: int, width: int) -> Strip:
        """Returns the mark below the chart, and the figures at its right, or at its left where they have no room."""
        base = self.rich_style
        point = self._data.points[marked]
        first_column = next(index for index, column in enumerate(columns) if marked in column)
        label = f"turn {point.turn} {self._data.score_text(point)}"
        state = self._data.rule.state(point.p_end_normalised)
        tone = self.get_component_rich_style(STATE_LOOKS[state].tone_class, partial=True)
        bright = self.get_component_rich_style("tone--bright", partial=True)
        has_room_right = first_column + len("▲ ") + len(label) <= width
        mark = Segment("▲", base + bright)
        text = Segment(label, base + tone)
        if has_room_right:
            parts = [Segment(" " * first_column, base), mark, Segment(" ", base), text]
        else:
            parts = [Segment(" " * max(0, first_column - len(label) - 1), base), text]
            parts += [Segment(" ", base), mark]
        return Strip(parts).crop_extend(0, width, base)


@dataclass(frozen=True, slots=True)
class Reach:
    """The last stretch of the curve at or above the threshold.

    Attributes:
        reached: Index of the boundary at which it begins.
        fell: Index of the boundary after it, from which on the curve is below the threshold; None if it never falls.
        before: Number of earlier stretches at or above the threshold.
    """

    reached: int
    fell: int | None
    before: int


def reach(values: Sequence[float], threshold: float) -> Reach | None:
    """Returns the last stretch of scores at or above the threshold; None when there is none."""
    above = [value >= threshold for value in values]
    starts = [
        index
        for index, is_above in enumerate(above)
        if is_above and (index == 0 or not above[index - 1])
    ]
    if not starts:
        return None
    fell = next((index for index in range(starts[-1], len(above)) if not above[index]), None)
    return Reach(starts[-1], fell, len(starts) - 1)


def format_reach(points: Sequence[CurvePoint], threshold: float, last_turn: int) -> str:
    """Returns the sentence under a curve; empty when there is no curve.

    It is `reached at turn 7, 4 turns after it` where the curve stays at or above the threshold; `reached at turn 3,
    fell again at turn 5 (reopened)` where it does not; `never reached, highest .31 at turn 4` where it never is.
    Earlier stretches are counted: `reached at turn 7 (and once before), the last`.

    Args:
        last_turn: The last turn of the conversation, whether it ends at a boundary or not.
    """
    if not points:
        return ""
    values = [point.p_end_normalised for point in points]
    stretch = reach(values, threshold)
    if stretch is None:
        top = max(range(len(values)), key=values.__getitem__)
        number = number_format.probability(values[top])
        return f"never reached, highest {number} at turn {points[top].turn}"
    turn = points[stretch.reached].turn
    words = f"reached at turn {turn}"
    if stretch.before:
        times = "once" if stretch.before == 1 else f"{stretch.before} times"
        words += f" (and {times} before)"
    if stretch.fell is not None:
        return words + f", fell again at turn {points[stretch.fell].turn} (reopened)"
    after = last_turn - turn
    return words + (
        f", {number_format.counted(after, 'turn')} after it" if after > 0 else ", the last"
    )


def column_heights(counts: Sequence[int], rows: int) -> list[int]:
    """Returns the heights of bins in eighths of a row, the largest `rows` rows high; only an empty bin has none."""
    largest = max(counts, default=0)
    return [max(1, round(count * rows * 8 / largest)) if count else 0 for count in counts]


class Histogram(Widget):
    """Draws the number of conversations by score, in the colors of the states, over an axis with the threshold."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = "Histogram { height: 4; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bins: Sequence[int] = ()
        self._rule = DecisionRule()

    def show(self, bins: Sequence[int], rule: DecisionRule) -> None:
        """Draws the counts of equal bins of [0, 1], lowest first."""
        self._bins, self._rule = bins, rule
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Returns one row of the chart, or the axis."""
        width, height = self.size
        base = self.rich_style
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        if not any(self._bins):
            text = "nothing has been scored" if y == 0 else ""
            return Strip([Segment(text, muted)]).crop_extend(0, width, base)
        cells_per_bin = max(1, width // len(self._bins))
        if y == height - 1:
            return self._axis(cells_per_bin).crop_extend(0, width, base)
        rows = height - 1
        rows_below = rows - 1 - y
        segments = []
        for index, eighths in enumerate(column_heights(self._bins, rows)):
            middle = (index + 0.5) / len(self._bins)
            tone = STATE_LOOKS[self._rule.state(middle)].tone_class
            block = _EIGHTHS[min(8, max(0, eighths - 8 * rows_below))]
            style = base + self.get_component_rich_style(tone, partial=True)
            segments.append(Segment(block * cells_per_bin, style))
        return Strip(segments).crop_extend(0, width, base)

    def _axis(self, cells_per_bin: int) -> Strip:
        """Returns a thin line with the borderline band as a thick part of it, and the threshold as a mark."""
        base = self.rich_style
        looks = {
            name: base + self.get_component_rich_style(name, partial=True)
            for name in ("tone--muted", "tone--borderline", "tone--bright")
        }
        cells = cells_per_bin * len(self._bins)
        mark = min(cells - 1, int(self._rule.threshold * cells))
        segments = []
        for cell in range(cells):
            middle = (cell + 0.5) / cells
            if cell == mark:
                segments.append(Segment("▲", looks["tone--bright"]))
            elif abs(middle - self._rule.threshold) < self._rule.band:
                segments.append(Segment("━", looks["tone--borderline"]))
            else:
                segments.append(Segment("─", looks["tone--muted"]))
        segments.append(
            Segment(f" ▲ {number_format.probability(self._rule.threshold)}", looks["tone--bright"])
        )
        return Strip(segments)
