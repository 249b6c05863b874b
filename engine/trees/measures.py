"""Measures of a tree that grow or fall with the model's uncertainty about its response.

Leaves and the best log-probability are measures of Soroka et al., "Unsupervised Evaluation of Multi-Turn
Objective-Driven Interactions"; the entropies are this program's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.trees.tree import LEAVES, ROOT, Kind, Node, Tree


@dataclass(frozen=True, slots=True)
class Answer:
    """Leaves of equal text.

    Attributes:
        text: As read, without the stop text; bytes that are no UTF-8 are replaced.
        probability: Sum over its leaves.
        leaves: Node ids, most probable first.
        end: Kind of the most probable leaf.
    """

    text: str
    probability: float
    leaves: tuple[int, ...]
    end: Kind


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one tree.

    Attributes:
        leaves: Number of leaves, a measure of Soroka et al.
        answers: Number of distinct texts of leaves.
        max_log_prob: Natural log-probability of the most probable leaf, their other measure; None without a leaf.
        max_log_prob_per_token: The same divided by the leaf's tokens.
        covered, pruned, unexpanded: Probability masses, as in `Account`; they sum to 1.
        entropy_low: Lower bound, in bits, of the entropy over responses: each leaf is one outcome, all other mass one.
        entropy_high: Entropy in bits when each leaf, each pruned child and each unread node is one outcome. It leaves
            out the entropy of what follows a cut or long leaf or a pruned child, so it is no upper bound.
        fork_depth, fork_entropy: Number of tokens before the first node with several children, and the bits of the
            model's distribution there, over the whole vocabulary; None when the tree has one branch.
    """

    leaves: int
    answers: int
    max_log_prob: float | None
    max_log_prob_per_token: float | None
    covered: float
    pruned: float
    unexpanded: float
    entropy_low: float
    entropy_high: float
    fork_depth: int | None
    fork_entropy: float | None


def measure(tree: Tree) -> Measures:
    """Returns all measures of a tree, which may be unfinished."""
    account = tree.account()
    leaves = tree.leaves()
    best = tree.nodes[leaves[0]] if leaves else None
    masses = [tree.nodes[leaf].mass for leaf in leaves]
    leaf_entropy = math.fsum(map(bits, masses))
    pruned = math.fsum(node.pruned_entropy for node in tree.nodes if node.kind is Kind.INNER)
    frontier = math.fsum(bits(node.mass) for node in tree.nodes if node.kind is Kind.FRONTIER)
    fork = first_fork(tree)
    return Measures(
        leaves=len(leaves),
        answers=len(answers(tree)),
        max_log_prob=best.path_log_p if best else None,
        max_log_prob_per_token=best.path_log_p / max(1, best.depth) if best else None,
        covered=account.covered,
        pruned=account.pruned,
        unexpanded=account.unexpanded,
        entropy_low=leaf_entropy + bits(account.pruned + account.unexpanded),
        entropy_high=leaf_entropy + pruned + frontier,
        fork_depth=fork.depth if fork else None,
        fork_entropy=fork.entropy if fork else None,
    )


def first_fork(tree: Tree) -> Node | None:
    """Returns the first node with several children on the way down from the root; None when the tree has one branch.

    Up to there each node has one child, so the way is the only one.
    """
    node_id = ROOT
    while True:
        node = tree.nodes[node_id]
        if len(node.children) > 1 and node.entropy is not None:
            return node
        if not node.children:
            return None
        node_id = node.children[0]


def answers(tree: Tree) -> list[Answer]:
    """Returns the leaves of equal text as one answer each, since different tokens may spell the same; most probable
    first."""
    merged: dict[str, list[int]] = {}
    for leaf in tree.leaves():
        merged.setdefault(tree.text(leaf).decode("utf-8", "replace"), []).append(leaf)
    answer_list = [
        Answer(
            text=text,
            probability=math.fsum(tree.nodes[leaf].mass for leaf in ids),
            leaves=tuple(ids),
            end=tree.nodes[ids[0]].kind,
        )
        for text, ids in merged.items()
    ]
    return sorted(answer_list, key=lambda answer: (-answer.probability, answer.leaves))


def subtree_mass(tree: Tree) -> list[float]:
    """Returns for each node the probability of the leaves at or below it."""
    masses = [node.mass if node.kind in LEAVES else 0.0 for node in tree.nodes]
    # From the last node to the first: a child has a higher id than its parent, so its sum is complete.
    for node_id in range(len(tree.nodes) - 1, ROOT, -1):
        masses[tree.nodes[node_id].parent] += masses[node_id]
    return masses


def bits(mass: float) -> float:
    """Returns the term of one outcome in an entropy in bits: -p log2 p."""
    return -mass * math.log2(mass) if mass > 0 else 0.0
