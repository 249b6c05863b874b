"""Grows one part of a tree further, to a lower alpha."""

from __future__ import annotations

from engine.trees.tree import Tree


def lower_below(tree: Tree, alpha: float, below: int) -> None:
    """Lets a tree grow on to a lower alpha below one node.

    Nodes elsewhere that an earlier budget left unread wait no longer: the lower alpha is not theirs.
    """
    inside = {below}
    for at in range(below + 1, len(tree.nodes)):
        if tree.nodes[at].parent in inside:
            inside.add(at)
    waiting = iter(tree.take, None)
    for at in [at for at in waiting if at in inside]:
        tree.give_back(at)
    tree.lower(alpha, below)
