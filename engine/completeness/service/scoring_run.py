"""A scoring run that is ready to start: its stages, how a model reads the logs in it, and what it costs.

The cost is estimated from a sample of the conversations that the run would read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.base.conversation import LogPiece, render_log
from engine.completeness.boundaries import boundaries
from engine.completeness.scoring import Question
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import ScoringStage
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.catalog import LoadableModel
from engine.model.interface import SPEED_TOKENS
from engine.model.process.process import ModelProcess
from engine.model.process.requests import CountTokens, MeasureLong
from engine.project.project import Project
from engine.project.records import Estimate, StageCost

SAMPLED_CONVERSATIONS = 48
"""Number of conversations whose tokens are counted for an estimate; the others are assumed to have the same tokens per
character."""

MIN_LONG_TOKENS = 2 * SPEED_TOKENS
"""Mean position of a token in its log, in tokens, from which the cost of attention is measured: further from the start
a token takes noticeably longer, because it attends to all tokens before it."""

CONVERSATIONS_PER_SECOND = 1_000
"""Conversations whose words are read and fitted to in a second, roughly; 1,250 of 23 messages on two plain cores."""


@dataclass(frozen=True, slots=True)
class ModelReading:
    """How a model reads the logs in a scoring run, which is nearly all of the work.

    Attributes:
        model: Resolved once, for the stages and the estimate.
        question: What it is asked at each boundary.
        stage: Reads all that is left.
    """

    model: LoadableModel
    question: Question
    stage: ScoringStage | ReadingStage


@dataclass(frozen=True, slots=True)
class ScoringRun:
    """A scoring run that is ready to start.

    Attributes:
        reading: How a model reads the logs; None in mode `words`.
        scoring_stage: Knows the config hash of the final scores, and how many conversations wait for them.
        stages: All stages of the run, in order. In mode `probe` a `RefiningStage` runs the stage of `reading` and makes
            fits like `scoring_stage`, so the list has neither of the two.
    """

    reading: ModelReading | None
    scoring_stage: ScoringStage | FittingStage
    stages: list[Stage]

    @property
    def config_hash(self) -> str:
        """The config hash of the set of scores; with a probe it is known once the conversations are read."""
        return self.scoring_stage.config_hash


class LongSpeed(NamedTuple):
    """The speed of a model on a long text, in tokens a second, and the text's length in tokens."""

    tokens_per_s: float
    tokens: int


