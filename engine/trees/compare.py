"""Compares two trees of one prompt: which nodes have the same text, and the distance of the two distributions.

Texts are compared byte by byte, so trees of models with different tokens can be compared.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.trees.measures import answers
from engine.trees.tree import Kind, Tree

_END = 256
"""Marks the end of a response, after its bytes."""


@dataclass(frozen=True, slots=True)
class NodeMatches:
    """The nodes of another tree that have the same text as the nodes of this tree.

    Attributes:
        there: For each node, the probability of the other tree's paths whose last token completes the node's text; None
            without such a path, or when the node adds no text. A path that only begins with the text does not count.
        twins: For each node, the id of the other tree's most probable node with the same text; -1 without one.
        shared: Ids of the leaves whose response the other tree has too.
    """

    there: Sequence[float | None]
    twins: Sequence[int]
    shared: frozenset[int]


@dataclass(frozen=True, slots=True)
class TreeComparison:
    """Two trees of one prompt, and the distance of their distributions over responses.

    Attributes:
        answers: Number of responses that both trees hold.
        low, high: Bounds on the total variation distance, half the sum of |P - Q| over all responses.
    """

    first: NodeMatches
    second: NodeMatches
    answers: int
    low: float
    high: float


def compare(first: Tree, second: Tree) -> TreeComparison:
    """Compares two trees of one prompt.

    The mass of an ended leaf belongs to one response. All other mass (cut, too long, not read yet, pruned) belongs to
    unknown responses that begin with a known text. `low` assumes that the unknown mass of both trees is as equal as
    the texts allow, `high` that it is nowhere equal.
    """
    texts = _Texts()
    one, two = _Placed(texts, first), _Placed(texts, second)
    shared = one.by_response.keys() & two.by_response.keys()
    known = one.regions(), two.regions()
    equal = math.fsum(
        min(p, q) for p, q, byte in zip(*known, texts.byte, strict=True) if byte == _END
    )
    possible = _could_be_equal(texts, *known)
    return TreeComparison(
        one.matches_in(two, shared),
        two.matches_in(one, shared),
        len(shared),
        max(0.0, min(math.fsum(known[0]), math.fsum(known[1])) - possible),
        max(0.0, 1.0 - equal),
    )


class _Texts:
    """A prefix tree of texts. A text is a number: 0 is the empty text, and a prefix has a lower number than the texts
    that begin with it."""

    def __init__(self) -> None:
        self.up = array("q", [-1])
        self.byte = array("h", [-1])
        self._longer: dict[int, int] = {}

    def after(self, text: int, data: Sequence[int]) -> int:
        """Returns the text extended by these bytes."""
        for byte in data:
            key = text << 9 | byte
            found = self._longer.get(key)
            if found is None:
                found = self._longer[key] = len(self.up)
                self.up.append(text)
                self.byte.append(byte)
            text = found
        return text

    def without_begun(self, text: int, stops: Sequence[bytes]) -> int:
        """Returns the text without a possible beginning of a stop text at its end, which is no part of the response."""
        most = max((len(stop) for stop in stops), default=1) - 1
        tail, at = b"", text
        while at and len(tail) < most:
            tail, at = bytes([self.byte[at]]) + tail, self.up[at]
        begun = max(
            (size for s in stops for size in range(1, len(s)) if tail.endswith(s[:size])), default=0
        )
        for _ in range(begun):
            text = self.up[text]
        return text


class _Placed:
    """A tree with the text of each of its nodes."""

    def __init__(self, texts: _Texts, tree: Tree) -> None:
        self._texts, self._tree = texts, tree
        self._places = array("q", [0])
        for node in tree.nodes[1:]:
            at = texts.after(self._places[node.parent], tree.spelling(node.token))
            if node.token in tree.stop_tokens:
                at = texts.after(at, (_END,))
            self._places.append(at)
        self.by_response = {answer.text: answer.leaves for answer in answers(tree)}
        for at, node in enumerate(tree.nodes):
            if node.kind is Kind.ENDED:  # computed lazily: regions need the texts of both trees
                texts.after(texts.after(0, tree.text(at)), (_END,))

    def regions(self) -> list[float]:
        """For each text, the mass of the responses that are known to begin with it, or to be it where it ends."""
        tree, texts = self._tree, self._texts
        stops = [stop.encode() for stop in tree.options.stop if stop]
        masses = [0.0] * len(texts.up)
        for at, node in enumerate(tree.nodes):
            if node.kind is Kind.ENDED:
                masses[texts.after(texts.after(0, tree.text(at)), (_END,))] += node.mass
            else:
                mass = node.pruned if node.kind is Kind.INNER else node.mass
                masses[texts.without_begun(self._places[at], stops)] += mass
        return masses

    def matches_in(self, other: _Placed, shared: set[str]) -> NodeMatches:
        """Finds the matches of this tree's nodes in the other tree."""
        masses = other._spelled()
        twins = [-1] * len(self._texts.up)
        nodes = other._tree.nodes
        for at, place in enumerate(other._places):
            if twins[place] < 0 or nodes[at].path > nodes[twins[place]].path:
                twins[place] = at
        return NodeMatches(
            [masses[place] or None if self._adds(at) else None for at, place in self._numbered],
            [twins[place] if self._adds(at) else -1 for at, place in self._numbered],
            frozenset(leaf for text in shared for leaf in self.by_response[text]),
        )

    @property
    def _numbered(self) -> Iterable[tuple[int, int]]:
        return enumerate(self._places)

    def _adds(self, at: int) -> bool:
        """Whether a node's text is not its parent's; a token may spell nothing."""
        parent = self._tree.nodes[at].parent
        return parent < 0 or self._places[at] != self._places[parent]

    def _spelled(self) -> list[float]:
        """For each text, the probability of the paths whose last token completes it."""
        masses = [0.0] * len(self._texts.up)
        for at, place in self._numbered:
            if self._adds(at):
                masses[place] += self._tree.nodes[at].mass
        return masses


def _could_be_equal(texts: _Texts, one: Sequence[float], two: Sequence[float]) -> float:
    """Returns the greatest mass that two distributions can have in common, given the mass of each region (text prefix).

    Two regions share a response exactly when one text is a prefix of the other. So a greedy matching is optimal: each
    text, longest first, is matched with the remaining mass of the other side at or below it; what remains can only be
    matched at shorter prefixes.
    """
    matched = 0.0
    below = [0.0] * len(texts.up), [0.0] * len(texts.up)
    for text in range(len(texts.up) - 1, -1, -1):
        p, q = one[text], two[text]
        p_below, q_below = below[0][text], below[1][text]
        up, down = min(p, q_below), min(q, p_below)
        here = min(p - up, q - down)
        matched += up + down + here
        if text:
            below[0][texts.up[text]] += p + p_below - up - down - here
            below[1][texts.up[text]] += q + q_below - up - down - here
    return matched
