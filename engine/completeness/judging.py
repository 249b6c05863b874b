"""The judge of a model that follows instructions: whether a conversation is finished at each boundary, with the steps
that show it and what is missing.

Endpoints that do not give the probabilities of a log's tokens are asked for a reply at each boundary instead. If the
server lists the probabilities of its reply's tokens, that of the verdict gives the score. Otherwise the score is 1 or
0, and a note says that it is no probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Literal

import msgspec

from engine.completeness.boundaries import BoundaryReading
from engine.completeness.scoring import ItemScore, LogItem
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelWork
from engine.model.structured_replies import StructuredReply, ask, fenced_log

MAX_EVIDENCE_STEPS = 12
"""Most steps that a judgment names."""


class Judgment(msgspec.Struct):
    """What a model says of a log at one boundary."""

    finished: Annotated[bool, msgspec.Meta(description="whether it is finished at its last step")]
    outcome: Annotated[
        Literal["done", "refused", "abandoned", "open"],
        msgspec.Meta(
            description="done if all was done, refused if the assistant refused for good,"
            " abandoned if the user gave up, open if it is not finished"
        ),
    ]
    evidence_steps: Annotated[
        list[int],
        msgspec.Meta(
            max_length=MAX_EVIDENCE_STEPS, description="numbers of the STEPs that show it"
        ),
    ]
    missing: Annotated[
        str,
        msgspec.Meta(
            max_length=300, description="what is missing, in a sentence; empty if nothing is"
        ),
    ]


def judge(work: ModelWork, items: Sequence[LogItem], prompt: Prompt) -> list[ItemScore]:
    """Returns the scores of conversations, in order; one is unscored where a reply cannot be read.

    Raises:
        RequestRefused: The endpoint refuses one of the logs.
        ModelError: No endpoint is left.
    """
    room = work.room(prompt)
    logs = [
        fenced_log(item.texts[: boundary + 1], item.pinned_pieces, room)
        for item in items
        for boundary in item.boundaries
    ]
    replies = ask(
        work.process, prompt, Judgment, [log for log, _ in logs], probability_of="finished"
    )
    judgments = iter(zip(replies, (note for _, note in logs), strict=True))
    scores = []
    for item in items:
        of_item = list(islice(judgments, len(item.boundaries)))
        left_out = next((note for _, note in of_item if note), None)
        scores.append(_score([reply for reply, _ in of_item], left_out))
    return scores


def _score(replies: Sequence[StructuredReply[Judgment]], left_out: str | None) -> ItemScore:
    """Returns the score of one conversation from the replies at its boundaries.

    Args:
        left_out: Note on what was left out of its log; None for nothing.
    """
    readings = []
    for reply in replies:
        if reply.fields is None:
            return ItemScore((), 0, unscored=reply.failure)
        p_verdict = 1.0 if reply.probability is None else reply.probability
        p_end = p_verdict if reply.fields.finished else 1 - p_verdict
        readings.append(BoundaryReading(_log(p_end), _log(1 - p_end)))
    note = _note(replies[-1])
    return ItemScore(tuple(readings), 0, f"{note}; {left_out}" if left_out else note)


def _note(reply: StructuredReply[Judgment]) -> str:
    """Returns the judgment at the last boundary in words."""
    assert reply.fields is not None
    parts = [f"judged {reply.fields.outcome}"]
    if steps := ", ".join(map(str, reply.fields.evidence_steps)):
        parts.append(f"by steps {steps}")
    if missing := " ".join(reply.fields.missing.split()):
        parts.append(f"missing: {missing}")
    if reply.probability is None:
        parts.append("said, not a probability")
    return "; ".join(parts)


def _log(p: float) -> float:
    """Returns the natural logarithm of a probability."""
    return math.log(p) if p > 0 else -math.inf
