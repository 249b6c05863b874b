"""The logs of conversations as a model reads them, and the noise of the model that reads them.

A log is a conversation as text, cut into steps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.base.conversation import LogPiece, render_log
from engine.completeness.scoring import LogItem, log_item
from engine.conversations.tables import conversations
from engine.model.catalog import LoadableModel
from engine.model.memory_plan import busy
from engine.model.process.requests import Measure
from engine.model.stages import ModelWork
from engine.project.project import Project

MIN_CONVERSATIONS_TO_MEASURE = 200
"""Conversations of a run from which on the speed of the model is measured again."""

NOISE_CONVERSATIONS = 8
"""Conversations on which the noise of a model is measured."""

OnMeasured = Callable[[LoadableModel, float, float], None]
"""Called with a model, its speed (tokens per second) and its batch noise, after these had to be measured."""


@dataclass(frozen=True, slots=True)
class Log:
    """One conversation.

    Attributes:
        id: Its id.
        pieces: Its steps as text.
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
    """Returns the batch noise of a loaded model; it is measured on the first of these conversations if it never was.

    The speed is measured with it, and again by each longer run while the machine is idle, since it may have changed
    (`Catalog.drift`).

    Returns:
        The largest change of a probability seen when the batch changes; None for endpoints.
    """
    model = work.model
    if model.endpoints or not ids:
        return model.noise
    # The catalog has one speed for each model file, that without an adapter.
    measures_again = (
        len(ids) >= MIN_CONVERSATIONS_TO_MEASURE
        and model.adapter is None
        and not busy(os.cpu_count() or 1)
    )
    if model.noise is not None and not measures_again:
        return model.noise
    text = "".join(
        piece.text for log in logs_of(project, ids[:NOISE_CONVERSATIONS]) for piece in log.pieces
    )
    speed, noise = work.process.ask(Measure(text))
    # The first noise stays: scores were stored with it.
    noise = noise if model.noise is None else model.noise
    if on_measured:
        on_measured(model, speed, noise)
    return noise
