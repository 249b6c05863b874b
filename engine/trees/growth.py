"""Grows many trees on one model: batches nodes into decodes and assigns KV cache sequences to their paths.

The prompt of a tree is on one sequence, its trunk; a path forks it and shares its cells. A node that has been read
leaves its sequence to its most probable child and forks it for the others. When sequences run out, the least probable
waiting path loses its own, and is decoded again from the prompt when its turn comes. The common prefix of prompts, such
as a shared system message or the log before several places of one conversation, is decoded once.

`Grower` decides what each decode reads; `Roster` decides which trees grow, and gives out the sequences.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.interface import Logits, LogProbs, Span, TokenModel, log_probs
from engine.model.prompt_files import sharable_length
from engine.trees.tree import Tree

NODES_PER_DECODE = 32
"""Number of nodes that are read in one decode; more rows cost more than they gain on a processor."""

MAX_ANSWER_TOKENS = 256
"""Number of tokens of the recorded answer that are scored, from its first."""

MAX_PROMPT_CELLS = 1536
"""Most tokens of the prompts of trees that grow at once, unless one prompt alone is longer. Every decode attends over
all occupied cells, so more would slow it."""

MIN_SHARED_TOKENS = 16
"""Least length in tokens of a common prefix for a prompt to reuse another's cells."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one call of `grow`, over all its trees.

    Attributes:
        nodes: Most nodes that are read; None for no limit.
        seconds: Seconds after which no further decode begins; None for no limit.
    """

    nodes: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Job:
    """One tree to grow.

    Attributes:
        tree: The tree, of which nothing is read yet.
        prompt: Tokens before the root; at least one.
        answer: Tokens of the recorded answer, scored on the same pass; may be empty.
        answer_log_probs: Natural log-probabilities of the answer's tokens, untransformed, filled while growing.
    """

    tree: Tree
    prompt: Sequence[int]
    answer: Sequence[int] = ()
    answer_log_probs: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class GrowingTree:
    """A tree while it grows.

    Attributes:
        job: What is to grow.
        trunk: Sequence that holds the prompt without its last token, which every new path decodes itself.
        decoded: Number of tokens in the trunk.
        origin: The tree whose cells the first `shared` tokens of this prompt use; None if it uses none of another tree.
        shared: Number of those tokens.
        sequence_by_node: Node id -> sequence that holds the path before the token of that waiting node.
    """

    job: Job
    trunk: int
    decoded: int = 0
    origin: GrowingTree | None = None
    shared: int = 0
    sequence_by_node: dict[int, int] = field(default_factory=dict)

    @property
    def base(self) -> int:
        """Position of the prompt's last token; a node of depth d is at base + d."""
        return len(self.job.prompt) - 1

    @property
    def is_prefilled(self) -> bool:
        """Whether the trunk holds the whole prompt but its last token."""
        return self.decoded == self.base

    @property
    def is_done(self) -> bool:
        """Whether nothing of the tree or of its recorded answer waits to be read."""
        job = self.job
        is_answer_read = bool(job.answer_log_probs) or not job.answer
        return self.is_prefilled and is_answer_read and job.tree.next_path is None


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the rows of logits of one span are for: the distribution after a node, or the recorded answer.

    Attributes:
        growing: The tree.
        sequence: The sequence that the span is decoded on.
        node: Id of the node whose distribution is read; None for the recorded answer.
        rows: Number of rows.
    """

    growing: GrowingTree
    sequence: int
    node: int | None
    rows: int = 1


class Grower:
    """Grows trees on one model. Nothing else may use the model during `grow`."""

    def __init__(self, model: TokenModel, *, width: int = NODES_PER_DECODE) -> None:
        """Prepares; reads nothing.

        Args:
            width: Most nodes that are read in one decode.

        Raises:
            ModelError: The model cannot fork sequences.
        """
        if not model.capacity.forkable:
            raise ModelError(
                "This model is recurrent or hybrid, and its sequences cannot be forked for a tree.",
                "Use a transformer model.",
            )
        self._model = model
        self._width = max(1, min(width, model.capacity.rows, model.capacity.sequences // 2))
        self._roster = Roster(model, (), 1)
        self._nodes = 0

    def grow(
        self,
        jobs: Sequence[Job],
        budget: Budget | None = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Grows trees until none has a node to read, or the budget is used up.

        The trees keep what has grown until then, and their accounts are always valid.

        Args:
            progress: Called after each decode with the nodes read in this call.

        Raises:
            ModelError: A prompt leaves no room for its tree in the context.
            Cancelled: The request was cancelled.
        """
        budget = budget or Budget()
        start = time.perf_counter()
        self._check_room(jobs)
        self._model.clear()
        self._roster = roster = Roster(self._model, jobs, max(1, self._width // 2))
        self._nodes = 0
        while not roster.is_empty:
            roster.start_waiting()
            nodes_left = self._width if budget.nodes is None else budget.nodes - self._nodes
            seconds = time.perf_counter() - start
            if nodes_left <= 0 or (budget.seconds is not None and seconds >= budget.seconds):
                break
            self._decode_once(min(self._width, nodes_left))
            if progress:
                progress(self._nodes)
            for growing in [tree for tree in roster.growing_trees if tree.is_done]:
                roster.remove(growing)
        self._model.clear()

    def _check_room(self, jobs: Sequence[Job]) -> None:
        """Checks that the context has room for each prompt with its tree, and a batch for each answer.

        Raises:
            ContextTooSmall: It has not, or a prompt is empty.
        """
        capacity = self._model.capacity
        for job in jobs:
            longest = job.tree.options.max_tokens
            need = len(job.prompt) + max(longest, len(self._scored_answer(job)))
            if not job.prompt or need > capacity.context:
                raise ContextTooSmall(
                    f"A prompt of {len(job.prompt):,} tokens leaves no room for a tree in a context of "
                    f"{capacity.context:,}.",
                    "Ask for a longer context or shorter answers.",
                )
            if longest >= capacity.batch:
                raise ContextTooSmall(
                    f"Answers of {longest:,} tokens are too long for a tree; at most "
                    f"{capacity.batch - 1:,} can be grown."
                )

    def _scored_answer(self, job: Job) -> Sequence[int]:
        """Returns the tokens of the recorded answer that are scored: its first ones, at most as many as one decode
        reads."""
        capacity = self._model.capacity
        return job.answer[: min(MAX_ANSWER_TOKENS, capacity.rows, capacity.batch)]

    # One decode

    def _decode_once(self, max_nodes: int) -> None:
        """Makes one decode: reads at most `max_nodes` waiting nodes first, then recorded answers, and fills what is
        left of the batch with prompts."""
        spans: list[Span] = []
        readings: list[_Reading] = []
        room = self._add_paths(spans, readings, min(max_nodes, self._roster.max_paths))
        room = self._add_answers(spans, readings, room)
        self._add_prompts(spans, room)
        if not spans:
            return  # the tree is grown already, after a prompt of one token
        logits = self._model.decode(spans)
        first_row = 0  # the rows of logits come in the order of the readings
        for reading in readings:
            rows = logits[first_row : first_row + reading.rows]
            first_row += reading.rows
            if reading.node is None:
                self._score_answer(reading, rows)
            else:
                self._expand(reading, reading.node, rows[0])

    def _add_paths(self, spans: list[Span], readings: list[_Reading], max_nodes: int) -> int:
        """Adds the most probable waiting nodes of all trees to a decode; returns the tokens left in the batch."""
        room = self._model.capacity.batch
        prefilled = [growing for growing in self._roster.growing_trees if growing.is_prefilled]
        while len(readings) < max_nodes:
            # The index is negative, so that of equally probable paths that of the first tree is taken.
            candidates = [
                (path_log_p, -index)
                for index, growing in enumerate(prefilled)
                if (path_log_p := growing.job.tree.next_path) is not None
            ]
            if not candidates:
                break
            _, negative_index = max(candidates)
            growing = prefilled[-negative_index]
            node = growing.job.tree.take()
            assert node is not None  # next_path is not None, so a node waits
            tokens, start = self._tokens_for(growing, node)
            if len(tokens) > room:
                growing.job.tree.give_back(node)
                break
            sequence = (
                growing.sequence_by_node.pop(node)
                if node in growing.sequence_by_node
                else self._roster.fork_trunk(growing)
            )
            readings.append(_Reading(growing, sequence, node))
            spans.append(Span(tokens, start, (sequence,), (len(tokens) - 1,)))
            room -= len(tokens)
        return room

    def _tokens_for(self, growing: GrowingTree, node: int) -> tuple[Sequence[int], int]:
        """Returns the tokens to decode for a node, and the position of the first of them.

        It is the node's own token where a sequence holds the path before it, else all from the prompt's last token on.
        """
        tree = growing.job.tree
        if node in growing.sequence_by_node:
            return (tree.nodes[node].token,), growing.base + tree.nodes[node].depth
        return [growing.job.prompt[-1], *tree.tokens(node)], growing.base

    def _add_answers(self, spans: list[Span], readings: list[_Reading], room: int) -> int:
        """Adds recorded answers that were not scored yet to a decode; returns the tokens left in the batch."""
        rows = self._model.capacity.rows - len(readings)
        for growing in self._roster.growing_trees:
            answer = self._scored_answer(growing.job)
            is_scored = bool(growing.job.answer_log_probs)
            fits = len(answer) <= min(room, rows)
            if not answer or is_scored or not growing.is_prefilled or not fits:
                continue
            tokens = [growing.job.prompt[-1], *answer[:-1]]
            sequence = self._roster.fork_trunk(growing)
            readings.append(_Reading(growing, sequence, None, len(answer)))
            spans.append(Span(tokens, growing.base, (sequence,), tuple(range(len(tokens)))))
            room -= len(tokens)
            rows -= len(tokens)
        return room

    def _add_prompts(self, spans: list[Span], room: int) -> None:
        """Fills the `room` tokens that are left in a batch with prompts."""
        for growing in self._roster.growing_trees:
            if room and not growing.is_prefilled:
                part = growing.job.prompt[
                    growing.decoded : min(growing.base, growing.decoded + room)
                ]
                spans.append(Span(part, growing.decoded, (growing.trunk,)))
                growing.decoded += len(part)
                room -= len(part)

    # Results

    def _expand(self, reading: _Reading, node: int, row: Logits) -> None:
        """Expands a node by its row of logits, and gives its children sequences: the most probable one takes over that
        of the node, the others get forks as long as sequences are free."""
        growing, tree = reading.growing, reading.growing.job.tree
        self._nodes += 1
        waiting = tree.expand(node, distribution(row, tree.options.temperature))
        end = growing.base + tree.nodes[node].depth + 1
        for child in waiting[1:]:
            sequence = self._roster.take_sequence()
            if sequence is None:
                break
            growing.sequence_by_node[child] = sequence
            self._model.fork(reading.sequence, sequence, end)
        if waiting:
            growing.sequence_by_node[waiting[0]] = reading.sequence
        else:
            self._roster.release(reading.sequence)

    def _score_answer(self, reading: _Reading, rows: Logits) -> None:
        """Stores the log-probabilities of the recorded answer, and frees the sequence that read it."""
        job = reading.growing.job
        answer = self._scored_answer(job)
        job.answer_log_probs = [
            float(log_probs(row, [token])[0]) for row, token in zip(rows, answer, strict=True)
        ]
        self._roster.release(reading.sequence)


def distribution(logits: Logits, temperature: float) -> LogProbs:
    """Returns the natural log-probabilities of all tokens at a temperature from their logits, both of shape
    (vocabulary,)."""
    values = logits.astype(np.float64) / temperature
    # Relative to the maximum, so that no exponential overflows.
    maximum = values.max()
    return np.asarray(values - (maximum + np.log(np.exp(values - maximum).sum())), dtype=np.float64)


class Roster:
    """The trees that grow now, the trees that wait, and the sequences of the model."""

    def __init__(self, model: TokenModel, jobs: Sequence[Job], max_growing: int) -> None:
        """Lets all jobs wait; the model's cache must be empty.

        Args:
            max_growing: Most trees that grow at once.
        """
        self._model, self._max_growing = model, max_growing
        self._free = list(range(model.capacity.sequences - 1, -1, -1))
        # Sorted, so that prompts with a common prefix are adjacent and can share cells.
        self._waiting = deque(sorted(jobs, key=lambda job: list(job.prompt)))
        self.growing_trees: list[GrowingTree] = []

    @property
    def is_empty(self) -> bool:
        """Whether no tree grows or waits."""
        return not self.growing_trees and not self._waiting

    def start_waiting(self) -> None:
        """Starts waiting trees while their prompts and some branches for each fit."""
        while self._waiting and self._free and len(self.growing_trees) < self._max_growing:
            job = self._waiting[0]
            origin, shared = self._most_alike(job)
            if origin and origin.decoded < shared:
                return  # cheaper: wait until the shared part of the other prompt is decoded
            if self.growing_trees and not self._fits(len(job.prompt) - shared):
                return
            growing = GrowingTree(job, self._free.pop(), shared, origin, shared)
            if origin:
                self._model.fork(origin.trunk, growing.trunk, shared)
            self.growing_trees.append(growing)
            self._waiting.popleft()

    def remove(self, growing: GrowingTree) -> None:
        """Removes a finished tree and frees its sequences, unless the next prompt can reuse its trunk best."""
        for sequence in growing.sequence_by_node.values():
            self.release(sequence)
        self.growing_trees.remove(growing)
        if not self._reuse_trunk(growing):
            self.release(growing.trunk)
        self._hand_over_cells(growing)

    def _reuse_trunk(self, removed: GrowingTree) -> bool:
        """Starts the next waiting tree on the trunk of a removed one, if that is what its prompt can reuse most of;
        returns whether it did."""
        if not self._waiting:
            return False
        job = self._waiting[0]
        common = _sharable_length(removed, job)
        _, common_with_others = self._most_alike(job)
        fits = not self.growing_trees or self._fits(len(job.prompt) - removed.shared, removed)
        if not fits or common <= common_with_others:
            return False
        self._model.drop(removed.trunk, common)
        self.growing_trees.append(GrowingTree(job, removed.trunk, common, removed, common))
        self._waiting.popleft()
        return True

    def fork_trunk(self, growing: GrowingTree) -> int:
        """Returns a sequence forked from a tree's trunk; evicts the least probable waiting path if none is free."""
        sequence = self.take_sequence()
        if sequence is None:
            self._evict()
            sequence = self._free.pop()
        if growing.base:
            self._model.fork(growing.trunk, sequence, growing.base)
        return sequence

    def _evict(self) -> None:
        """Frees the sequence of the least probable waiting path; of equal ones that of the newest node."""
        holders = [
            (growing.job.tree.nodes[node].path_log_p, -node, index)
            for index, growing in enumerate(self.growing_trees)
            for node in growing.sequence_by_node
        ]
        if holders:
            _, negative_node, index = min(holders)
            self.release(self.growing_trees[index].sequence_by_node.pop(-negative_node))

    def take_sequence(self) -> int | None:
        """Returns a free sequence for a path; None when none is free or the cache would overflow."""
        if not self._free or self._path_count >= self.max_paths:
            return None
        return self._free.pop()

    def release(self, sequence: int) -> None:
        """Clears a sequence and makes it free."""
        self._model.drop(sequence)
        self._free.append(sequence)

    @property
    def max_paths(self) -> int:
        """Most sequences that can hold paths, so that prompts and paths fit the cache."""
        capacity = self._model.capacity
        room = capacity.cells - self._prompt_cells() - capacity.batch
        return max(
            1, min(room // self._max_path_tokens, capacity.sequences - len(self.growing_trees))
        )

    @property
    def _path_count(self) -> int:
        """Number of sequences that hold paths now."""
        return self._model.capacity.sequences - len(self._free) - len(self.growing_trees)

    @property
    def _max_path_tokens(self) -> int:
        """Most tokens of a path, with the last one of the prompt, which each path decodes itself."""
        return max(growing.job.tree.options.max_tokens for growing in self.growing_trees) + 1

    def _prompt_cells(self) -> int:
        """Returns the number of cells that the prompts of growing trees take; shared ones count once."""
        return sum(len(growing.job.prompt) - growing.shared for growing in self.growing_trees)

    def _fits(self, more_tokens: int, removed: GrowingTree | None = None) -> bool:
        """Returns whether this many more prompt tokens fit, with all other prompts and the longest possible paths.

        Args:
            removed: The tree that was just removed; those of its cells stay in use that other trees share.
        """
        prompt_cells = self._prompt_cells() + more_tokens
        if removed:  # the cells that another tree shares stay
            shared = [growing.shared for growing in self.growing_trees if growing.origin is removed]
            prompt_cells += max(shared, default=0)
        path_cells = (self._path_count + 1) * self._max_path_tokens + self._model.capacity.batch
        fits_cache = prompt_cells + path_cells <= self._model.capacity.cells
        return prompt_cells <= MAX_PROMPT_CELLS and fits_cache

    def _most_alike(self, job: Job) -> tuple[GrowingTree | None, int]:
        """Returns the growing tree whose prompt shares most first tokens with that of a job, and their number; None and
        0 if no tree shares enough."""
        most_alike: GrowingTree | None = None
        longest = 0
        for growing in self.growing_trees:
            common = _sharable_length(growing, job)
            if common > longest:
                most_alike, longest = growing, common
        return most_alike, longest

    def _hand_over_cells(self, removed: GrowingTree) -> None:
        """Makes the tree that shares most cells with a removed one the owner of these cells, for the accounts of the
        others that share them."""
        heirs = [growing for growing in self.growing_trees if growing.origin is removed]
        if not heirs:
            return
        first = max(heirs, key=lambda growing: growing.shared)
        for heir in heirs:
            heir.origin = first
        first.origin, first.shared = removed.origin, min(first.shared, removed.shared)


def _sharable_length(growing: GrowingTree, job: Job) -> int:
    """Returns how many first tokens the prompts of a growing tree and of a job share; 0 if too few to be worth it."""
    return sharable_length([growing.job.prompt, job.prompt], MIN_SHARED_TOKENS)
