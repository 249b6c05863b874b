"""Compares two trees of one prompt: which nodes have the same text, and the distance of the two distributions.

Texts are compared byte by byte, so trees of models with different tokens can be compared.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from engine.trees.measures import answers
from engine.trees.tree import Kind, Tree

_END_OF_RESPONSE = 256
"""Marks the end of a response, after its bytes; no byte has this value."""

_BITS_OF_A_BYTE_OR_END = 9
"""Bits that hold a byte or `_END_OF_RESPONSE`."""


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
        first, second: The nodes of each tree that the other one has too.
        answers: Number of responses that both trees hold.
        low, high: Bounds on the total variation distance, half the sum of |P - Q| over all responses.
    """

    first: NodeMatches
    second: NodeMatches
    answers: int
    low: float
    high: float


def compare(first: Tree, second: Tree) -> TreeComparison:
    """Returns the matching nodes of two trees of one prompt, and bounds on the distance of their distributions.

    The mass of an ended leaf belongs to one response. All other mass (cut, too long, not read yet, pruned) belongs to
    unknown responses that begin with a known text. `low` assumes that the unknown mass of both trees is as equal as
    the texts allow, `high` that it is nowhere equal.
    """
    texts = _Texts()
    first_texts, second_texts = _TreeTexts(texts, first), _TreeTexts(texts, second)
    # `byte` and the masses of `regions` have one entry for each text: all texts must be added by now.
    shared_responses = first_texts.by_response.keys() & second_texts.by_response.keys()
    first_masses, second_masses = first_texts.regions(), second_texts.regions()
    surely_equal = math.fsum(
        min(p, q)
        for p, q, byte in zip(first_masses, second_masses, texts.byte, strict=True)
        if byte == _END_OF_RESPONSE
    )
    possibly_equal = _could_be_equal(texts, first_masses, second_masses)
    return TreeComparison(
        first=first_texts.matches_in(second_texts, shared_responses),
        second=second_texts.matches_in(first_texts, shared_responses),
        answers=len(shared_responses),
        # Each sum is 1 but for rounding.
        low=max(0.0, min(math.fsum(first_masses), math.fsum(second_masses)) - possibly_equal),
        high=max(0.0, 1.0 - surely_equal),
    )


class _Texts:
    """A prefix tree of texts. A text is a number: 0 is the empty text, and a prefix has a lower number than the texts
    that begin with it.

    Attributes:
        up: For each text, the text without its last byte; -1 for the empty one.
        byte: For each text, its last byte, or `_END_OF_RESPONSE`; -1 for the empty one.
    """

    def __init__(self) -> None:
        """Holds the empty text alone."""
        self.up = array("q", [-1])
        self.byte = array("h", [-1])
        self._longer: dict[int, int] = {}

    def after(self, text: int, data: Sequence[int]) -> int:
        """Returns the text extended by these bytes."""
        for byte in data:
            key = text << _BITS_OF_A_BYTE_OR_END | byte
            longer = self._longer.get(key)
            if longer is None:
                longer = self._longer[key] = len(self.up)
                self.up.append(text)
                self.byte.append(byte)
            text = longer
        return text

    def without_begun(self, text: int, stops: Sequence[bytes]) -> int:
        """Returns the text without a possible beginning of a stop text at its end, which is no part of the response."""
        max_begun = max((len(stop) for stop in stops), default=1) - 1
        tail, prefix = b"", text
        while prefix and len(tail) < max_begun:
            tail, prefix = bytes([self.byte[prefix]]) + tail, self.up[prefix]
        begun_bytes = max(
            (size for s in stops for size in range(1, len(s)) if tail.endswith(s[:size])), default=0
        )
        for _ in range(begun_bytes):
            text = self.up[text]
        return text


