"""A tree as segments, and which of them are shown. Computed on another thread than the one that draws.

A segment is a run of single tokens: it begins where its parent forks and ends where it forks itself or is a leaf.
Segments are numbered in the order in which they are drawn, so that those below a segment are a range of numbers.
"""

from __future__ import annotations

import codecs
import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from engine.trees.records import NodeColumns
from engine.trees.tree import LEAVES, Kind

OPEN_LINES = 60
"""Lines of a new tree that are unfolded: the most probable branches, and the recorded answer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of the tree.

    Attributes:
        nodes: Ids of its nodes, from the one after the fork on.
        parent: Number of the segment that it goes on from; -1 at the root.
        depth: Segments before it on its path.
        end: Number after the last segment below it.
        leaves: Leaves at or below it.
        text: What its tokens add to the text of the path. An incomplete character is part of the segment
            that completes it, so that the joined texts along a path are the text of the path.
        probability: Probability of the path to its first node: that of taking this branch at the fork.
        below: Probability of all leaves at or below it.
        entropy: Entropy in bits of the next token after its end; None where the model did not compute it.
        recorded: Whether the recorded answer goes through its first node.
        recorded_text: What of its text the recorded answer has, where this leaves the tree, or ends, in it; else None.
    """

    nodes: Sequence[int]
    parent: int
    depth: int
    end: int
    leaves: int
    text: str
    kind: Kind
    probability: float
    below: float
    entropy: float | None
    recorded: bool
    recorded_text: str | None

    @property
    def last(self) -> int:
        """Its last node."""
        return self.nodes[-1]

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
        for below in children:
            below.sort(key=lambda node: (-columns.path[node], node))
        self._children = children
        self._recorded = frozenset(columns.recorded)
        self.segments: list[Segment] = []
        self._number()

    def _number(self) -> None:
        """Goes through the tree without recursion: a path may be longer than Python's stack is deep."""
        # first node, parent segment, depth, pending bytes of the decoder
        waiting: list[tuple[int, int, int, tuple[bytes, int]]] = []
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        start = decoder.getstate()
        waiting.extend((node, -1, 0, start) for node in reversed(self._children[0]))
        drafts: list[tuple[list[int], int, int, str]] = []
        columns = self.columns
        while waiting:
            first, parent, depth, state = waiting.pop()
            nodes = [first]
            while len(self._children[nodes[-1]]) == 1:
                nodes.append(self._children[nodes[-1]][0])
            below = self._children[nodes[-1]]
            decoder.setstate(state)
            data = b"".join(columns.spelling[node] for node in nodes)
            text = decoder.decode(data, final=not below)
            state = decoder.getstate()
            number = len(drafts)
            drafts.append((nodes, parent, depth, text))
            waiting.extend((node, number, depth + 1, state) for node in reversed(below))
        ends = list(range(1, len(drafts) + 1))
        leaves = [int(columns.kind[nodes[-1]] in LEAVES) for nodes, _, _, _ in drafts]
        for number in range(len(drafts) - 1, -1, -1):
            parent = drafts[number][1]
            if parent >= 0:
                ends[parent] = max(ends[parent], ends[number])
                leaves[parent] += leaves[number]
        for number, (nodes, parent, depth, text) in enumerate(drafts):
            last = nodes[-1]
            self.segments.append(
                Segment(
                    nodes=nodes,
                    parent=parent,
                    depth=depth,
                    end=ends[number],
                    leaves=leaves[number],
                    text=text,
                    # the last token of a segment may be one that was not read yet
                    kind=Kind.INNER if self._children[last] else columns.kind[last],
                    probability=math.exp(columns.path[nodes[0]]),
                    below=columns.below[nodes[0]],
                    entropy=columns.entropy[last],
                    recorded=nodes[0] in self._recorded,
                    recorded_text=self._recorded_text(nodes),
                )
            )

    def _recorded_text(self, nodes: Sequence[int]) -> str | None:
        """Returns the text of the nodes up to the last one that the recorded answer goes through; None where that is
        not among them."""
        if not self.columns.recorded or self.columns.recorded[-1] not in nodes:
            return None
        data = b"".join(self.columns.spelling[node] for node in nodes if node in self._recorded)
        return data.decode("utf-8", "replace")

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
        segment = -1
        node_path: list[int] = []
        while 0 < node < len(self.columns.parent):
            node_path.append(node)
            node = self.columns.parent[node]
        on_path = frozenset(node_path)
        while True:
            inside = [
                number
                for number in self.branches(segment)
                if self.segments[number].nodes[0] in on_path
            ]
            if not inside:
                return None if segment < 0 else segment
            segment = inside[0]

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

    def path_nodes(self, number: int) -> list[int]:
        """Returns the nodes from the root to the end of a segment."""
        return [node for segment in self.path(number) for node in self.segments[segment].nodes]

    def next_fork(self, number: int) -> int | None:
        """Returns the next segment, in the order drawn, at whose end there are branches; None after the last."""
        following = range(number + 1, len(self.segments))
        return next((number for number in following if self.segments[number].forks), None)

    def sibling(self, number: int, delta: int = 1) -> int:
        """Returns the next branch at the same fork, after the last one the first."""
        same = self.branches(self.segments[number].parent)
        return same[(same.index(number) + delta) % len(same)]

    def best_leaf(self) -> int | None:
        """Returns the most probable leaf; None in a tree without a leaf."""
        leaves = [number for number, segment in enumerate(self.segments) if segment.kind in LEAVES]
        return max(leaves, key=lambda number: (self.segments[number].below, -number), default=None)

    def recorded_end(self) -> int | None:
        """Returns the segment in which the recorded answer leaves the tree, or ends; None when it is not in the
        tree.
        """
        return next(
            (
                number
                for number, segment in enumerate(self.segments)
                if segment.recorded_text is not None
            ),
            None,
        )

    def leaves_with(self, text: str) -> list[int]:
        """Returns the leaves whose whole text holds a text, whatever its case, in the order drawn."""
        folded_text = text.casefold()
        leaves: list[int] = []
        path_texts: list[str] = []  # texts of the segments on the path to the current one
        for number, segment in enumerate(self.segments):
            del path_texts[segment.depth :]
            path_texts.append(segment.text)
            if segment.kind in LEAVES and folded_text in "".join(path_texts).casefold():
                leaves.append(number)
        return leaves


