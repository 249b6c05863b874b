"""The record of a simulated conversation, in the format of the published logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.model.chat import ChatMessage

Category = Literal[
    "answer_attempt", "clarification", "interrogation", "discussion", "hedge", "refuse", "missing"
]
CATEGORIES: tuple[Category, ...] = (
    "answer_attempt",
    "clarification",
    "interrogation",
    "discussion",
    "hedge",
    "refuse",
    "missing",
)
"""The categories of the assistant's replies."""

_SPEAKERS: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}


@dataclass(slots=True)
class Trace:
    """The messages of a conversation and the notes between them.

    Attributes:
        moment: `YYYY-MM-DD HH:MM:SS`, when the run began. It is the time of every item, because a play may not read the
            clock: playing it again must give the same record.
        timed: Whether messages have a time and notes a cost; the published logs with one user turn have neither.
        cost: Dollars of one reply, 0 for a local model; None if unknown, and then not in the record.
        score: Score of the last attempt; None before the first.
        correct: As in the published logs: True for a correct attempt, else None (False in logs of one user turn).
    """

    moment: str
    timed: bool = True
    cost: float | None = 0.0
    items: list[dict[str, Any]] = field(default_factory=list)
    score: float | None = None
    correct: bool | None = None

    def say(self, role: str, content: str) -> None:
        """Adds a message."""
        item: dict[str, Any] = {"role": role, "content": content}
        if self.timed:
            item["timestamp"] = self.moment
        if self.cost is not None and (role == "assistant" or (self.timed and role == "user")):
            item["cost_usd"] = self.cost
        self.items.append(item)

    def revealed(self, shard_id: int) -> None:
        """Adds the note that the last user message revealed this shard."""
        self._note({"type": "shard_revealed", "shard_id": shard_id})

    def classified(self, category: Category) -> None:
        """Adds the note with the category of the last reply."""
        self._note({"type": "system-verification", "response": {"response_type": category}})
        if self.cost is not None:
            self.items[-1]["cost_usd"] = self.cost

    def evaluated(self, answer: str, score: float, details: dict[str, Any]) -> bool:
        """Adds the note with the score of an answer; returns whether it is correct."""
        right = score == 1
        self.score = score
        self.correct = right if right or not self.timed else None
        self._note(
            {
                "type": "answer-evaluation",
                "exact_answer": answer,
                "is_correct": self.correct,
                "score": score,
                "evaluation_return": {"score": score, **details},
            }
        )
        return right

    def completed(self) -> None:
        """Notes that a correct answer ended the conversation."""
        self._note({"type": "conversation-completed", "is_correct": True})

    def messages(self) -> tuple[ChatMessage, ...]:
        """Returns the messages without the notes, for a prompt."""
        return tuple(self._messages())

    def attempts(self) -> int:
        """Returns the number of evaluated answers."""
        return sum(note["type"] == "answer-evaluation" for note in self._notes())

    def categories(self) -> list[Category]:
        """Returns the categories of the replies, in order."""
        return [
            note["response"]["response_type"]
            for note in self._notes()
            if note["type"] == "system-verification"
        ]

    def shards(self) -> list[int]:
        """Returns the ids of the revealed shards, in order."""
        return [note["shard_id"] for note in self._notes() if note["type"] == "shard_revealed"]

    def _messages(self) -> Iterator[ChatMessage]:
        for item in self.items:
            if speaker := _SPEAKERS.get(item["role"]):
                yield ChatMessage(speaker, item["content"])

    def _notes(self) -> Iterator[dict[str, Any]]:
        return (item["content"] for item in self.items if item["role"] == "log")

    def _note(self, content: dict[str, Any]) -> None:
        self.items.append({"role": "log", "content": content, "timestamp": self.moment})
