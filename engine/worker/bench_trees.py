"""How fast trees grow beside two plain ways to grow them, measured next to the logits. Runs in the model process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.model.interface import Span
from engine.model.llamacpp import LlamaModel
from engine.model.llamacpp.highlevel import HighLevel
from engine.trees.growth import Grower
from engine.trees.roster import Job
from engine.trees.tree import ROOT, Tree, TreeOptions
from engine.worker.requests import BenchTrees

Report = Callable[[str], None]


def bench_trees(model: LlamaModel, request: BenchTrees, report: Report) -> dict[str, Any]:
    """Grows the same trees in three ways.

    Args:
        request: `reprompted` is how many of the prompts the slow way gets.

    Returns:
        `nodes` and `leaves` of all trees, `median_leaves`, `prompt_tokens`, `seconds`; `sequential_seconds` (one
        sequence, a token a decode, what is common with the path or prompt before stays cached) for the same trees;
        `raw_decode_seconds` (the part of `seconds` inside the decoder); `reprompt_seconds` (through the high-level
        interface, for each branch a prompt, then token by token along its best continuation) and `subset_seconds`
        (grown together as above) for the first `reprompted` prompts; `largest_difference` of a node's probability
        between growing together and sequentially, which is the batch noise of the model; `differing_nodes`, in one
        tree only; `same_leaves`: whether there is none but those that the noise lifts over alpha.
    """
    options = request.options
    prompts = [model.tokenize(text, start=True) for text in request.prompts]
    report("growing together")
    together, seconds, raw = _together(model, prompts, options)
    report("growing one sequence at a time")
    began = time.perf_counter()
    apart = _one_by_one(model, prompts, options)
    sequential = time.perf_counter() - began
    some = prompts[: request.reprompted]
    report("growing the first ones together")
    _, subset, _ = _together(model, some, options)
    report("growing with a prompt for each branch")
    plain = HighLevel(
        model.path, model.capacity.context, model.capacity.batch, model.options.threads
    )
    try:
        plain.prompt(some[0])  # the first call of a context is slower than all later ones
        began = time.perf_counter()
        for prompt in some:
            _reprompted(plain, prompt, _tree(model, options))
        reprompt = time.perf_counter() - began
    finally:
        plain.close()
    leaves = sorted(len(tree.leaves()) for tree in together)
    same, differing, difference = _compared(together, apart)
    return {
        "nodes": sum(len(tree.nodes) for tree in together),
        "leaves": sum(leaves),
        "median_leaves": leaves[len(leaves) // 2],
        "prompt_tokens": sum(map(len, prompts)),
        "seconds": seconds,
        "raw_decode_seconds": raw,
        "sequential_seconds": sequential,
        "reprompt_seconds": reprompt,
        "subset_seconds": subset,
        "same_leaves": same,
        "differing_nodes": differing,
        "largest_difference": difference,
    }


def _tree(model: LlamaModel, options: TreeOptions) -> Tree:
    return Tree(options, model.stop_tokens, model.token_bytes)


def _together(
    model: LlamaModel, prompts: Sequence[Sequence[int]], options: TreeOptions
) -> tuple[list[Tree], float, float]:
    trees = [_tree(model, options) for _ in prompts]
    jobs = [Job(tree, prompt) for tree, prompt in zip(trees, prompts, strict=True)]
    work = Grower(model).grow(jobs)
    return trees, work.seconds, work.model_seconds


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
    transform, size = tree.options.transform, model.capacity.batch
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
        stack.extend(reversed(tree.expand(node, transform.apply(row))))


def _reprompted(model: HighLevel, prompt: Sequence[int], tree: Tree) -> None:
    """Each branch by a prompt of its own, then along its most probable continuation."""
    transform = tree.options.transform
    branches = [ROOT]
    while branches:
        node = branches.pop()
        row = model.prompt([*prompt, *tree.tokens(node)])
        while True:
            children = tree.expand(node, transform.apply(row))
            if not children:
                break
            branches.extend(children[1:])
            node = children[0]
            row = model.go_on([tree.nodes[node].token])


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
