"""What a scoring run will cost on this machine, before it starts."""

from __future__ import annotations

from engine.completeness.boundaries import boundaries
from engine.conversation import render_log
from engine.model.catalog import RunnableModel
from engine.rows import Estimate
from engine.stages.scoring import ScoringStage
from engine.store import conversations
from engine.store.project import Project
from engine.worker.client import ModelProcess

SAMPLE = 48
"""Conversations whose tokens are counted; the others are taken to have as many tokens a character."""


def estimate_scoring(
    project: Project, process: ModelProcess, model: RunnableModel, stage: ScoringStage, chars: int
) -> Estimate:
    """Counts the work that is left and divides it by the speed measured on this machine.

    Args:
        chars: Characters that the question adds at each boundary.

    Returns:
        An estimate whose speed and seconds are None when the model's speed was never measured here.

    Raises:
        ModelError: The model cannot be loaded.
    """
    with project.reading() as conn:
        left = sorted(stage.waiting(conn))
        rows = conversations.rows(conn, left)
        stride = max(1, len(left) // SAMPLE)
        sample = conversations.conversations_for(conn, left[::stride][:SAMPLE])
    if not left:
        return Estimate(0, 0, model.tokens_per_s, 0.0, model.label)
    process.load(model.path, model.options, model.adapter)
    logs = [render_log(messages) for _, messages in sample]
    counted = sum(process.count_tokens([[piece.text for piece in log] for log in logs]))
    counted_chars = sum(len(piece.text) for log in logs for piece in log)
    asked = sum(len(boundaries(log)) for log in logs) / len(logs)
    held = sum(row.chars for row in rows)
    sampled = {conversation_id for conversation_id, _ in sample}
    # Headers and calls are not in a row's characters, so the sample also gives text read per character held.
    overhead = counted_chars / max(1, sum(row.chars for row in rows if row.id in sampled))
    per_char = counted / max(1, counted_chars)
    tokens = round((held * overhead + asked * chars * len(left)) * per_char)
    speed = model.tokens_per_s
    return Estimate(len(left), tokens, speed, tokens / speed if speed else None, model.label)