def estimate_scoring(
    project: Project,
    process: ModelProcess,
    run: ScoringRun,
    record_long_speed: Callable[[LoadableModel, float, int], None],
) -> Estimate:
    """Returns the work that is left, divided by the speed measured on this machine.

    Args:
        record_long_speed: Called with a model, its speed on a long text in tokens a second and the text's tokens, after
            that speed had to be measured.

    Returns:
        An estimate whose speed and seconds are None when the model's speed was never measured here.

    Raises:
        ModelError: The model cannot be loaded.
    """
    scoring = run.scoring_stage
    if run.reading is None:
        waiting = scoring.waiting() if isinstance(scoring, FittingStage) else 0
        seconds = 1 + waiting / CONVERSATIONS_PER_SECOND if waiting else 0.0
        costs = tuple(_remaining_costs(project, run.stages))
        return Estimate(waiting, None, None, seconds, model="words alone", costs=costs)
    model = run.reading.model
    with project.reading() as conn:
        waiting_ids = sorted(run.reading.stage.waiting(conn))
        chars_by_conversation = conversations.chars(conn, waiting_ids)
        stride = max(1, len(waiting_ids) // SAMPLED_CONVERSATIONS)
        # The conversations of the sample, evenly spread over those that wait.
        sampled = slice(None, stride * SAMPLED_CONVERSATIONS, stride)
        sample = conversations.conversations_for(conn, waiting_ids[sampled])
    if not waiting_ids:
        # Nothing is left to read, but a fit may be: it was cancelled or refused, or other conversations were read.
        fits = scoring.waiting() if isinstance(scoring, FittingStage) else 0
        return Estimate(fits, 0, model.tokens_per_s, seconds=0.0, model=model.label)
    logs = [render_log(messages) for _, messages in sample]
    return _estimate_reading(
        process, run.reading, chars_by_conversation, sampled, logs, record_long_speed
    )


def _remaining_costs(project: Project, stages: Sequence[Stage]) -> list[StageCost]:
    """Returns the cost over endpoints of the remaining tasks in a run."""
    costs = []
    for stage in stages:
        if isinstance(stage, RemainingStage) and stage.model.endpoint:
            with project.reading() as conn:
                _, missing = stage.waiting(conn)
            if missing:
                costs.append(stage.estimate(sorted(missing)))
    return costs


def _estimate_reading(
    process: ModelProcess,
    reading: ModelReading,
    chars_by_conversation: Sequence[int],
    sampled: slice,
    logs: Sequence[Sequence[LogPiece]],
    record_long_speed: Callable[[LoadableModel, float, int], None],
) -> Estimate:
    """Returns the cost of reading what waits, as `estimate_scoring` does.

    Args:
        chars_by_conversation: Stored number of characters of each conversation that waits.
        sampled, logs: Which of these are in the sample, and their logs.
    """
    model, count = reading.model, len(chars_by_conversation)
    client = process.client_for(model)
    loaded = client.load(model.path, model.options, model.adapter, model.weights_copy)
    sample_tokens = sum(client.ask(CountTokens([[piece.text for piece in log] for log in logs])))
    sample_chars = sum(len(piece.text) for log in logs for piece in log)
    # A stored character count leaves out headers and calls, so the sample also gives log characters per stored one.
    overhead = sample_chars / max(1, sum(chars_by_conversation[sampled]))
    # All other tokens are estimated: the sample gives them per character, the table the characters.
    tokens_per_char = sample_tokens / max(1, sample_chars)
    log_tokens = [chars * overhead * tokens_per_char for chars in chars_by_conversation]
    asked_chars = _prompt_chars_per_log(reading.question, logs) * count
    tokens = sum(log_tokens) + asked_chars * tokens_per_char
    speed = model.tokens_per_s
    if speed is None:
        return Estimate(count, round(tokens), None, None, model.label)
    long = None if model.long is None else LongSpeed(*model.long)
    # A token is in the log that holds it, so the mean log of a token weighs each log by its tokens.
    if long is None and sum(n * n for n in log_tokens) > MIN_LONG_TOKENS * sum(log_tokens):
        sample_text = "".join(piece.text for log in logs for piece in log)
        long = LongSpeed(*client.ask(MeasureLong(sample_text)))
        record_long_speed(model, long.tokens_per_s, long.tokens)
    seconds = tokens / speed
    if long is not None:
        seconds += _attention_seconds(log_tokens, speed, long, int(loaded["context"]))
    cost = Estimate(count, round(tokens), tokens / seconds, seconds, model.label)
    minutes = reading.stage.minutes if isinstance(reading.stage, ReadingStage) else None
    if minutes is None or seconds <= 60 * minutes:
        return cost
    share = 60 * minutes / seconds
    return replace(
        cost,
        items=max(1, round(share * count)),
        tokens=round(share * tokens),
        seconds=60.0 * minutes,
        of=count,
    )


def _prompt_chars_per_log(question: Question, logs: Sequence[Sequence[LogPiece]]) -> float:
    """Returns the mean number of characters by which the prompt lengthens a log: it is asked once at each boundary."""
    boundaries_per_log = sum(len(boundaries(log)) for log in logs) / len(logs)
    prompt = question.prompt
    if prompt is None:
        return 0.0
    return boundaries_per_log * len(
        prompt.question + prompt.reply + prompt.end + prompt.continuation
    )


def _attention_seconds(
    log_tokens: Sequence[float], speed: float, long: LongSpeed, context: int
) -> float:
    """Returns the extra seconds of long logs over the time of their tokens at the speed of a short text.

    The time of a token grows with the tokens before it, so a log of n tokens takes `a * n + b * n * n`; the two
    speeds give a and b. A log over the context is read in windows, each at most as long as the context.
    """
    if long.tokens <= SPEED_TOKENS:
        return 0.0
    # b, in seconds for each token and token before it: the short speed was measured on `SPEED_TOKENS` tokens.
    growth = max(0.0, 1 / long.tokens_per_s - 1 / speed) / (long.tokens - SPEED_TOKENS)
    return sum(growth * n * max(0.0, min(n, context) - SPEED_TOKENS) for n in log_tokens)
