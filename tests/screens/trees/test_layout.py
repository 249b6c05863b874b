"""Trees folded into segments and lines: pure, so proved on trees of any shape."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trees.records import NodeColumns
from engine.trees.tree import LEAVES, Kind
from screens.trees.tree_view import OPEN_LINES, Folding, TreeLayout

EURO = "€".encode()
SPELLINGS = st.sampled_from(
    [b"a", b" word", b"", EURO, EURO[:1], EURO[1:2], EURO[1:], b"\xff", b"\n", b"[/x]\x1b"]
)


@st.composite
def trees(draw: st.DrawFn) -> NodeColumns:
    """Any tree: each node hangs on one before it; the recorded answer is the path to some node."""
    parent, path, spelling = [-1], [0.0], [b""]
    for node in range(1, draw(st.integers(2, 60))):
        above = draw(st.integers(max(0, node - 5), node - 1))
        parent.append(above)
        path.append(path[above] + draw(st.floats(-2, -0.01)))
        spelling.append(draw(SPELLINGS))
    inner = set(parent)
    kinds: list[Kind] = [Kind.ENDED, Kind.CUT, Kind.LONG, Kind.FRONTIER]
    kind: list[Kind] = [
        Kind.INNER if node in inner else kinds[draw(st.integers(0, 3))]
        for node in range(len(parent))
    ]
    below = [math.exp(p) if k in LEAVES else 0.0 for p, k in zip(path, kind, strict=True)]
    for node in range(len(parent) - 1, 0, -1):
        below[parent[node]] += below[node]
    recorded: list[int] = []
    at = draw(st.integers(0, len(parent) - 1))
    while at > 0:
        recorded.insert(0, at)
        at = parent[at]
    return NodeColumns(
        parent, spelling, path, below, kind, [1.0] * len(parent), recorded
    )  # fmt: skip


def path_to(columns: NodeColumns, node: int) -> list[int]:
    found = []
    while node > 0:
        found.append(node)
        node = columns.parent[node]
    return found[::-1]


class TestSegments:
    @settings(deadline=None)
    @given(trees())
    def test_every_node_and_leaf_once(self, columns: NodeColumns) -> None:
        """Each node is in exactly one segment, and each leaf ends exactly one."""
        layout = TreeLayout(columns)
        nodes = [node for segment in layout.segments for node in segment.nodes]
        childless = set(range(1, len(columns.parent))) - set(columns.parent)

        assert sorted(nodes) == list(range(1, len(columns.parent)))
        assert {s.nodes[-1] for s in layout.segments if not s.forks} == childless
        assert sum(layout.segments[at].leaves for at in layout.branches(-1)) == sum(
            kind in LEAVES for kind in columns.kind
        )

    @settings(deadline=None)
    @given(trees())
    def test_folded_text_is_the_text_of_the_path(self, columns: NodeColumns) -> None:
        """Texts along a path to a leaf, put together, are its bytes decoded at once, whatever splits characters."""
        layout = TreeLayout(columns)
        for at, segment in enumerate(layout.segments):
            nodes = path_to(columns, segment.nodes[-1])
            if not segment.forks:
                whole = b"".join(columns.spelling[node] for node in nodes)
                assert layout.path_text(at) == whole.decode("utf-8", "replace")

    @settings(deadline=None)
    @given(trees())
    def test_branches_by_mass(self, columns: NodeColumns) -> None:
        """Branches of one fork stand in the order of falling probability."""
        layout = TreeLayout(columns)
        for number in range(-1, len(layout.segments)):
            masses = [layout.segments[at].probability for at in layout.branches(number)]
            assert masses == sorted(masses, reverse=True)

    @settings(deadline=None)
    @given(trees())
    def test_where_things_are(self, columns: NodeColumns) -> None:
        """Nodes, forks and the best leaf are found where they stand."""
        layout = TreeLayout(columns)
        segments = layout.segments
        for number, segment in enumerate(segments):
            assert all(layout.of_node(node) == number for node in segment.nodes)
        leaves = [segment for segment in segments if segment.kind in LEAVES]
        best = layout.best_leaf()
        assert (best is None) == (not leaves)
        if best is not None:
            assert segments[best].mass_below == max(leaf.mass_below for leaf in leaves)
        forks = [at for at, segment in enumerate(segments) if segment.forks]
        assert [at for at in [layout.next_fork(-1)] if at is not None] == forks[:1]

    def test_a_path_deeper_than_the_stack(self) -> None:
        """A fork at each of 5,000 tokens is laid out without recursion."""
        parent, spelling = [-1], [b""]
        at = 0
        for _ in range(5_000):
            parent += [at, at]
            spelling += [b"x", b"y"]
            at = len(parent) - 2
        path = [0.0] * len(parent)
        inside = set(parent)
        kind: list[Kind] = [
            Kind.INNER if node in inside else Kind.CUT for node in range(len(parent))
        ]
        layout = TreeLayout(NodeColumns(parent, spelling, path, path, kind, [None] * len(parent)))

        assert max(segment.depth for segment in layout.segments) == 4_999


class TestFolding:
    @settings(max_examples=60, deadline=None)
    @given(trees(), st.lists(st.tuples(st.booleans(), st.integers(0, 80)), max_size=25))
    def test_lines_after_any_acts(self, columns: NodeColumns, acts: list[tuple[bool, int]]) -> None:
        """After any folding and unfolding, what stands on lines is what has everything above it unfolded."""
        layout = TreeLayout(columns)
        folding = Folding(layout).opened_at_first()
        opened = {at for at in range(len(layout.segments)) if folding.is_open(at)}
        for unfold, raw in acts:
            at = raw % len(layout.segments)
            (folding.unfold if unfold else folding.fold)(at)
            if unfold and layout.segments[at].forks:
                opened.add(at)
            elif not unfold:
                opened.discard(at)
        expected = [
            at
            for at in range(len(layout.segments))
            if all(above in opened for above in layout.path(at)[:-1])
        ]

        assert list(folding.lines) == expected
        assert all(folding.line_of(at) == line for line, at in enumerate(expected))

    @settings(deadline=None)
    @given(trees())
    def test_at_first(self, columns: NodeColumns) -> None:
        """At first a screenful is unfolded, and in any case the recorded answer."""
        layout = TreeLayout(columns)
        folding = Folding(layout).opened_at_first(8)
        if columns.recorded:
            end = layout.of_node(columns.recorded[-1])
            assert end is not None
            assert folding.line_of(end) is not None
        else:
            assert len(folding.lines) <= max(8, len(layout.branches(-1)))
        assert OPEN_LINES >= 8
