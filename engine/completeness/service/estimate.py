"""Estimates what a scoring run will cost on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.base.conversation import render_log
from engine.completeness.block import Question
from engine.completeness.boundaries import boundaries
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.scoring import ScoringStage
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.catalog import RunnableModel
from engine.model.interface import SPEED_TOKENS
from engine.model.model_work import RunModel
from engine.model.process.process import ModelProcess
from engine.model.process.requests import CountTokens, MeasureLong
from engine.project.project import Project
from engine.project.records import Estimate

SAMPLE = 48
"""Number of conversations whose tokens are counted; the others are assumed to have the same tokens per character."""

LONG = 2 * SPEED_TOKENS
"""Mean position of a token, in tokens, from which the cost of attention is measured."""


@dataclass(frozen=True, slots=True)
class ScoringRun:
    """A scoring run that is ready to start.

    Attributes:
        model: Resolved once, for the stages and the estimate.
        reading: The stage that reads the logs, which is nearly all of the work.
        scored: The stage that stores the scores.
        stages: All of the run in order; the other two are among them.
    """

    model: RunModel
    question: Question
    reading: ScoringStage | ReadingStage
    scored: ScoringStage | FittingStage
    stages: list[Stage]

    @property
    def config_hash(self) -> str:
        """The key of the set of scores; with a probe it is known once the conversations are read."""
        return self.scored.config_hash


def estimate_scoring(
    project: Project,
    process: ModelProcess,
    run: ScoringRun,
    measured: Callable[[RunnableModel, float, int], None],
) -> Estimate:
    """Counts the work that is left and divides it by the speed measured on this machine.

    Args:
        measured: Called with a model, its speed on a long text in tokens a second and the text's tokens, after that
            speed had to be measured.

    Returns:
        An estimate whose speed and seconds are None when the model's speed was never measured here.

    Raises:
        ModelError: The model cannot be loaded.
    """
    model, prompt = run.model.model, run.question.prompt
    with project.reading() as conn:
        left = sorted(run.reading.waiting(conn))
        chars_left = conversations.chars(conn, left)
        stride = max(1, len(left) // SAMPLE)
        sample = conversations.conversations_for(conn, left[::stride][:SAMPLE])
    if not left:
        # Nothing is left to read, but a fit may be: it was cancelled or refused, or other conversations were read.
        fits = run.scored.waiting() if isinstance(run.scored, FittingStage) else 0
        return Estimate(fits, 0, model.tokens_per_s, 0.0, model.label)
    client = process.client_for(model)
    loaded = client.load(model.path, model.options, model.adapter, model.merged)
    logs = [render_log(messages) for _, messages in sample]
    counted = sum(client.ask(CountTokens([[piece.text for piece in log] for log in logs])))
    counted_chars = sum(len(piece.text) for log in logs for piece in log)
    asked = sum(len(boundaries(log)) for log in logs) / len(logs)
    chars = len(prompt.question + prompt.reply + prompt.end + prompt.continuation) if prompt else 0
    # A stored character count leaves out headers and calls, so the sample also gives log characters per stored one.
    overhead = counted_chars / max(1, sum(chars_left[::stride][:SAMPLE]))
    per_char = counted / max(1, counted_chars)
    lengths = [number * overhead * per_char for number in chars_left]
    tokens = sum(lengths) + asked * chars * len(left) * per_char
    speed = model.tokens_per_s
    if speed is None:
        return Estimate(len(left), round(tokens), None, None, model.label)
    long = model.long
    if long is None and sum(n * n for n in lengths) > LONG * sum(lengths):
        long = client.ask(MeasureLong("".join(piece.text for log in logs for piece in log)))
        measured(model, *long)
    seconds = tokens / speed
    if long is not None:
        seconds += _attention(lengths, speed, long, int(loaded["context"]))
    return Estimate(len(left), round(tokens), tokens / seconds, seconds, model.label)


def _attention(
    lengths: Sequence[float], speed: float, long: tuple[float, int], context: int
) -> float:
    """Extra seconds of long logs over the time of their tokens at the speed of a short text.

    The time of a token grows with the tokens before it, so a log of n tokens takes `a * n + b * n * n`; the two
    speeds give a and b. A log over the context is read in windows, each at most as long as the context.
    """
    long_speed, long_tokens = long
    if long_tokens <= SPEED_TOKENS:
        return 0.0
    growth = max(0.0, 1 / long_speed - 1 / speed) / (long_tokens - SPEED_TOKENS)
    return sum(growth * n * max(0.0, min(n, context) - SPEED_TOKENS) for n in lengths)
