"""A tree as lines of segments, drawn line by line so that 50,000 nodes scroll like ten.

A segment is a run of tokens without a fork: it begins where its parent forks and ends where it forks itself or is a
leaf. Segments are numbered in the order in which they are drawn, so that those below a segment are a range of numbers.
A line shows one segment; the segments below a folded one have no line. The tree is laid out on another thread than the
one that draws.
"""

from __future__ import annotations

import codecs
import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.segment import Segment as Piece
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from engine.base import number_format
from engine.base.text import display_safe
from engine.trees.records import STEP_STOP, NodeColumns
from engine.trees.tree import LEAVES, Kind
from screens.widgets.keyed import movement
from screens.widgets.row_table import CursorView

KIND_LOOKS: dict[Kind, tuple[str, str, str]] = {
    Kind.ENDED: ("●", "tone--complete", "ended"),
    Kind.CUT: ("✂", "tone--unscored", "cut: no next token reaches alpha"),
    Kind.LONG: ("…", "tone--borderline", "at the longest"),
    Kind.FRONTIER: ("▹", "tone--accent", "not read yet"),
    Kind.INNER: (" ", "", ""),
}
"""Glyph, tone and word for how a segment ends."""

TEXT_WIDTH = 100
"""Text and indent are not stretched beyond this many columns."""
INDENT = 2
"""Columns by which each level is indented."""
MAX_INDENT_SHARE = 0.4
"""Share of the width up to which segments are indented; deeper ones show their depth as a number."""
_FIGURE_WIDTH = 4
"""Fewest columns of a number."""
FIGURES_WIDTH = 1 + number_format.BAR_WIDTH + 1 + _FIGURE_WIDTH + 1 + _FIGURE_WIDTH + 1 + 2
"""Columns of the figures of a segment: a bar and two numbers, a space before each and after the last, and two for
numbers that are longer."""
OPEN_LINES = 60
"""Lines of a new tree that are unfolded: the most probable branches, and the recorded answer."""
MAX_SEGMENT_CHARACTERS = 400
"""Most characters that are shown of the text of a segment."""


