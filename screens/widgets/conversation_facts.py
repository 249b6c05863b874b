"""Reads everything known about one conversation; to be called on another thread. Without Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.completeness.records.requests import Request
from engine.completeness.records.scores import DecisionRule, RemainingRow, ScoreRow
from engine.conversations.records import (
    LeakRow,
    MessageRow,
)
from engine.goals.records import GoalOfConversation
from engine.opener.conversations import (
    ConversationRow,
)
from engine.opener.open_project import OpenProject
from engine.questions.records.triage import VerdictRow


@dataclass(frozen=True, slots=True)
class Facts:
    """A conversation with its messages, score, remaining tasks, verdict and leaks.

    Attributes:
        goals: Its goals, the first one first.
        requests: Its requests in order; one where no further one was found or marked.
    """

    row: ConversationRow
    messages: list[MessageRow]
    score: ScoreRow | None
    remaining: RemainingRow | None
    leaks: list[LeakRow]
    current: VerdictRow | None
    rule: DecisionRule
    goals: Sequence[GoalOfConversation] = ()
    requests: Sequence[Request] = ()

    @property
    def digits(self) -> int:
        """Significant digits of a probability, from the batch noise of the model that scored."""
        return number_format.digits_for(self.score.noise if self.score is not None else None)

    def shown(self, p: float | None) -> str:
        """A score with its significant digits, and with more where its state needs them."""
        if p is None:
            return number_format.probability(p)
        return number_format.probability(p, self.rule.digits(p, self.digits))


def load_facts(services: OpenProject, conversation_id: int) -> Facts:
    """Reads all facts; raises WorkbenchError when the conversation is gone."""
    conversations = services.conversations
    rows = conversations.rows([conversation_id])
    if not rows:
        raise WorkbenchError("This conversation is no longer in the project.", "Go on to another.")
    return Facts(
        row=rows[0],
        messages=conversations.messages(conversation_id),
        score=conversations.score(conversation_id),
        remaining=conversations.remaining(conversation_id),
        leaks=conversations.leaks(conversation_id),
        current=services.triage.current(conversation_id),
        rule=conversations.rule(),
        goals=conversations.goals(conversation_id),
        requests=services.requests.of_conversation(conversation_id),
    )
