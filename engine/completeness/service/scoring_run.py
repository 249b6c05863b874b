"""A scoring run that is ready to start: its stages, and how a model reads the logs in it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.completeness.scoring import Question
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.scoring import ScoringStage
from engine.jobs.contract import Stage
from engine.model.catalog import LoadableModel


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