class _Draft(NamedTuple):
    """A segment before what is below it is known; see `Segment`."""

    nodes: list[int]
    parent: int
    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of the tree.

    Attributes:
        nodes: Ids of its nodes, from the one after the fork on.
        parent: Number of the segment whose fork it begins at; -1 at the root.
        depth: Segments before it on its path.
        end: Number after the last segment below it.
        leaves: Leaves at or below it.
        text: What its tokens add to the text of the path. An incomplete character is part of the segment
            that completes it, so that the joined texts along a path are the text of the path.
        kind: How it ends: forks (`INNER`), as a leaf, or not read.
        probability: Probability of the path from the root to its first node.
        mass_below: Probability of all leaves at or below it.
        entropy: Entropy in bits of the next token after its end; None where the model did not compute it.
        recorded: Whether the recorded answer goes through its first node.
    """

    nodes: Sequence[int]
    parent: int
    depth: int
    end: int
    leaves: int
    text: str
    kind: Kind
    probability: float
    mass_below: float
    entropy: float | None
    recorded: bool

    @property
    def forks(self) -> bool:
        """Whether branches go on from its end."""
        return self.kind == Kind.INNER


class TreeLayout:
    """All segments of a tree; branches are ordered by descending probability."""

    def __init__(self, columns: NodeColumns) -> None:
        self.columns = columns
        children: list[list[int]] = [[] for _ in columns.parent]
        for node, parent in enumerate(columns.parent):
            if parent >= 0:
                children[parent].append(node)
        for child_nodes in children:
            child_nodes.sort(key=lambda node: (-columns.path[node], node))
        self._children = children
        self.segments = self._segments(self._drafts())

    def _drafts(self) -> list[_Draft]:
        """Returns the drafts of all segments, in their order.

        It goes through the tree without recursion: a path may be longer than Python's stack is deep.
        """
        columns = self.columns
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        start = decoder.getstate()
        # First node, parent segment, depth, state of the decoder: the bytes of an incomplete character.
        waiting = [(node, -1, 0, start) for node in reversed(self._children[0])]
        drafts: list[_Draft] = []
        while waiting:
            first, parent, depth, state = waiting.pop()
            nodes = [first]
            while len(self._children[nodes[-1]]) == 1:
                nodes.append(self._children[nodes[-1]][0])
            child_nodes = self._children[nodes[-1]]
            decoder.setstate(state)
            data = b"".join(columns.spelling[node] for node in nodes)
            text = decoder.decode(data, final=not child_nodes)
            state = decoder.getstate()
            number = len(drafts)
            drafts.append(_Draft(nodes, parent, depth, text))
            waiting.extend((node, number, depth + 1, state) for node in reversed(child_nodes))
        return drafts

    def _segments(self, drafts: Sequence[_Draft]) -> list[Segment]:
        """Returns the segments, with the figures of what is below them."""
        columns, recorded = self.columns, frozenset(self.columns.recorded)
        ends = list(range(1, len(drafts) + 1))
        leaves = [int(columns.kind[draft.nodes[-1]] in LEAVES) for draft in drafts]
        for number in range(len(drafts) - 1, -1, -1):
            parent = drafts[number].parent
            if parent >= 0:
                ends[parent] = max(ends[parent], ends[number])
                leaves[parent] += leaves[number]
        segments = []
        for number, draft in enumerate(drafts):
            first, last = draft.nodes[0], draft.nodes[-1]
            segments.append(
                Segment(
                    nodes=draft.nodes,
                    parent=draft.parent,
                    depth=draft.depth,
                    end=ends[number],
                    leaves=leaves[number],
                    text=draft.text,
                    # A node with several children is a fork, whatever its kind.
                    kind=Kind.INNER if self._children[last] else columns.kind[last],
                    probability=math.exp(columns.path[first]),
                    mass_below=columns.below[first],
                    entropy=columns.entropy[last],
                    recorded=first in recorded,
                )
            )
        return segments

    # Lookup

    def branches(self, number: int) -> list[int]:
        """Returns the segments that go on from a segment, from the root for -1, most probable first."""
        segment = number + 1
        end = len(self.segments) if number < 0 else self.segments[number].end
        branches = []
        while segment < end:
            branches.append(segment)
            segment = self.segments[segment].end
        return branches

    def of_node(self, node: int) -> int | None:
        """Returns the segment that holds a node; None for the root and for a node that is not there."""
        numbered = enumerate(self.segments)
        return next((number for number, segment in numbered if node in segment.nodes), None)

    def path(self, number: int) -> list[int]:
        """Returns the segments from the root to this one."""
        path = []
        while number >= 0:
            path.append(number)
            number = self.segments[number].parent
        return path[::-1]

    def path_text(self, number: int) -> str:
        """Returns the text from the root to the end of a segment."""
        return "".join(self.segments[segment].text for segment in self.path(number))

    def next_fork(self, number: int) -> int | None:
        """Returns the next segment, in the order drawn, at whose end there are branches; None after the last."""
        following = range(number + 1, len(self.segments))
        return next((number for number in following if self.segments[number].forks), None)

    def best_leaf(self) -> int | None:
        """Returns the most probable leaf; None in a tree without a leaf."""
        leaves = [number for number, segment in enumerate(self.segments) if segment.kind in LEAVES]
        return max(
            leaves, key=lambda number: (self.segments[number].mass_below, -number), default=None
        )


class Folding:
    """Which segments of a layout are shown and which are folded.

    Attributes:
        lines: The numbers of the segments that are shown, one for each line, in their order.
    """

    def __init__(self, layout: TreeLayout) -> None:
        self.layout = layout
        self.lines = array("q", layout.branches(-1))
        self._unfolded: set[int] = set()

    def opened_at_first(self, most: int = OPEN_LINES) -> Folding:
        """Unfolds the most probable branches while there are at most `most` lines, and the recorded answer.

        Returns itself.
        """
        segments = self.layout.segments
        waiting = [
            (-segments[segment].mass_below, segment)
            for segment in self.lines
            if segments[segment].forks
        ]
        heapq.heapify(waiting)
        while waiting:
            _, segment = heapq.heappop(waiting)
            branches = self.layout.branches(segment)
            if len(self.lines) + len(branches) > most:
                break
            self.unfold(segment)
            for branch in branches:
                if segments[branch].forks:
                    heapq.heappush(waiting, (-segments[branch].mass_below, branch))
        recorded = [number for number, segment in enumerate(segments) if segment.recorded]
        if recorded:
            self.reveal(recorded[-1])
        return self

    def is_open(self, number: int) -> bool:
        """Returns whether a segment is unfolded."""
        return number in self._unfolded

    def line_of(self, number: int) -> int | None:
        """Returns the line of a segment; None while it is folded away."""
        line = bisect_left(self.lines, number)
        return line if line < len(self.lines) and self.lines[line] == number else None

    def unfold(self, number: int) -> None:
        """Shows the branches of a segment; those that were unfolded before are unfolded again."""
        if number in self._unfolded or not self.layout.segments[number].forks:
            return
        self._unfolded.add(number)
        line = self.line_of(number)
        if line is None:
            return
        self.lines[line + 1 : line + 1] = self._shown_below(number)

    def fold(self, number: int) -> None:
        """Hides everything below a segment."""
        if number not in self._unfolded:
            return
        self._unfolded.discard(number)
        line = self.line_of(number)
        if line is not None:
            beyond = bisect_left(self.lines, self.layout.segments[number].end)
            del self.lines[line + 1 : beyond]

    def reveal(self, number: int) -> int:
        """Unfolds the segments above a segment; returns its line."""
        for above in self.layout.path(number)[:-1]:
            self.unfold(above)
        line = self.line_of(number)
        assert line is not None  # everything above it is unfolded
        return line

    def _shown_below(self, number: int) -> array[int]:
        """Returns the segments that are shown below an unfolded segment, in their order."""
        shown_segments = array("q")
        waiting = self.layout.branches(number)[::-1]
        while waiting:
            segment = waiting.pop()
            shown_segments.append(segment)
            if segment in self._unfolded:
                waiting.extend(self.layout.branches(segment)[::-1])
        return shown_segments


NO_TREE = NodeColumns([-1], [b""], [0.0], [0.0], [Kind.INNER], [None])
"""Nothing but a root, which has no segment; shown before there is a tree."""


class TreeView(CursorView):
    """Shows a layout with a cursor on a segment."""

    PLACE = "tree-view"
    BINDINGS: ClassVar[list[BindingType]] = [
        *movement("Line"),
        Binding("right", "unfold", "Unfold", show=False, tooltip="Unfold, or go to the branches"),
        Binding("left", "fold", "Fold", show=False, tooltip="Fold, or go to what it goes on from"),
        Binding("enter,space", "turn", "Fold", key_display="← →", tooltip="Fold or unfold"),
        Binding("n", "fork", "Fork", tooltip="Next fork"),
        Binding("b", "best", "Best", tooltip="The most probable answer"),
    ]

    class Highlighted(Message):
        """The cursor moved to another segment."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._folding = Folding(TreeLayout(NO_TREE))

    # What is shown

    @property
    def layout_shown(self) -> TreeLayout:
        """The layout; one without segments before there is a tree."""
        return self._folding.layout

    @property
    def item_count(self) -> int:
        """Number of lines."""
        return len(self._folding.lines)

    @property
    def cursor(self) -> int | None:
        """Number of the segment under the cursor; None in an empty tree."""
        return self._folding.lines[self.cursor_index] if self._folding.lines else None

    @property
    def segment(self) -> Segment | None:
        """The segment under the cursor."""
        number = self.cursor
        return None if number is None else self.layout_shown.segments[number]

    def show(self, folding: Folding) -> None:
        """Shows a tree, the cursor on its first line."""
        self._folding = folding
        self.cursor_index = 0
        self._show_changed_lines()

    def go_to_node(self, node: int) -> None:
        """Puts the cursor on the segment that holds a node, if it is there."""
        number = self.layout_shown.of_node(node)
        if number is not None:
            self.go_to(number)

    def go_to(self, number: int) -> None:
        """Puts the cursor on a segment, which is unfolded into sight."""
        self.cursor_index = self._folding.reveal(number)
        self._show_changed_lines()

    def _show_changed_lines(self) -> None:
        """Draws the lines again after they changed, with the cursor in sight."""
        self.cursor_index = min(self.cursor_index, max(0, self.item_count - 1))
        self._measure()
        self._reveal()
        self.refresh()
        self.post_highlighted()

    def post_highlighted(self) -> None:
        """Posts `Highlighted`."""
        self.post_message(self.Highlighted())

    # Keys

    def action_unfold(self) -> None:
        """Unfolds the segment; when it is unfolded already, goes to its first branch."""
        number, folding = self.cursor, self._folding
        if number is None or not folding.layout.segments[number].forks:
            return
        if folding.is_open(number):
            self._go(self.cursor_index + 1)
        else:
            folding.unfold(number)
            self._show_changed_lines()

    def action_fold(self) -> None:
        """Folds the segment; when it is folded already, goes to its parent."""
        number, folding = self.cursor, self._folding
        if number is None:
            return
        if folding.is_open(number):
            folding.fold(number)
            self._show_changed_lines()
        elif folding.layout.segments[number].parent >= 0:
            self.go_to(folding.layout.segments[number].parent)

    def action_turn(self) -> None:
        """Folds or unfolds the segment."""
        number, folding = self.cursor, self._folding
        if number is not None:
            if folding.is_open(number):
                folding.fold(number)
            else:
                folding.unfold(number)
            self._show_changed_lines()

    def action_fork(self) -> None:
        """Goes to the next fork, which is unfolded into sight."""
        number = self.cursor
        if number is not None:
            fork = self.layout_shown.next_fork(number)
            if fork is None:
                self.notify("There is no fork after this one.", markup=False)
            else:
                self.go_to(fork)

    def action_best(self) -> None:
        """Goes to the most probable leaf."""
        leaf = self.layout_shown.best_leaf()
        if leaf is not None:
            self.go_to(leaf)

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor to the clicked line; a second click on it folds or unfolds."""
        line = event.y + round(self.scroll_offset.y)
        if line >= self.item_count:
            return
        if line == self.cursor_index:
            self.action_turn()
        self._go(line)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Returns one segment, or nothing below the last one."""
        width, base = self.size.width, self.rich_style
        line = y + round(self.scroll_offset.y)
        if line >= self.item_count:
            return Strip.blank(width, base)
        base = self._base_style(line)
        number = self._folding.lines[line]
        segment = self._folding.layout.segments[number]
        room = min(width, TEXT_WIDTH + FIGURES_WIDTH) - FIGURES_WIDTH - 1
        left = self._left(line, room, base)
        bar = number_format.bar(segment.probability)
        tone = self._tone("tone--accent" if segment.recorded else "tone--complete", line)
        probability = number_format.small_probability(segment.probability)
        mass_below = number_format.small_probability(segment.mass_below)
        right = [
            Piece(" ", base),
            Piece(bar, base + tone),
            Piece(f" {probability:>{_FIGURE_WIDTH}} ", base),
            Piece(f"{mass_below:>{_FIGURE_WIDTH}} ", base + self._tone("tone--muted", line)),
        ]
        strip = Strip([*Strip(left).adjust_cell_length(room, base), *right])
        return strip.crop_extend(0, width, base)

    def _left(self, line: int, room: int, base: Style) -> list[Piece]:
        """Returns the indent, sign and text of a line and the notes after it, in at most `room` cells."""
        number = self._folding.lines[line]
        segment = self._folding.layout.segments[number]
        muted = base + self._tone("tone--muted", line)
        indent, max_indent = segment.depth * INDENT, int(room * MAX_INDENT_SHARE)
        if indent <= max_indent:
            head = [Piece(" " * (indent + 1), base)]
        else:
            # as wide as the deepest indent, so that the text begins where that of the others does
            head = [Piece(f" {segment.depth}".ljust(max_indent + 1)[: max_indent + 1], muted)]
        if segment.forks:
            head.append(Piece("▾ " if self._folding.is_open(number) else "▸ ", muted))
        else:
            glyph, tone, _ = KIND_LOOKS[segment.kind]
            head.append(Piece(f"{glyph} ", base + self._tone(tone, line)))
        tail: list[Piece] = []
        if segment.forks and not self._folding.is_open(number):
            tail.append(Piece(f" ({segment.leaves:,})", muted))
        has_ended = segment.kind == Kind.ENDED
        # The opening of the next step is how a model ends its own, and nothing that it says.
        said = segment.text.removesuffix(STEP_STOP) if has_ended else segment.text
        text, style = shown_text(said), base
        if not text:
            text, style = ("end" if has_ended else "·"), muted
        room_left = room - Strip([*head, *tail]).cell_length
        body = Strip([Piece(text, style)])
        if body.cell_length > room_left:
            body = Strip([*body.crop(0, max(0, room_left - 1)), Piece("…", muted)])
        return [*head, *body, *tail]


def shown_text(text: str) -> str:
    """Returns the text of a segment on one line, with its spaces, and line ends as signs."""
    cut = text[:MAX_SEGMENT_CHARACTERS] + ("…" if len(text) > MAX_SEGMENT_CHARACTERS else "")
    return display_safe(cut.replace("\r\n", "\n").replace("\n", "⏎").replace("\t", "⇥"))
