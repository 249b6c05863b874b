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


def handlers() -> Handlers:
    """Returns the handlers of this subject's requests, for one model process.

    Between requests the handler keeps a shared prefix in the cache of the model.
    """
    scorer: BoundaryScorer | None = None

    def score(session: ModelSession, request: Score) -> list[ItemScore]:
        """Returns the scores of the conversations of a request, in their order."""
        nonlocal scorer
        if scorer is None or scorer.model is not session.model:
            scorer = BoundaryScorer(session.model)
        session.claim_shared(scorer)
        return score_block(scorer, request.items, request.question, session.progress())

    return {Score: score}
