"""The logs of conversations as a model reads them, and the noise of the model that reads them.

A log is a conversation as text, cut into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.base.conversation import LogPiece, render_log
from engine.completeness.scoring import LogItem, log_item
from engine.conversations.tables import conversations
from engine.model.catalog import LoadableModel
from engine.model.process.requests import Measure
from engine.model.stages import ModelWork
from engine.project.project import Project

NOISE_CONVERSATIONS = 8
"""Conversations on which the noise of a model is measured."""

OnMeasured = Callable[[LoadableModel, float, float], None]
"""Called with a model, its speed (tokens per second) and its batch noise, after these had to be measured."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one conversation.

    Attributes:
        id: Id of the conversation.
        pieces: The steps of the log as text.
        item: What a model reads of it.
    """

    id: int
    pieces: list[LogPiece]
    item: LogItem


def logs_of(project: Project, ids: Sequence[int]) -> list[Log]:
    """Returns the logs of these conversations, in their order."""
    with project.reading() as conn:
        rows = conversations.conversations_for(conn, ids)
    logs = [(conversation_id, render_log(messages)) for conversation_id, messages in rows]
    return [Log(conversation_id, pieces, log_item(pieces)) for conversation_id, pieces in logs]


def noise_of(
    project: Project, work: ModelWork, ids: Sequence[int], on_measured: OnMeasured | None
) -> float | None:
    """Returns the batch noise of a loaded model: the largest change of a probability seen when the batch changes.

    If it never was measured, it is measured now, with the speed, on the first of these conversations; None without a
    conversation to measure it on.
    """
    model = work.model
    if not ids or model.noise is not None:
        return model.noise
    text = "".join(
        piece.text for log in logs_of(project, ids[:NOISE_CONVERSATIONS]) for piece in log.pieces
    )
    speed, noise = work.process.ask(Measure(text))
    if on_measured:
        on_measured(model, speed, noise)
    return noise
