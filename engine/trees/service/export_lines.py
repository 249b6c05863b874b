"""Trees as lines of an export, for `export trees` and `tree --json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.trees.meaning import Meanings
from engine.trees.measures import Answer, answers
from engine.trees.record import TreeRecord, restore
from engine.trees.records import TreeRow
from engine.trees.tree import Tree


def tree_line(name: str, row: TreeRow, tree: Tree | None) -> dict[str, Any]:
    """Returns one tree with its measures and answers as JSON values; without a tree, `reason` says why."""
    fork = None
    if row.fork_depth is not None:
        fork = {"depth": row.fork_depth, "entropy": row.fork_entropy}
    return {
        "id": name,
        "step": row.step,
        "reason": row.reason,
        "alpha": row.alpha,
        "mode": row.mode,
        "leaves": row.leaves,
        "max_logprob": row.max_log_prob,
        "covered": row.covered,
        "pruned": row.pruned,
        "unexpanded": row.unexpanded,
        "nodes": row.nodes,
        "entropy_low": row.entropy_low,
        "entropy_high": row.entropy_high,
        "first_fork": fork,
        "answer_logprob": row.answer_log_prob,
        "answer_tokens": row.answer_tokens,
        "answer_held": row.answer_held,
        "seconds": row.seconds,
        "answers": [] if tree is None else _answers(tree),
    }


def stored_tree_line(name: str, row: TreeRow, frame: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns `tree_line` for a stored tree; `frame` is None when there is no tree."""
    return tree_line(name, row, None if frame is None else restore(TreeRecord.from_frame(frame)))


def meanings_line(
    answers: Sequence[Answer], found: Meanings, threshold: float, by: str
) -> dict[str, Any]:
    """Returns the answers grouped by meaning as JSON values: texts by group, and the entropies in bits."""
    return {
        "threshold": threshold,
        "by": by,
        "entropy": found.entropy,
        "entropy_low": found.entropy_low,
        "entropy_high": found.entropy_high,
        "groups": [
            {"probability": group.probability, "texts": [answers[at].text for at in group.answers]}
            for group in found.groups
        ],
    }


def _answers(tree: Tree) -> list[dict[str, Any]]:
    return [
        {
            "text": answer.text,
            "logprob": math.log(answer.probability),
            "probability": answer.probability,
            "end": answer.end.name.lower(),
        }
        for answer in answers(tree)
    ]
