"""Grows many trees on one model: batches nodes into decodes and assigns KV cache sequences to their paths.

The prompt of a tree is one sequence; a path forks it and shares its cells. A node that has been read leaves its
sequence to its most probable child and forks it for the others. When sequences run out the least probable waiting
path is evicted, and decoded again from the prompt when its turn comes. The common prefix of prompts, such as a shared
system message or several places of one conversation, is decoded once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.interface import Logits, Span, TokenModel, log_probs
from engine.trees.roster import GrowingTree, Job, Roster

WIDTH = 32
"""Nodes read in one decode; more rows cost more than they gain on a processor."""

ANSWER_TOKENS = 256
"""Tokens of the recorded answer that are scored."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one call of `grow`, over all its trees: nodes read and seconds; None is no limit."""

    nodes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of a call: nodes read, tokens decoded, decodes, seconds in all and in the model."""

    nodes: int
    tokens: int
    decodes: int
    seconds: float
    model_seconds: float
    finished: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    """The purpose of the rows of logits that a span asks for: a node's distribution, or the recorded answer (None)."""

    live: GrowingTree
    sequence: int
    node: int | None
    rows: int = 1


class Grower:
    """Grows trees on one model. Nothing else may use the model during `grow`."""

    def __init__(self, model: TokenModel, *, width: int = WIDTH) -> None:
        """Prepares.

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
        self._nodes = self._tokens = self._decodes = 0
        self._model_seconds = 0.0

    def grow(
        self,
        jobs: Sequence[Job],
        budget: Budget | None = None,
        *,
        stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] | None = None,
    ) -> Work:
        """Grows trees until none has a node to read, or the budget is used up, or `stopped` says so.

        The trees keep what has grown until then, and their accounts are always valid; growing the same trees again
        continues from there.

        Args:
            progress: Called after each decode with the nodes read in this call.

        Raises:
            ModelError: A prompt leaves no room for its tree in the context.
            Cancelled: The request was cancelled; the nodes of the decode in progress wait again.
        """
        budget = budget or Budget()
        start = time.perf_counter()
        self._check(jobs)
        self._model.clear()
        self._roster = roster = Roster(self._model, jobs, max(1, self._width // 2))
        self._nodes = self._tokens = self._decodes = 0
        self._model_seconds = 0.0
        while not roster.empty:
            roster.admit()
            spent = time.perf_counter() - start
            over = budget.nodes is not None and self._nodes >= budget.nodes
            late = budget.seconds is not None and spent >= budget.seconds
            if over or late or stopped():
                break
            most = self._width if budget.nodes is None else budget.nodes - self._nodes
            self._step(min(self._width, most))
            if progress:
                progress(self._nodes)
            for live in [one for one in roster.lives if one.done]:
                roster.leave(live)
        self._model.clear()
        return Work(
            self._nodes,
            self._tokens,
            self._decodes,
            time.perf_counter() - start,
            self._model_seconds,
            roster.empty,
        )

    def _check(self, jobs: Sequence[Job]) -> None:
        capacity = self._model.capacity
        for job in jobs:
            longest = job.tree.options.max_tokens
            need = len(job.prompt) + max(longest, len(self._answer(job)))
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

    def _answer(self, job: Job) -> Sequence[int]:
        return job.answer[
            : min(ANSWER_TOKENS, self._model.capacity.rows, self._model.capacity.batch)
        ]

    # One decode

    def _step(self, most: int) -> None:
        spans: list[Span] = []
        readings: list[_Reading] = []
        try:
            room = self._read_paths(spans, readings, min(most, self._roster.most_branches))
            room = self._read_answers(spans, readings, room)
            self._read_prompts(spans, room)
            if not spans:
                return  # the tree is grown already, after a prompt of one token
            began = time.perf_counter()
            logits = self._model.decode(spans)
            self._model_seconds += time.perf_counter() - began
        except BaseException:
            for reading in readings:
                if reading.node is not None:
                    reading.live.job.tree.give_back(reading.node)
            raise
        self._tokens += sum(len(span.tokens) for span in spans)
        self._decodes += 1
        at = 0
        for reading in readings:
            rows = logits[at : at + reading.rows]
            at += reading.rows
            if reading.node is None:
                self._score_answer(reading, rows)
            else:
                self._expand(reading, reading.node, rows[0])

    def _read_paths(self, spans: list[Span], readings: list[_Reading], most: int) -> int:
        """Adds the most probable waiting nodes of all trees to a decode; returns the tokens left in the batch."""
        room = self._model.capacity.batch
        ready = [live for live in self._roster.lives if live.prefilled]
        while len(readings) < most:
            paths = [
                (path, -at)
                for at, live in enumerate(ready)
                if (path := live.job.tree.next_path) is not None
            ]
            if not paths:
                break
            live = ready[-max(paths)[1]]
            node = live.job.tree.take()
            assert node is not None  # next_path is not None, so a node waits
            tokens, start = self._tokens_for(live, node)
            if len(tokens) > room:
                live.job.tree.give_back(node)
                break
            sequence = live.held.pop(node) if node in live.held else self._roster.begin(live)
            readings.append(_Reading(live, sequence, node))
            spans.append(Span(tokens, start, (sequence,), (len(tokens) - 1,)))
            room -= len(tokens)
        return room

    def _tokens_for(self, live: GrowingTree, node: int) -> tuple[Sequence[int], int]:
        """Returns the tokens to decode for a node (its own, or all from the prompt's last on) and the first one's
        position."""
        tree = live.job.tree
        if node in live.held:
            return (tree.nodes[node].token,), live.base + tree.nodes[node].depth
        return [live.job.prompt[-1], *tree.tokens(node)], live.base

    def _read_answers(self, spans: list[Span], readings: list[_Reading], room: int) -> int:
        """Adds recorded answers that were not scored yet."""
        rows = self._model.capacity.rows - len(readings)
        for live in self._roster.lives:
            answer = self._answer(live.job)
            scored = bool(live.job.answer_log_probs)
            fits = len(answer) <= min(room, rows)
            if not answer or scored or not live.prefilled or not fits:
                continue
            tokens = [live.job.prompt[-1], *answer[:-1]]
            sequence = self._roster.begin(live)
            readings.append(_Reading(live, sequence, None, len(answer)))
            spans.append(Span(tokens, live.base, (sequence,), tuple(range(len(tokens)))))
            room -= len(tokens)
            rows -= len(tokens)
        return room

    def _read_prompts(self, spans: list[Span], room: int) -> None:
        """Fills the rest of the batch with prompts."""
        for live in self._roster.lives:
            if room and not live.prefilled:
                part = live.job.prompt[live.decoded : min(live.base, live.decoded + room)]
                spans.append(Span(part, live.decoded, (live.trunk,)))
                live.decoded += len(part)
                room -= len(part)

    # Results

    def _expand(self, reading: _Reading, node: int, row: Logits) -> None:
        live, tree = reading.live, reading.live.job.tree
        self._nodes += 1
        waiting = tree.expand(node, tree.options.transform.apply(row))
        end = live.base + tree.nodes[node].depth + 1
        for child in waiting[1:]:
            sequence = self._roster.take()
            if sequence is None:
                break
            live.held[child] = sequence
            self._model.fork(reading.sequence, sequence, end)
        if waiting:
            live.held[waiting[0]] = reading.sequence
        else:
            self._roster.release(reading.sequence)

    def _score_answer(self, reading: _Reading, rows: Logits) -> None:
        job = reading.live.job
        answer = self._answer(job)
        job.answer_log_probs = [
            float(log_probs(row, [token])[0]) for row, token in zip(rows, answer, strict=True)
        ]
        self._roster.release(reading.sequence)