class Folding:
    """Which segments of a layout are shown and which are folded."""

    def __init__(self, layout: TreeLayout) -> None:
        self.layout = layout
        self._open: set[int] = set()
        self.lines = array("q", layout.branches(-1))

    def opened_at_first(self, most: int = OPEN_LINES) -> Folding:
        """Unfolds the most probable branches until so many lines are used, and the recorded answer."""
        segments = self.layout.segments
        waiting = [
            (-segments[segment].below, segment) for segment in self.lines if segments[segment].forks
        ]
        heapq.heapify(waiting)
        while waiting:
            _, segment = heapq.heappop(waiting)
            branches = self.layout.branches(segment)
            if len(self.lines) + len(branches) > most:
                break
            self.unfold(segment)
            for below in branches:
                if segments[below].forks:
                    heapq.heappush(waiting, (-segments[below].below, below))
        recorded = self.layout.recorded_end()
        if recorded is not None:
            self.reveal(recorded)
        return self

    def is_open(self, number: int) -> bool:
        """Returns whether the branches of a segment are shown."""
        return number in self._open

    def line_of(self, number: int) -> int | None:
        """Returns the line of a segment; None while it is folded away."""
        line = bisect_left(self.lines, number)
        return line if line < len(self.lines) and self.lines[line] == number else None

    def unfold(self, number: int) -> None:
        """Shows the branches of a segment; those below them that were unfolded before are so again."""
        if number in self._open or not self.layout.segments[number].forks:
            return
        self._open.add(number)
        line = self.line_of(number)
        if line is None:
            return
        self.lines[line + 1 : line + 1] = self._shown_below(number)

    def fold(self, number: int) -> None:
        """Hides everything below a segment."""
        if number not in self._open:
            return
        self._open.discard(number)
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

    def unfold_all(self, below: int) -> None:
        """Unfolds a segment and everything below it; everything for -1."""
        segments = self.layout.segments
        end = len(segments) if below < 0 else segments[below].end
        self._open.update(number for number in range(max(below, 0), end) if segments[number].forks)
        self._set_lines()

    def fold_all(self) -> None:
        """Folds everything."""
        self._open.clear()
        self._set_lines()

    def _set_lines(self) -> None:
        """Computes anew which segments are shown."""
        self.lines = self._shown_below(-1)

    def _shown_below(self, number: int) -> array[int]:
        """Returns the segments that are shown below a segment that is unfolded, below the root for -1, in the order
        drawn."""
        shown_segments = array("q")
        waiting = self.layout.branches(number)[::-1]
        while waiting:
            segment = waiting.pop()
            shown_segments.append(segment)
            if segment in self._open:
                waiting.extend(self.layout.branches(segment)[::-1])
        return shown_segments

    def like(self, older: Folding) -> Folding:
        """Unfolds what was unfolded in an older folding of the same tree: nodes keep their ids while a tree grows."""
        ends = {older.layout.segments[number].last for number in older._open}
        firsts = {older.layout.segments[number].nodes[0] for number in older._open}
        for number, segment in enumerate(self.layout.segments):
            if segment.forks and (segment.last in ends or segment.nodes[0] in firsts):
                self._open.add(number)
        self._set_lines()
        return self
