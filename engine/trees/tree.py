"""A response tree: nodes are tokens after a prompt, and the account divides the whole probability among them.

This module calls no model: the caller asks which node to read next and passes in the distribution after it.

A child is in the tree if its probability reaches `alpha`. In mode `path` alpha is compared with the probability of the
whole path from the root; in mode `token` with that of the child's token after its parent, and the most probable child
is always in the tree. A child that is not in the tree is *pruned*.

All log-probabilities are natural logarithms; those of a path are called `path_log_p`, those of one token after its
parent `log_p`. `p_ln_p` is a probability times its natural logarithm, the term of an entropy.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from engine.model.interface import LogProbs
from engine.trees.records import TreeOptions, options_frame, options_from

ROOT = 0
"""Node id of the root."""

MIN_LOG_PROB = -745.0
"""Natural logarithm below which a probability is zero in double precision."""


class Kind(IntEnum):
    """The kind of a node: FRONTIER waits to be read, INNER has children. Leaves are ENDED (end token or stop text), CUT
    (no child reaches alpha) and LONG (as many tokens as a path may have)."""

    FRONTIER = 0
    INNER = 1
    ENDED = 2
    CUT = 3
    LONG = 4


LEAVES = (Kind.ENDED, Kind.CUT, Kind.LONG)
"""The kinds of nodes that are leaves."""


@dataclass(slots=True)
class Node:
    """One token after its parent's path; the root is the end of the prompt.

    Attributes:
        parent: Id of the parent node; -1 for the root.
        token: Token id; -1 for the root.
        log_p: Natural logarithm of its probability after its parent's path.
        path_log_p: The same for the whole path from the root.
        depth: Tokens on the path.
        kind: How the node stands in the tree; see `Kind`.
        children: Ids of the child nodes, in the order in which they were added.
        pruned: Probability of the paths to its pruned children. Of a CUT node it is the whole mass, and is not counted,
            because that mass is covered.
        pruned_entropy: Sum of -p log2 p over those children, p as for `pruned`.
        entropy: Bits of the distribution of its children; None before it was read.
    """

    parent: int
    token: int
    log_p: float
    path_log_p: float
    depth: int
    kind: Kind = Kind.FRONTIER
    children: list[int] = field(default_factory=list)
    pruned: float = 0.0
    pruned_entropy: float = 0.0
    entropy: float | None = None

    @property
    def mass(self) -> float:
        """The probability of the path."""
        return math.exp(self.path_log_p)


@dataclass(frozen=True, slots=True)
class Account:
    """The division of the probability: on leaves, on pruned children, on nodes not read yet. The three sum to 1."""

    covered: float
    pruned: float
    unexpanded: float


class Tree:
    """A tree that grows best-first: `take` gives the most probable waiting node, `expand` adds its children by the
    distribution after it."""

    def __init__(
        self,
        options: TreeOptions,
        stop_tokens: frozenset[int],
        spelling: Callable[[int], bytes],
    ) -> None:
        """Makes a tree of the root alone, which waits to be read.

        Args:
            options: When a child is in the tree, and how long a path may get.
            stop_tokens: Tokens that end a response.
            spelling: Returns the bytes of a token.
        """
        self.options = options
        self.nodes: list[Node] = [Node(-1, -1, 0.0, 0.0, 0)]
        self.stop_tokens = stop_tokens
        self.spelling = spelling
        self._stops = [text.encode() for text in options.stop if text]
        self._log_alpha = math.log(options.alpha)
        self._waiting: list[tuple[float, int]] = [(0.0, ROOT)]

    # Growth

    @property
    def next_path(self) -> float | None:
        """The path log-probability of the node that `take` would return; None when no node waits."""
        return -self._waiting[0][0] if self._waiting else None

    def take(self) -> int | None:
        """Removes and returns the most probable waiting node, the oldest on a tie; None when no node waits."""
        return heapq.heappop(self._waiting)[1] if self._waiting else None

    def give_back(self, node_id: int) -> None:
        """Makes a node wait again that was taken but not read."""
        heapq.heappush(self._waiting, (-self.nodes[node_id].path_log_p, node_id))

    def expand(self, node_id: int, distribution: LogProbs) -> list[int]:
        """Adds the children of a node that was taken.

        Args:
            distribution: Natural log-probabilities of all tokens after its path, as the sampling of the run (such as
                the temperature) changes them, shape (vocabulary,).

        Returns:
            Ids of the new children that wait to be read, most probable first.
        """
        node = self.nodes[node_id]
        probabilities = np.exp(distribution)
        # A token that cannot be drawn is then 0 times a number, not 0 times infinity.
        p_ln_p = probabilities * np.maximum(distribution, MIN_LOG_PROB)
        node.entropy = -float(p_ln_p.sum()) / math.log(2)
        tokens = np.flatnonzero(distribution >= self._min_log_p(node))
        if self.options.mode == "token" and not len(tokens):
            tokens = np.array([distribution.argmax()])
        # Most probable first, of equal ones the lower id: the order does not depend on how numpy sorts.
        order = tokens[np.lexsort((tokens, -distribution[tokens]))]
        children = [self._add(node_id, int(token), float(distribution[token])) for token in order]
        # The pruned part is the total minus that of the children, so the others need not be listed.
        child_log_ps = [self.nodes[child].log_p for child in children]
        pruned_share = max(0.0, float(probabilities.sum()) - math.fsum(map(math.exp, child_log_ps)))
        pruned_p_ln_p = float(p_ln_p.sum()) - math.fsum(map(_times_own_log, child_log_ps))
        node.pruned = node.mass * pruned_share
        # With m the mass of the node: sum of m p ln(m p) = m (sum of p ln p + ln m * sum of p).
        node.pruned_entropy = max(
            0.0, -node.mass * (pruned_p_ln_p + node.path_log_p * pruned_share) / math.log(2)
        )
        node.kind = Kind.INNER if children else Kind.CUT
        return [child for child in children if self.nodes[child].kind is Kind.FRONTIER]

    def _min_log_p(self, node: Node) -> float:
        """Returns the log-probability after its parent from which on a child is in the tree."""
        return self._log_alpha - (node.path_log_p if self.options.mode == "path" else 0.0)

    def _add(self, parent_id: int, token: int, log_p: float) -> int:
        """Adds one child as a leaf or as a waiting node, and returns its id."""
        parent = self.nodes[parent_id]
        node = Node(parent_id, token, log_p, parent.path_log_p + log_p, parent.depth + 1)
        node_id = len(self.nodes)
        self.nodes.append(node)
        parent.children.append(node_id)
        if token in self.stop_tokens or self._completes_stop_text(node_id):
            node.kind = Kind.ENDED
        elif node.depth >= self.options.max_tokens:
            node.kind = Kind.LONG
        else:
            heapq.heappush(self._waiting, (-node.path_log_p, node_id))
        return node_id

    def _completes_stop_text(self, node_id: int) -> bool:
        """Returns whether a stop text ends within the token of a node."""
        if not self._stops:
            return False
        longest = max(map(len, self._stops))
        # A stop text may begin in earlier tokens, but must end within the newest one: earlier nodes were tested.
        tail, current = b"", node_id
        newest_bytes = len(self.spelling(self.nodes[node_id].token))
        while current != ROOT and len(tail) < longest + newest_bytes:
            tail = self.spelling(self.nodes[current].token) + tail
            current = self.nodes[current].parent
        return any(text in tail for text in self._stops)

    # Reading

    def account(self) -> Account:
        """Returns the current division of the probability."""
        covered = math.fsum(node.mass for node in self.nodes if node.kind in LEAVES)
        pruned = math.fsum(node.pruned for node in self.nodes if node.kind is Kind.INNER)
        unexpanded = math.fsum(node.mass for node in self.nodes if node.kind is Kind.FRONTIER)
        return Account(covered, pruned, unexpanded)

    def leaves(self) -> list[int]:
        """Returns the ids of all leaves, most probable first, of equal ones the oldest."""
        leaf_ids = [node_id for node_id, node in enumerate(self.nodes) if node.kind in LEAVES]
        return sorted(leaf_ids, key=lambda node_id: (-self.nodes[node_id].path_log_p, node_id))

    def tokens(self, node_id: int) -> list[int]:
        """Returns the tokens from the root to a node."""
        tokens = []
        while node_id != ROOT:
            tokens.append(self.nodes[node_id].token)
            node_id = self.nodes[node_id].parent
        return tokens[::-1]

    def text(self, node_id: int) -> bytes:
        """Returns the bytes of the path from the root to a node, without the stop text that ended it.

        They are not decoded here, because a character may straddle tokens.
        """
        data = b"".join(map(self.spelling, self.tokens(node_id)))
        if self.nodes[node_id].kind is Kind.ENDED:
            stop_offsets = [offset for text in self._stops if (offset := data.find(text)) >= 0]
            data = data[: min(stop_offsets)] if stop_offsets else data
        return data

    def path_of(self, tokens: Iterable[int]) -> list[int]:
        """Returns the ids of the nodes on the path of these tokens from the root, as far as it is in the tree."""
        path: list[int] = []
        for token in tokens:
            children = self.nodes[path[-1] if path else ROOT].children
            matching = [child for child in children if self.nodes[child].token == token]
            if not matching:
                break
            path.append(matching[0])
        return path


def _times_own_log(log_p: float) -> float:
    """Returns p ln p of a natural log-probability; 0 for one that is zero in double precision."""
    return math.exp(log_p) * max(log_p, MIN_LOG_PROB)


def frame_of(tree: Tree) -> dict[str, Any]:
    """Returns a tree as JSON values, which cross the pipe from the model process and are stored.

    The frame has `options` (see `options_frame`), `columns`, `spellings` (the bytes of each token, in hex, by token)
    and `stop_tokens`. The columns are named below; each has one value for each node, in the order of node ids.
    """
    nodes = tree.nodes
    tokens = {node.token for node in nodes[1:]}
    return {
        "options": options_frame(tree.options),
        "columns": {
            "parent": [node.parent for node in nodes],
            "token": [node.token for node in nodes],
            "log_p": [node.log_p for node in nodes],
            "kind": [int(node.kind) for node in nodes],
            "pruned": [node.pruned for node in nodes],
            "pruned_entropy": [node.pruned_entropy for node in nodes],
            "entropy": [node.entropy for node in nodes],
        },
        "spellings": {str(token): tree.spelling(token).hex() for token in sorted(tokens)},
        "stop_tokens": sorted(tree.stop_tokens),
    }


def restore(frame: Mapping[str, Any]) -> Tree:
    """Returns the tree of a frame; it can be read and measured, and grows no further."""
    spellings = {int(token): bytes.fromhex(text) for token, text in frame["spellings"].items()}
    tree = Tree(
        options_from(frame["options"]),
        frozenset(frame["stop_tokens"]),
        lambda token: spellings.get(token, b""),
    )
    columns = frame["columns"]
    nodes: list[Node] = []
    for node_id, parent in enumerate(columns["parent"]):
        parent_node = nodes[parent] if node_id else None
        log_p = columns["log_p"][node_id]
        nodes.append(
            Node(
                parent,
                columns["token"][node_id],
                log_p,
                parent_node.path_log_p + log_p if parent_node else 0.0,
                parent_node.depth + 1 if parent_node else 0,
                Kind(columns["kind"][node_id]),
                pruned=columns["pruned"][node_id],
                pruned_entropy=columns["pruned_entropy"][node_id],
                entropy=columns["entropy"][node_id],
            )
        )
        if parent_node:
            parent_node.children.append(node_id)
    tree.nodes = nodes
    return tree
