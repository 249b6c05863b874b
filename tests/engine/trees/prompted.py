"""The tree of a real model by plain recursion, each node with a prompt of its own through `Llama` of
llama-cpp-python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from engine.trees.records import TreeOptions
from engine.trees.tree import Kind

Path = tuple[int, ...]


@dataclass
class PromptedTree:
    """Leaves by tokens and kind, all nodes by tokens, each with its probability; the pruned mass."""

    leaves: dict[tuple[Path, Kind], float] = field(default_factory=dict)
    nodes: dict[Path, float] = field(default_factory=dict)
    pruned: float = 0.0


def grow_by_prompts(
    llama: llama_cpp.Llama,
    prompt: Sequence[int],
    options: TreeOptions,
    ends: Callable[[int], bool],
    spelling: Callable[[int], bytes],
) -> PromptedTree:
    """Grows a tree by alpha, mode, length and stop texts of the options; samples nothing."""
    found = PromptedTree()
    stops = [text.encode() for text in options.stop]

    def children(tokens: Path, mass: float) -> tuple[list[int], NDArray[np.float64]]:
        llama.reset()
        llama.eval([*prompt, *tokens])
        row = np.array(llama.scores[len(prompt) + len(tokens) - 1], dtype=np.float64)
        odds = np.exp(row - row.max())
        odds /= odds.sum()
        if options.mode == "path":
            return [int(token) for token in np.flatnonzero(mass * odds >= options.alpha)], odds
        others = set(np.flatnonzero(odds >= options.alpha)) | {odds.argmax()}
        return [int(token) for token in others], odds

    def visit(tokens: Path, mass: float) -> None:
        found.nodes[tokens] = mass
        text = b"".join(map(spelling, tokens))
        if tokens and (ends(tokens[-1]) or any(stop in text for stop in stops)):
            found.leaves[tokens, Kind.ENDED] = mass
        elif len(tokens) == options.max_tokens:
            found.leaves[tokens, Kind.LONG] = mass
        else:
            kept, odds = children(tokens, mass)
            if not kept:
                found.leaves[tokens, Kind.CUT] = mass
                return
            found.pruned += mass * (1 - math.fsum(odds[kept]))
            for token in kept:
                visit((*tokens, token), mass * float(odds[token]))

    visit((), 1.0)
    return found