class _TreeTexts:
    """A tree with the text of each of its nodes."""

    def __init__(self, texts: _Texts, tree: Tree) -> None:
        """Adds the texts of all nodes of a tree, and of its whole responses, to `texts`."""
        self._texts, self._tree = texts, tree
        self._places = array("q", [0])
        for node in tree.nodes[1:]:
            text = texts.after(self._places[node.parent], tree.spelling(node.token))
            if node.token in tree.stop_tokens:
                text = texts.after(text, (_END_OF_RESPONSE,))
            self._places.append(text)
        self.by_response = {answer.text: answer.leaves for answer in answers(tree)}
        for node_id, node in enumerate(tree.nodes):
            if node.kind is Kind.ENDED:  # added now: `regions` needs the texts of both trees
                texts.after(texts.after(0, tree.text(node_id)), (_END_OF_RESPONSE,))

    def regions(self) -> list[float]:
        """Returns, for each text, the mass of the responses that are known to begin with it, or to be it where it
        ends."""
        tree, texts = self._tree, self._texts
        stops = [stop.encode() for stop in tree.options.stop if stop]
        masses = [0.0] * len(texts.up)
        for node_id, node in enumerate(tree.nodes):
            if node.kind is Kind.ENDED:
                masses[texts.after(texts.after(0, tree.text(node_id)), (_END_OF_RESPONSE,))] += (
                    node.mass
                )
            else:
                mass = node.pruned if node.kind is Kind.INNER else node.mass
                masses[texts.without_begun(self._places[node_id], stops)] += mass
        return masses

    def matches_in(self, other: _TreeTexts, shared: set[str]) -> NodeMatches:
        """Returns the matches of this tree's nodes in the other tree."""
        there = other._masses_by_text()
        twins = [-1] * len(self._texts.up)
        nodes = other._tree.nodes
        for node_id, text in enumerate(other._places):
            if twins[text] < 0 or nodes[node_id].path_log_p > nodes[twins[text]].path_log_p:
                twins[text] = node_id
        return NodeMatches(
            [
                there[text] or None if self._adds_text(node_id) else None
                for node_id, text in enumerate(self._places)
            ],
            [
                twins[text] if self._adds_text(node_id) else -1
                for node_id, text in enumerate(self._places)
            ],
            frozenset(leaf for text in shared for leaf in self.by_response[text]),
        )

    def _adds_text(self, node_id: int) -> bool:
        """Returns whether a node's text is not its parent's; a token may spell nothing."""
        parent = self._tree.nodes[node_id].parent
        return parent < 0 or self._places[node_id] != self._places[parent]

    def _masses_by_text(self) -> list[float]:
        """Returns, for each text, the probability of the paths whose last token completes it."""
        masses = [0.0] * len(self._texts.up)
        for node_id, text in enumerate(self._places):
            if self._adds_text(node_id):
                masses[text] += self._tree.nodes[node_id].mass
        return masses


def _could_be_equal(texts: _Texts, first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the greatest mass that two distributions can have in common, given the mass of each region (text prefix).

    Two regions share a response exactly when one text is a prefix of the other. So a greedy matching is optimal: each
    text, longest first, is matched with the remaining mass of the other side at or below it; what remains can only be
    matched at shorter prefixes.
    """
    matched = 0.0
    first_unmatched_below, second_unmatched_below = [0.0] * len(texts.up), [0.0] * len(texts.up)
    for text in range(len(texts.up) - 1, -1, -1):
        p, q = first[text], second[text]
        p_below, q_below = first_unmatched_below[text], second_unmatched_below[text]
        first_with_longer, second_with_longer = min(p, q_below), min(q, p_below)
        equal_texts = min(p - first_with_longer, q - second_with_longer)
        matched += first_with_longer + second_with_longer + equal_texts
        if text:
            first_unmatched_below[texts.up[text]] += (
                p + p_below - first_with_longer - second_with_longer - equal_texts
            )
            second_unmatched_below[texts.up[text]] += (
                q + q_below - first_with_longer - second_with_longer - equal_texts
            )
    return matched
