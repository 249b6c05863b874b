"""A tree as columns of JSON values, for the pipe to the model process and for the project file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.trees.tree import LEAVES, Kind, Node, Transform, Tree, TreeOptions


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """A tree as columns: one value for each node in order of ids, and the bytes of its tokens.

    Attributes:
        columns: `parent`, `token`, `log_p`, `kind`, `pruned`, `pruned_entropy`, `entropy` (None where it was not
            read), `reserve` (lists of [token, log_p]) and `complete_to` (None is infinite), each with one value for
            each node.
        spellings: Bytes of each token, in hex.
        stop_tokens: Tokens that end a response.
    """

    options: Mapping[str, Any]
    columns: Mapping[str, list[Any]]
    spellings: Mapping[str, str]
    stop_tokens: tuple[int, ...]

    def as_frame(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "options": dict(self.options),
            "columns": dict(self.columns),
            "spellings": dict(self.spellings),
            "stop_tokens": list(self.stop_tokens),
        }

    @classmethod
    def from_frame(cls, frame: Mapping[str, Any]) -> TreeRecord:
        """The inverse of `as_frame`."""
        return cls(
            frame["options"], frame["columns"], frame["spellings"], tuple(frame["stop_tokens"])
        )


def options_frame(options: TreeOptions) -> dict[str, Any]:
    """The options as JSON values."""
    transform = options.transform
    # Left out at its default, so that the keys of trees that were stored before this option stay the same.
    widest = {"widest": options.widest} if options.widest else {}
    return {
        "alpha": options.alpha,
        "mode": options.mode,
        "max_tokens": options.max_tokens,
        "stop": list(options.stop),
        "transform": {name: getattr(transform, name) for name in Transform.__slots__},
        **widest,
    }


def options_from(frame: Mapping[str, Any]) -> TreeOptions:
    """The inverse of `options_frame`."""
    transform = Transform(**frame["transform"])
    return TreeOptions(**{**frame, "stop": tuple(frame["stop"]), "transform": transform})


def record(tree: Tree) -> TreeRecord:
    """The columns of a tree."""
    nodes = tree.nodes
    tokens = {n.token for n in nodes[1:]} | {token for n in nodes for token, _ in n.reserve}
    return TreeRecord(
        options_frame(tree.options),
        {
            "parent": [n.parent for n in nodes],
            "token": [n.token for n in nodes],
            "log_p": [n.log_p for n in nodes],
            "kind": [int(n.kind) for n in nodes],
            "pruned": [n.pruned for n in nodes],
            "pruned_entropy": [n.pruned_entropy for n in nodes],
            "entropy": [n.entropy for n in nodes],
            "reserve": [[[token, log_p] for token, log_p in n.reserve] for n in nodes],
            "complete_to": [None if math.isinf(n.complete_to) else n.complete_to for n in nodes],
        },
        {str(token): tree.spelling(token).hex() for token in sorted(tokens)},
        tuple(sorted(tree.stop_tokens)),
    )


def leaf_log_probs(columns: Mapping[str, list[Any]]) -> list[float]:
    """Natural log-probabilities of the paths to a recorded tree's leaves, in order of their ids."""
    paths: list[float] = []
    for at, parent in enumerate(columns["parent"]):
        paths.append(paths[parent] + columns["log_p"][at] if at else 0.0)
    return [path for path, kind in zip(paths, columns["kind"], strict=True) if kind in LEAVES]


def restore(kept: TreeRecord) -> Tree:
    """The tree that was recorded; it can be read, measured and grown further."""
    spellings = {int(token): bytes.fromhex(text) for token, text in kept.spellings.items()}
    tree = Tree(
        options_from(kept.options),
        frozenset(kept.stop_tokens),
        lambda token: spellings.get(token, b""),
    )
    columns = kept.columns
    nodes: list[Node] = []
    for at, parent in enumerate(columns["parent"]):
        above = nodes[parent] if at else None
        log_p = columns["log_p"][at]
        far = columns["complete_to"][at]
        nodes.append(
            Node(
                parent,
                columns["token"][at],
                log_p,
                above.path + log_p if above else 0.0,
                above.depth + 1 if above else 0,
                Kind(columns["kind"][at]),
                pruned=columns["pruned"][at],
                pruned_entropy=columns["pruned_entropy"][at],
                entropy=columns["entropy"][at],
                reserve=[(token, value) for token, value in columns["reserve"][at]],
                complete_to=math.inf if far is None else far,
            )
        )
        if above:
            above.children.append(at)
    tree.put(nodes)
    return tree
