"""The tree of a toy model by plain recursion over its whole vocabulary, without code of the real one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.model.interface import log_probs
from engine.trees.tree import Kind
from tests.engine.model.toy import VOCABULARY, next_logits

STOPS = frozenset({0, 257})


@dataclass
class Enumerated:
    """Leaves as (tokens, kind) -> probability, and the pruned mass."""

    leaves: dict[tuple[tuple[int, ...], Kind], float] = field(default_factory=dict)
    pruned: float = 0.0


def enumerate_paths(prompt: Sequence[int], alpha: float, longest: int) -> Enumerated:
    """Mode `path`: every node whose path probability reaches alpha, to a depth of `longest`."""
    found = Enumerated()

    def visit(tokens: tuple[int, ...], mass: float) -> None:
        if tokens and tokens[-1] in STOPS:
            found.leaves[tokens, Kind.ENDED] = mass
            return
        if len(tokens) >= longest:
            found.leaves[tokens, Kind.LONG] = mass
            return
        values = log_probs(next_logits([*prompt, *tokens]), range(VOCABULARY))
        masses = [mass * math.exp(value) for value in values]
        kept = [token for token, mass in enumerate(masses) if mass >= alpha]
        if not kept:
            found.leaves[tokens, Kind.CUT] = mass
            return
        found.pruned += math.fsum(m for token, m in enumerate(masses) if token not in kept)
        for token in kept:
            visit((*tokens, token), masses[token])

    visit((), 1.0)
    return found
