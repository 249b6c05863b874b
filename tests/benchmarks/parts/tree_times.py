"""How fast trees grow beside one sequence at a time, measured next to the logits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from engine.model.interface import Logits, Span
from engine.model.llamacpp.model import LlamaModel
from engine.trees.growth import Grower, Job, distribution
from engine.trees.records import TreeOptions
from engine.trees.tree import ROOT, Tree
from tests.benchmarks.rounds import rounds

Report = Callable[[str], None]


def time_trees(
    model: LlamaModel,
    texts: Sequence[str],
    options: TreeOptions,
    size: int,
    limit: float,
    report: Report,
) -> dict[str, Any]:
    """Grows the same trees in both ways, some of them by turns, until the time is used.

    Args:
        texts: The prompts, one a tree.
        size: Trees that are grown in a round.
        limit: Seconds for all rounds.

    Returns:
        `trees`, `nodes` and `leaves` of all trees, `median_leaves`, `prompt_tokens`, `seconds`; `sequential_seconds`
        (one sequence, a token a decode, what is common with the path or prompt before stays cached);
        `raw_decode_seconds` (the part of `seconds` inside the decoder); `sequential_ratios`, the time of one sequence
        as a multiple of that of growing together, for each round.
    """
    prompts = [model.tokenize(text, start=True) for text in texts]
    groups = [prompts[at : at + size] for at in range(0, len(prompts), size)]
    together: list[Tree] = []
    seconds, raw, sequential = [], [], []
    for number in rounds(len(groups), limit):
        group = groups[number]
        of = f"round {number + 1} of at most {len(groups)}"
        report(f"growing {len(group)} trees together, {of}")
        trees, took, decoding = _together(model, group, options)
        together += trees
        seconds.append(took)
        raw.append(decoding)
        report(f"growing one sequence at a time, {of}")
        began = time.perf_counter()
        _one_by_one(model, group, options)
        sequential.append(time.perf_counter() - began)
    leaves = sorted(len(tree.leaves()) for tree in together)
    return {
        "trees": len(together),
        "nodes": sum(len(tree.nodes) for tree in together),
        "leaves": sum(leaves),
        "median_leaves": leaves[len(leaves) // 2],
        "prompt_tokens": sum(map(len, prompts[: len(together)])),
        "seconds": sum(seconds),
        "raw_decode_seconds": sum(raw),
        "sequential_seconds": sum(sequential),
        "sequential_ratios": [a / b for a, b in zip(sequential, seconds, strict=True)],
    }


def _tree(model: LlamaModel, options: TreeOptions) -> Tree:
    return Tree(options, model.stop_tokens, model.token_bytes)


def _together(
    model: LlamaModel, prompts: Sequence[Sequence[int]], options: TreeOptions
) -> tuple[list[Tree], float, float]:
    trees = [_tree(model, options) for _ in prompts]
    jobs = [Job(tree, prompt) for tree, prompt in zip(trees, prompts, strict=True)]
    decode, decoding = model.decode, 0.0

    def timed_decode(spans: Sequence[Span]) -> Logits:
        nonlocal decoding
        began = time.perf_counter()
        rows = decode(spans)
        decoding += time.perf_counter() - began
        return rows

    with patch.object(model, "decode", timed_decode):
        began = time.perf_counter()
        Grower(model).grow(jobs)
        return trees, time.perf_counter() - began, decoding


def _one_by_one(model: LlamaModel, prompts: Sequence[Sequence[int]], options: TreeOptions) -> None:
    """Grows all trees in one sequence, prompts that begin alike after each other."""
    model.clear()
    before: Sequence[int] = ()
    for prompt in sorted(prompts, key=list):
        pairs = zip(before, prompt[:-1], strict=False)
        common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(before))
        _sequential(model, prompt, min(common, len(prompt) - 1), _tree(model, options))
        before = prompt[:-1]


def _sequential(model: LlamaModel, prompt: Sequence[int], cached: int, tree: Tree) -> None:
    """Depth first in one sequence that holds `cached` tokens of the prompt; going back drops what is not common."""
    size = model.capacity.batch
    model.drop(0, cached)
    for at in range(cached, len(prompt) - 1, size):
        model.decode([Span(prompt[at : min(at + size, len(prompt) - 1)], at, (0,))])
    stack = [ROOT]
    while stack:
        node = stack.pop()
        token = prompt[-1] if node == ROOT else tree.nodes[node].token
        at = len(prompt) - 1 + tree.nodes[node].depth
        model.drop(0, at)
        row = model.decode([Span((token,), at, (0,), (0,))])[0]
        stack.extend(reversed(tree.expand(node, distribution(row, tree.options.temperature))))
