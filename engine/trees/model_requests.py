"""The request that grows response trees, the places of a log where they grow, and its handler in the model process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.base.conversation import LogPiece, count_pinned
from engine.base.errors import UsageError
from engine.model.interface import TokenModel
from engine.model.log_windows import log_tokens
from engine.model.process.protocol import Request
from engine.model.process.session import Handlers
from engine.trees.growth import Budget, Grower, Job
from engine.trees.records import TreeOptions, TreePlace
from engine.trees.tree import Tree, frame_of, restore


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a log where a tree grows.

    Attributes:
        texts: Pieces of the log before the root; the last one is the header of the recorded step, without content.
        pinned_pieces: Number of leading pieces that a window keeps.
        step: Number of the step that was recorded there; of the last step at the end of the log.
        answer: Text of the recorded step; empty at the end of the log.
    """

    texts: tuple[str, ...]
    pinned_pieces: int
    step: int
    answer: str


def find_places(pieces: Sequence[LogPiece], place: TreePlace) -> list[Place]:
    """Returns the places of a log: before the last assistant step, before every assistant step, or after the last step.

    Raises:
        UsageError: The log has no assistant step to grow a tree at, or no step at all.
    """
    if not pieces:
        raise UsageError("The conversation has no step that a model sees.")
    pinned_pieces = count_pinned(pieces)
    if place == "end":
        return [Place(tuple(piece.text for piece in pieces), pinned_pieces, pieces[-1].step, "")]
    answer_places = [
        _log_before(pieces, index, pinned_pieces)
        for index, piece in enumerate(pieces)
        if index > 0 and piece.role == "assistant"  # it follows another step
    ]
    if not answer_places:
        raise UsageError(
            "The conversation has no assistant step that follows another step.",
            "Grow the tree at its end.",
        )
    return answer_places if place == "every" else answer_places[-1:]


def _log_before(pieces: Sequence[LogPiece], index: int, pinned_pieces: int) -> Place:
    """Returns the place of a step: everything before it and its header, with its content as the recorded answer."""
    step_piece = pieces[index]
    separator = step_piece.text[: len(step_piece.text) - len(step_piece.text.lstrip("\n"))]
    header, _, content = step_piece.text[len(separator) :].partition("\n")
    texts_before = tuple(piece.text for piece in pieces[:index])
    return Place((*texts_before, f"{separator}{header}\n"), pinned_pieces, step_piece.step, content)


@dataclass(frozen=True)
class GrownTree:
    """A tree as it was grown, with its recorded answer and what growing it took.

    Attributes:
        frame: The tree as it crosses the pipe and is stored, see `frame_of`.
        answer: Tokens of the recorded answer; empty without one.
        answer_log_probs: Natural log-probabilities of its first tokens.
        prompt_tokens: Number of tokens before the root.
        note: What of the log was left out, or None.
        seconds: The tree's share of the time that growing took: its share of the nodes of all trees of the request.
    """

    frame: dict[str, Any]
    answer: tuple[int, ...]
    answer_log_probs: tuple[float, ...]
    prompt_tokens: int
    note: str | None
    seconds: float

    @cached_property
    def tree(self) -> Tree:
        """The tree itself."""
        return restore(self.frame)


class Grow(Request[list[GrownTree]], frozen=True):
    """Grows one new tree at each place, side by side. The count of progress is nodes read."""

    places: Sequence[Place]
    options: TreeOptions
    budget: Budget


def grow_trees(model: TokenModel, request: Grow, report: Callable[[int], None]) -> list[GrownTree]:
    """Returns the tree of each place of a request.

    Args:
        report: Called with the number of nodes read so far; raises Cancelled when the request was cancelled.
    """
    options = request.options
    jobs, notes = [], []
    for place in request.places:
        recorded = model.tokenize(place.answer)
        prompt, note = _prompt(model, place, max(options.max_tokens, len(recorded)))
        jobs.append(Job(Tree(options, model.stop_tokens, model.token_bytes), prompt, recorded))
        notes.append(note)
    start = time.perf_counter()
    Grower(model).grow(jobs, request.budget, progress=report)
    seconds = time.perf_counter() - start
    all_nodes = sum(len(job.tree.nodes) for job in jobs)
    return [
        GrownTree(
            frame_of(job.tree),
            tuple(job.answer),
            tuple(job.answer_log_probs),
            len(job.prompt),
            note,
            seconds * len(job.tree.nodes) / all_nodes,
        )
        for job, note in zip(jobs, notes, strict=True)
    ]


def _prompt(model: TokenModel, place: Place, reserved_tokens: int) -> tuple[list[int], str | None]:
    """Returns the tokens of the log before a place that leave `reserved_tokens` of the context free, and a note on what
    of the log was left out."""
    start = model.tokenize("", special=True, start=True)
    context = model.capacity.context
    # A recorded answer of any length must not crowd out the log: only its beginning is scored.
    room = max(context - len(start) - reserved_tokens, context // 2)
    tokens, note = log_tokens(model, place.texts, place.pinned_pieces, room)
    return [*start, *tokens], note


HANDLERS: Handlers = {
    Grow: lambda session, request: grow_trees(
        session.claim_shared(), request, session.total_progress()
    ),
}
