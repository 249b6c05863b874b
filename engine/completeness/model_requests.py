"""The request that scores conversations, and its handler in the model process."""

from __future__ import annotations

from collections.abc import Sequence

from engine.completeness.scoring import BoundaryScorer, ItemScore, LogItem, Question, score_block
from engine.model.process.protocol import Request
from engine.model.process.session import Handlers, ModelSession


class Score(Request[list[ItemScore]], frozen=True):
    """Scores one block of conversations; see `engine.completeness.scoring.score_block`. The count of progress is tokens
    read."""

    items: Sequence[LogItem]
    question: Question


class ModelScorer:
    """Scores with the model of the process; between requests it keeps a shared prefix in the cache of the model."""

    def __init__(self) -> None:
        """Loads nothing."""
        self._scorer: BoundaryScorer | None = None

    def score(self, session: ModelSession, request: Score) -> list[ItemScore]:
        """Returns the scores of the conversations of a request, in their order."""
        if self._scorer is None or self._scorer.model is not session.model:
            self._scorer = BoundaryScorer(session.model)
        session.claim_shared(self._scorer)
        return score_block(self._scorer, request.items, request.question, session.progress())


def handlers() -> Handlers:
    """Returns the handlers of this subject's requests, for one model process."""
    return {Score: ModelScorer().score}
