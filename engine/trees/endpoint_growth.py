"""Grows response trees over HTTP: the most probable frontier nodes of all trees are expanded with parallel requests.

The choice of nodes depends on the trees alone, so neither speed nor number of endpoints changes a tree. Tokens that an
endpoint does not list are pruned mass. A node without any listed token is not expanded; its mass stays unexpanded.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.base.errors import Cancelled, RequestRefused, UsageError
from engine.model.endpoints.capabilities import Capabilities, no_tree
from engine.model.endpoints.dialects import Step, text_of, without_controls
from engine.model.endpoints.log_probs import RawPrompt, Reader
from engine.model.endpoints.model import EndpointHandlers, EndpointModel
from engine.model.log_windows import MIN_LOG_TOKENS, log_tokens
from engine.trees.growth import MAX_ANSWER_TOKENS, Budget, Work
from engine.trees.model_requests import Grow, GrownTree, GrowOn, Place
from engine.trees.options import Transform, TreeOptions
from engine.trees.tree import Tree, lower_below, record, restore

NODES_AT_ONCE = 64
"""Number of nodes expanded at the same time."""

MAX_VOCABULARY = 1 << 18
"""Upper bound of the vocabulary size, for bounds of entropies; no model in use has more tokens."""


def refuse_trees(model: EndpointModel, options: TreeOptions) -> None:
    """Raises UsageError if response trees cannot be grown with these options."""
    model.refuse("response trees", no_tree(model.can))
    options_for(model.can, options)


def options_for(can: Capabilities, options: TreeOptions) -> TreeOptions:
    """Returns the options that an endpoint can follow: no node gets more children than it lists.

    Raises:
        UsageError: The sampler cannot be followed exactly where only the most probable tokens are listed.
    """
    if options.transform != Transform() and not 0 < options.transform.top_k <= can.top:
        raise UsageError(
            f"The endpoint lists {can.top} tokens, which is not enough to follow this sampler exactly.",
            f"Grow the tree with a top-k of at most {can.top}, or without a sampler.",
        )
    return replace(options, widest=min(options.widest or can.top, can.top))


class Spellings:
    """Maps token ids to bytes and back; gives ids to tokens that an endpoint names only by their text."""

    def __init__(self, known: dict[int, bytes]) -> None:
        self._known = known
        self._numbers = {text: number for number, text in known.items()}

    def bytes_of(self, token: int) -> bytes:
        """Returns the bytes of a token; nothing for an unknown one."""
        return self._known.get(token, b"")

    def add(self, token: int, text: bytes) -> None:
        """Notes the bytes of a token."""
        self._known[token] = text

    def without_bytes(self, tokens: Sequence[int]) -> list[int]:
        """Returns those whose bytes are not known yet."""
        return [token for token in tokens if token not in self._known]

    def id_of(self, text: bytes) -> int:
        """Returns the id of a text, a new one where it has none."""
        if text not in self._numbers:
            self._numbers[text] = number = len(self._numbers)
            self._known[number] = text
        return self._numbers[text]


@dataclass(slots=True)
class EndpointTree:
    """One tree while it grows, and what was recorded at its place."""

    tree: Tree
    prompt: RawPrompt
    spellings: Spellings
    note: str | None = None
    answer: tuple[int, ...] = ()
    answer_log_probs: tuple[float, ...] = ()
    prompt_tokens: int = 0


async def begin(
    reader: Reader,
    place: Place,
    tree: Callable[[Spellings], Tree],
    spellings_known: dict[int, bytes],
    context: int,
) -> EndpointTree:
    """Returns a tree that can grow, after tokenizing the log before its place.

    Args:
        tree: Makes the tree, or restores it.
        spellings_known: Spellings that are known from before.
        context: Longest sequence in tokens.

    Raises:
        RequestRefused: The log cannot be read by this endpoint.
    """
    can, notes, texts = reader.can, [], list(place.texts)
    if can.controls:
        cleaned = [without_controls(text) for text in texts]
        texts, broken_count = [text for text, _ in cleaned], sum(count for _, count in cleaned)
        notes = [f"{broken_count} control tokens broken up"] if broken_count else []
    spellings = Spellings(spellings_known)
    grown = EndpointTree(tree(spellings), RawPrompt("".join(texts), ()), spellings)
    if can.tokens:
        await _tokenize_prompt(reader, grown, place, texts, context, notes)
    grown.note = ", ".join(notes) or None
    return grown


async def _tokenize_prompt(
    reader: Reader,
    grown: EndpointTree,
    place: Place,
    texts: Sequence[str],
    context: int,
    notes: list[str],
) -> None:
    """Puts the tokens of the log into the prompt of a tree, and the log-probabilities of the recorded answer where the
    endpoint gives them."""
    frame = await reader.tokenizer.learn_prompt(None)
    await reader.tokenizer.learn_log([*texts, place.answer])
    recorded = reader.tokenizer.tokenize(place.answer)
    token_room = context - len(frame.head) - max(grown.tree.options.max_tokens, len(recorded))
    token_room = max(token_room, context // 2, MIN_LOG_TOKENS)
    tokens, note = log_tokens(reader.tokenizer, texts, place.pinned_pieces, token_room)
    if note and not reader.can.ids:
        raise RequestRefused(
            "it is longer than the context, and this endpoint takes whole texts only"
        )
    notes += [note] if note else []
    ids = (*frame.head, *tokens)
    grown.prompt = replace(grown.prompt, ids=ids)
    grown.prompt_tokens = len(ids)
    if not (reader.can.ids and reader.can.named):
        return  # tokens have numbers of our own here, so those of the recorded answer say nothing
    grown.answer = tuple(recorded)
    if reader.can.echo and recorded:
        answer_start = tuple(recorded[:MAX_ANSWER_TOKENS])
        steps = await reader.read_prompt(RawPrompt("", (*ids, *answer_start)))
        grown.answer_log_probs = tuple(
            step.chosen.log_p for step in steps[len(ids) :] if step.chosen is not None
        )


async def grow(
    reader: Reader, jobs: Sequence[EndpointTree], budget: Budget, progress: Callable[[int], None]
) -> Work:
    """Grows trees until none has a node to read or the budget is used up; returns what was read.

    Args:
        progress: Gets the nodes read in this call.

    Raises:
        RequestRefused: The endpoint refuses a path.
        ModelError: No endpoint is left.
    """
    start = time.perf_counter()
    nodes_read = 0
    finished = False
    while True:
        out_of_time = budget.seconds is not None and time.perf_counter() - start >= budget.seconds
        max_nodes = (
            NODES_AT_ONCE if budget.nodes is None else min(NODES_AT_ONCE, budget.nodes - nodes_read)
        )
        if out_of_time or max_nodes <= 0:
            break
        job_nodes = _take_most_probable(jobs, max_nodes)
        if not job_nodes:
            finished = True
            break
        try:
            steps = await asyncio.gather(
                *(reader.top_after(_path(job, node)) for job, node in job_nodes)
            )
            await _spell(reader, [job for job, _ in job_nodes], steps)
        except BaseException:
            for job, node in job_nodes:
                job.tree.give_back(node)
            raise
        for (job, node), step in zip(job_nodes, steps, strict=True):
            _expand(job, node, step)
        nodes_read += len(job_nodes)
        progress(nodes_read)
    return Work(nodes_read, nodes_read, time.perf_counter() - start, 0.0, finished)


def _take_most_probable(
    jobs: Sequence[EndpointTree], max_nodes: int
) -> list[tuple[EndpointTree, int]]:
    """Returns the most probable waiting nodes of all trees, of equal ones those of the first tree."""
    job_nodes: list[tuple[EndpointTree, int]] = []
    while len(job_nodes) < max_nodes:
        waiting = [
            (path, -index)
            for index, job in enumerate(jobs)
            if (path := job.tree.next_path) is not None
        ]
        if not waiting:
            break
        job = jobs[-max(waiting)[1]]
        node = job.tree.take()
        assert node is not None  # next_path has found a waiting node
        job_nodes.append((job, node))
    return job_nodes


def _path(job: EndpointTree, node: int) -> RawPrompt:
    """Returns the prompt with the tokens and the text from the root to a node."""
    tokens = job.tree.tokens(node)
    text = b"".join(map(job.spellings.bytes_of, tokens)).decode("utf-8", "replace")
    return RawPrompt(job.prompt.text + text, (*job.prompt.ids, *tokens))


async def _spell(
    reader: Reader, jobs: Sequence[EndpointTree], steps: Sequence[Step | None]
) -> None:
    """Asks for the texts of tokens that the endpoint names by their ids alone."""
    for job, step in zip(jobs, steps, strict=True):
        if step is None:
            continue
        for candidate in step.top:
            if candidate.token is not None and candidate.text is not None:
                job.spellings.add(candidate.token, candidate.text)
        unspelled = job.spellings.without_bytes(
            [candidate.token for candidate in step.top if candidate.token is not None]
        )
        end_tokens = [token for token in unspelled if token in job.tree.stop_tokens]
        for token in end_tokens:
            job.spellings.add(token, b"")
        text_tokens = [token for token in unspelled if token not in job.tree.stop_tokens]
        texts = await asyncio.gather(
            *(text_of(reader.ask, reader.can.tokens, [token]) for token in text_tokens)
        )
        for token, text in zip(text_tokens, texts, strict=True):
            job.spellings.add(token, text.encode())


def _expand(job: EndpointTree, node: int, step: Step | None) -> None:
    """Adds the children that an endpoint listed to a node; leaves it unread where a listed token may hide a child."""
    if step is None:
        return
    log_probs: dict[int, float] = {}
    for candidate in step.top:
        if candidate.token is not None:
            log_probs[candidate.token] = candidate.log_p
        elif candidate.text and b"\xef\xbf\xbd" not in candidate.text:
            # An empty or broken text may be any of several tokens, so their mass is pruned.
            log_probs[job.spellings.id_of(candidate.text)] = candidate.log_p
    transform = job.tree.options.transform
    if transform.top_k:
        if len(log_probs) < len(step.top):
            return  # which tokens the sampler keeps is unknown
        values = transform.apply(np.array(list(log_probs.values()), dtype=np.float32))
        sampled = [
            (token, float(v)) for token, v in zip(log_probs, values, strict=True) if v > -np.inf
        ]
        job.tree.expand_listed(node, sampled, len(sampled))
    elif log_probs and not _might_hide_a_child(job.tree, node, step, log_probs):
        job.tree.expand_listed(node, list(log_probs.items()), MAX_VOCABULARY)


def _might_hide_a_child(tree: Tree, node: int, step: Step, log_probs: dict[int, float]) -> bool:
    """Returns whether a node would be a leaf only because an unidentified token may be a child of it."""
    if len(log_probs) == len(step.top):
        return False
    mass = tree.nodes[node].mass
    hidden_mass = 1.0 - math.fsum(map(math.exp, log_probs.values()))
    best_probability = math.exp(max(log_probs.values()))
    by_path = tree.options.mode == "path"
    return by_path and mass * best_probability < tree.options.alpha <= mass * hidden_mass


def _grow(
    model: EndpointModel, request: Grow, report: Callable[[int], None]
) -> tuple[list[GrownTree], Work]:
    """Returns the trees that a request asks for and the work that they took. Children that the endpoint does not list
    are pruned mass."""
    refuse_trees(model, request.options)
    options = options_for(model.can, request.options)
    # Where tokens have numbers of our own, none of them is the end token.
    end_token = model.can.end_token if model.can.named else None
    stops = frozenset() if end_token is None else frozenset({end_token})

    async def work() -> tuple[list[EndpointTree], Work]:
        reader = model.reader()
        jobs = [
            await begin(
                reader, place, lambda known: Tree(options, stops, known.bytes_of), {}, model.context
            )
            for place in request.places
        ]
        return jobs, await grow(reader, jobs, request.budget, report)

    jobs, work_done = model.run(work)
    return [_grown(job) for job in jobs], work_done


def _grow_on(
    model: EndpointModel, request: GrowOn, report: Callable[[int], None]
) -> tuple[GrownTree, Work]:
    """Returns a stored tree after it has grown further, and the work that it took; the tree so far if it was
    cancelled."""
    stored = request.tree
    refuse_trees(model, restore(stored).options)
    jobs: list[EndpointTree] = []
    nodes_read = 0

    def restore_tree(known: Spellings) -> Tree:
        """Returns the stored tree with its spellings, ready to grow on where the request says."""
        tree = restore(stored)
        tree.spelling = known.bytes_of
        if request.below is not None and request.alpha is not None:
            lower_below(tree, request.alpha, request.below)
        return tree

    def report_nodes(nodes: int) -> None:
        """Notes and reports the nodes read."""
        nonlocal nodes_read
        nodes_read = nodes
        report(nodes)

    async def work() -> Work:
        reader = model.reader()
        known_spellings = {
            int(token): bytes.fromhex(text) for token, text in stored.spellings.items()
        }
        place_without_answer = replace(request.place, answer="")
        jobs.append(
            await begin(reader, place_without_answer, restore_tree, known_spellings, model.context)
        )
        return await grow(reader, jobs, request.budget, report_nodes)

    try:
        work_done = model.run(work)
    except Cancelled:
        if not jobs:
            raise
        work_done = Work(nodes_read, nodes_read, 0.0, 0.0, False)
    return _grown(jobs[0]), work_done


def _grown(job: EndpointTree) -> GrownTree:
    """Returns a tree as it is handed to the caller."""
    return GrownTree(
        record(job.tree), job.answer, job.answer_log_probs, job.prompt_tokens, job.note
    )


ENDPOINT_HANDLERS: EndpointHandlers = {Grow: _grow, GrowOn: _grow_on}
"""Answers to the requests for trees, over endpoints."""
