"""A scoring run that is ready to start: its stages, how a model reads the logs in it, and what it costs.

The cost is estimated from a sample of the conversations that the run would read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from engine.project.project import Project
from engine.project.records import Estimate, StageCost

SAMPLED_CONVERSATIONS = 48
"""Number of conversations whose bytes are counted for an estimate; the others are assumed to have as many for each
character."""

TOKENS_PER_BYTE = 0.25
"""Tokens of a byte of a log, about the same in all languages."""

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


def estimate_scoring(
    project: Project,
    run: ScoringRun,
) -> Estimate:
    """Returns the work that is left, divided by the speed measured on this machine.

    Returns:
        An estimate whose speed and seconds are None when the model's speed was never measured here.
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
    return _estimate_reading(run.reading, chars_by_conversation, sampled, logs)


def _remaining_costs(project: Project, stages: Sequence[Stage]) -> list[StageCost]:
    """Returns the cost over endpoints of the remaining tasks in a run."""
    costs = []
    for stage in stages:
        if isinstance(stage, RemainingStage) and stage.model.endpoints:
            with project.reading() as conn:
                _, missing = stage.waiting(conn)
            if missing:
                costs.append(stage.estimate(sorted(missing)))
    return costs


def _estimate_reading(
    reading: ModelReading,
    chars_by_conversation: Sequence[int],
    sampled: slice,
    logs: Sequence[Sequence[LogPiece]],
) -> Estimate:
    """Returns the cost of reading what waits, as `estimate_scoring` does.

    Args:
        chars_by_conversation: Stored number of characters of each conversation that waits.
        sampled, logs: Which of these are in the sample, and their logs.
    """
    model, count = reading.model, len(chars_by_conversation)
    sample_bytes = sum(len(piece.text.encode()) for log in logs for piece in log)
    # The stored characters leave out headers and calls, and count no bytes: the sample gives bytes of log for each.
    bytes_per_char = sample_bytes / max(1, sum(chars_by_conversation[sampled]))
    asked_bytes = _prompt_chars_per_log(reading.question, logs) * count
    tokens = (sum(chars_by_conversation) * bytes_per_char + asked_bytes) * TOKENS_PER_BYTE
    speed = model.tokens_per_s
    if speed is None:
        return Estimate(count, round(tokens), None, None, model.label)
    seconds = tokens / speed
    cost = Estimate(count, round(tokens), speed, seconds, model.label)
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
