"""How fast trees grow beside two plain ways to grow them, measured next to the logits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from engine.model.interface import Logits, Span
from engine.model.llamacpp.model import LlamaModel
from engine.trees.growth import Grower, Job, distribution
from engine.trees.records import TreeOptions
from engine.trees.tree import ROOT, Tree
from tests.benchmarks.parts.highlevel import HighLevel
from tests.benchmarks.rounds import rounds

Report = Callable[[str], None]


PROMPTED = 3
"""Branches of each tree that are grown by a prompt of their own; each tells what the others cost."""


def time_trees(
    model: LlamaModel,
    texts: Sequence[str],
    options: TreeOptions,
    size: int,
    limit: float,
    report: Report,
) -> dict[str, Any]:
    """Grows the same trees in three ways, some of them by turns, until the time is used.

    Args:
        texts: The prompts, one a tree.
        size: Trees that are grown in a round.
        limit: Seconds for all rounds.

    Returns:
        `trees`, `nodes` and `leaves` of all trees, `median_leaves`, `prompt_tokens`, `seconds`; `sequential_seconds`
        (one sequence, a token a decode, what is common with the path or prompt before stays cached);
        `raw_decode_seconds` (the part of `seconds` inside the decoder); `reprompt_seconds` (through the high-level
        interface, for each branch a prompt, then token by token along its best continuation), reckoned from the means
        of `reprompted_branches` of the `branches`; `sequential_ratios` and `reprompt_ratios`, the time in these ways
        as a multiple of that of growing together, for each round; `largest_difference` of a node's probability
        between growing together and sequentially, which is the batch noise of the model; `differing_nodes`, in one
        tree only; `same_leaves`: whether there is none but those that the noise lifts over alpha.
    """
    prompts = [model.tokenize(text, start=True) for text in texts]
    groups = [prompts[at : at + size] for at in range(0, len(prompts), size)]
    together: list[Tree] = []
    apart: list[Tree] = []
    seconds, raw, sequential, reprompt = [], [], [], []
    prompted = 0
    plain = HighLevel(
        model.path, model.capacity.context, model.capacity.batch, model.options.threads
    )
    try:
        plain.prompt(prompts[0])  # the first call of a context is slower than all later ones
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
            apart += _one_by_one(model, group, options)
            sequential.append(time.perf_counter() - began)
            report(f"growing with a prompt for each branch, {of}")
            times = _Times()
            for prompt in group:
                _reprompted(plain, prompt, _tree(model, options), times)
            prompted += len(times.prompts)
            reprompt.append(sum(map(times.of_whole, trees)))
    finally:
        plain.close()
    leaves = sorted(len(tree.leaves()) for tree in together)
    same, differing, difference = _compared(together, apart)
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
        "reprompt_seconds": sum(reprompt),
        "reprompt_ratios": [a / b for a, b in zip(reprompt, seconds, strict=True)],
        "reprompted_branches": prompted,
        "branches": sum(_read(tree)[1] for tree in together),
        "same_leaves": same,
        "differing_nodes": differing,
        "largest_difference": difference,
    }


@dataclass(slots=True)
class _Times:
    """Seconds of each prompt and of each further token of some branches."""

    prompts: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def of_whole(self, tree: Tree) -> float:
        """The expected seconds of a tree with a prompt for each of its branches."""
        nodes, branches = _read(tree)
        step = statistics.fmean(self.steps) if self.steps else 0.0
        return branches * statistics.fmean(self.prompts) + (nodes - branches) * step


def _read(tree: Tree) -> tuple[int, int]:
    """Number of nodes whose distribution was read, and how many branches these make."""
    read = [node for node in tree.nodes if node.entropy is not None]
    ends = [node for node in read if all(tree.nodes[at].entropy is None for at in node.children)]
    return len(read), len(ends)


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


def _one_by_one(
    model: LlamaModel, prompts: Sequence[Sequence[int]], options: TreeOptions
) -> list[Tree]:
    """All trees in one sequence, prompts that begin alike after each other; the trees in the order of `prompts`."""
    trees = [_tree(model, options) for _ in prompts]
    model.clear()
    before: Sequence[int] = ()
    for index in sorted(range(len(prompts)), key=lambda index: list(prompts[index])):
        prompt = prompts[index]
        pairs = zip(before, prompt[:-1], strict=False)
        common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(before))
        _sequential(model, prompt, min(common, len(prompt) - 1), trees[index])
        before = prompt[:-1]
    return trees


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


def _reprompted(model: HighLevel, prompt: Sequence[int], tree: Tree, times: _Times) -> None:
    """The first branches, each by a prompt of its own, then along its most probable continuation."""
    branches = [ROOT]
    for _ in range(PROMPTED):
        if not branches:
            return
        node = branches.pop()
        began = time.perf_counter()
        row = model.prompt([*prompt, *tree.tokens(node)])
        times.prompts.append(time.perf_counter() - began)
        while children := tree.expand(node, distribution(row, tree.options.temperature)):
            branches.extend(children[1:])
            node = children[0]
            began = time.perf_counter()
            row = model.go_on([tree.nodes[node].token])
            times.steps.append(time.perf_counter() - began)


def _compared(trees: Sequence[Tree], others: Sequence[Tree]) -> tuple[bool, int, float]:
    """Whether nodes differ only where noise decides about alpha, how many do, and the noise."""
    differing = 0
    largest = highest = 0.0
    for tree, other in zip(trees, others, strict=True):
        ours, theirs = _masses(tree), _masses(other)
        both = ours.keys() & theirs.keys()
        largest = max([largest, *(abs(ours[path] - theirs[path]) for path in both)])
        lone = [*(ours.keys() - both), *(theirs.keys() - both)]
        differing += len(lone)
        highest = max([highest, *(ours.get(path, theirs.get(path, 0.0)) for path in lone)])
    alpha = trees[0].options.alpha
    return not differing or highest <= alpha + largest, differing, largest


def _masses(tree: Tree) -> dict[tuple[int, ...], float]:
    return {tuple(tree.tokens(at)): node.mass for at, node in enumerate(tree.nodes)}
