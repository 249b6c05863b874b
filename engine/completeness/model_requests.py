"""The request that scores conversations, and its handler in the model process."""

from __future__ import annotations

from collections.abc import Sequence

from engine.completeness.kept_logs import KeptLogs
from engine.completeness.remaining_tasks import RemainingRequest
from engine.completeness.scoring import BoundaryScorer, ItemScore, LogItem, Question, score_block
from engine.model.process.protocol import Request
from engine.model.process.session import Handlers, ModelSession


class Score(Request[list[ItemScore]], frozen=True):
    """Scores one block of conversations; see `engine.completeness.scoring.score_block`. The count of progress is tokens
    read.

    Attributes:
        remaining: Remaining tasks to write in the same reading of the logs. They may be left out.
        growing: Whether these are logs that grow: what was read of them before is not read again, and what is read now
            is kept for the next time, as far as there is memory. Without a prompt only.
    """

    items: Sequence[LogItem]
    question: Question
    remaining: RemainingRequest | None = None
    growing: bool = False


class ModelScorer:
    """Scores with the model of the process.

    Between requests it keeps a shared prefix in the cache of the model, and the logs that grow.
    """

    def __init__(self) -> None:
        self._scorer: BoundaryScorer | None = None
        self._grown_logs = KeptLogs()

    def score(self, session: ModelSession, request: Score) -> list[ItemScore]:
        """Answers one request."""
        scorer = self.scorer(session)
        return score_block(
            scorer,
            request.items,
            request.question,
            session.progress(),
            writer=session.model,
            remaining=request.remaining,
            kept_logs=self._grown_logs if request.growing else None,
        )

    def scorer(self, session: ModelSession) -> BoundaryScorer:
        """Returns a scorer on the model of the session, which has what this one left in its cache."""
        if self._scorer is None:
            session.before_load.append(self._grown_logs.clear)
        if self._scorer is None or self._scorer.model is not session.model:
            self._scorer = BoundaryScorer(session.model)
        session.take(self._scorer)
        return self._scorer


def handlers() -> Handlers:
    """Returns the handlers of this subject's requests, for one model process."""
    return {Score: ModelScorer().score}
