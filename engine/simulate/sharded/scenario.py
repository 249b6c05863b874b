"""One sharded conversation to simulate (a case): its instruction, its condition, and its record in the published
logs.

The condition says how the shards, the pieces of the instruction, are given: `full` gives the instruction as it is,
`concat` and `shuffle-concat` all shards in one message, the others one shard a turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, get_args

from engine.model.chat import ChatMessage, seed_from
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Task

Category = Literal[
    "answer_attempt", "clarification", "interrogation", "discussion", "hedge", "refuse", "missing"
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
"""The categories of the assistant's replies."""


Condition = Literal[
    "full", "concat", "shuffle-concat", "sharded", "recap", "snowball", "recap-full"
]

ALL_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""All conditions."""

CONDITIONS = ALL_CONDITIONS[:-1]
"""The six of Laban et al., "LLMs Get Lost In Multi-Turn Conversation" (2025), in the order of their tables;
`recap-full` is like `recap`, but the last turn repeats the original text instead of the shards."""

FORMAT = "sharded_logs"
"""The import format of the records."""

ONE_TURN: tuple[Condition, ...] = ("full", "concat", "shuffle-concat")
"""Conditions in which the user has one turn: no model plays the user, and every reply is scored."""


@dataclass(slots=True)
class Trace:
    """The messages of a conversation and the notes between them.

    Attributes:
        moment: `YYYY-MM-DD HH:MM:SS`, when the run began. It is the time of every item, because a play may not read the
            clock: playing it again must give the same record.
        timed: Whether messages have a time; those of the published logs with one user turn have none.
        items: Messages and notes, as the published logs have them; a note has the role `log`.
        score: Score of the last attempt; None before the first.
        correct: As in the published logs: True for a correct attempt, else None (False in logs of one user turn).
    """

    moment: str
    timed: bool = True
    items: list[dict[str, Any]] = field(default_factory=list)
    score: float | None = None
    correct: bool | None = None

    def say(self, role: str, content: str) -> None:
        """Adds a message."""
        item: dict[str, Any] = {"role": role, "content": content}
        if self.timed:
            item["timestamp"] = self.moment
        self.items.append(item)

    def note_revealed(self, shard_id: int) -> None:
        """Adds the note that the last user message revealed this shard."""
        self._note({"type": "shard_revealed", "shard_id": shard_id})

    def note_category(self, category: Category) -> None:
        """Adds the note with the category of the last reply."""
        self._note({"type": "system-verification", "response": {"response_type": category}})

    def note_evaluation(self, answer: str, score: float, details: dict[str, Any]) -> bool:
        """Adds the note with the score of an answer; returns whether it is correct."""
        is_correct = score == 1
        self.score = score
        self.correct = is_correct if is_correct or not self.timed else None
        self._note(
            {
                "type": "answer-evaluation",
                "exact_answer": answer,
                "is_correct": self.correct,
                "score": score,
                "evaluation_return": {"score": score, **details},
            }
        )
        return is_correct

    def note_completed(self) -> None:
        """Adds the note that a correct answer ended the conversation."""
        self._note({"type": "conversation-completed", "is_correct": True})

    def messages(self) -> tuple[ChatMessage, ...]:
        """Returns the messages without the notes, for a prompt."""
        return tuple(
            ChatMessage(item["role"], item["content"])
            for item in self.items
            if item["role"] != "log"
        )

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

    def _notes(self) -> Iterator[dict[str, Any]]:
        """Yields the contents of the notes, in order."""
        return (item["content"] for item in self.items if item["role"] == "log")

    def _note(self, content: dict[str, Any]) -> None:
        """Adds a note after the last message."""
        self.items.append({"role": "log", "content": content, "timestamp": self.moment})


def place_of(conv_type: str, conditions: Sequence[str]) -> int:
    """Returns the index of a condition in `conditions`; their number if it is not among them.

    Args:
        conv_type: Name of the condition in the logs, perhaps with a number of shards and temperatures after it.
    """
    while conv_type not in conditions and "-" in conv_type:
        conv_type = conv_type.rpartition("-")[0]
    return conditions.index(conv_type) if conv_type in conditions else len(conditions)


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of all conversations of one simulation.

    Attributes:
        texts: The prompts, by name.
        assistant, user, system: Names of the models, for the logs; `system` classifies replies and extracts answers.
        dataset: File name of the instructions, for the logs.
        version: Version of this program, for the logs.
        moment: `YYYY-MM-DD HH:MM:SS`, when the simulation began.
        assistant_temperature, user_temperature: Sampling temperatures.
        max_tokens: Longest reply of the assistant, in tokens.
        seed: Determines the seeds of all calls.
    """

    texts: Mapping[str, str]
    assistant: str
    user: str
    system: str
    dataset: str
    version: str
    moment: str
    assistant_temperature: float = 1.0
    user_temperature: float = 1.0
    max_tokens: int = 1000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One conversation on one instruction under one condition.

    Attributes:
        setting: What it shares with the other cases.
        task: The task that is bound to the instruction: its prompts and its scoring.
        run: Number of the repetition, from 0.
        merged: Whether shards were joined; the name of the condition then has the number of those that are left.
    """

    setting: Setting
    instruction: Instruction
    task: Task
    condition: Condition
    run: int
    merged: bool = False

    @property
    def key(self) -> str:
        """The name of the case, unique in its simulation, even if another instruction has the same `task_id`."""
        instruction = self.instruction
        return f"sharded/{instruction.task}/{instruction.task_id}@{instruction.digest}/{self.condition}/{self.run}"

    @property
    def conv_type(self) -> str:
        """The condition as the logs name it: with the number of shards if they were merged, and the temperatures unless
        they are 1."""
        assistant, user = self.setting.assistant_temperature, self.setting.user_temperature
        if self.condition in ONE_TURN:
            return self.condition if assistant == 1 else f"{self.condition}-t{assistant}"
        condition = (
            f"{self.condition}-s{len(self.instruction.shards)}" if self.merged else self.condition
        )
        if assistant == user == 1:
            return condition
        return f"{condition}-at{assistant}-ut{user}"

    def conv_id(self, condition: Condition | None = None) -> str:
        """Returns 24 hex digits over all that determines the conversation.

        Args:
            condition: Condition to use instead of that of the case.
        """
        setting = self.setting
        determinants = [
            self.instruction.record(),
            condition or self.condition,
            self.run,
            setting.seed,
            [setting.assistant, setting.user, setting.system],
            [setting.assistant_temperature, setting.user_temperature, setting.max_tokens],
            dict(setting.texts),
        ]
        canonical = json.dumps(determinants, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:24]

    def seed(self, *names: object) -> int:
        """Returns the seed of a call. RECAP has the seeds of SHARDED, so that both begin with the same replies.

        Args:
            names: What tells the call from the others of this case.
        """
        family = "sharded" if self.condition.startswith("recap") else self.condition
        return seed_from(self.setting.seed, self.instruction.task_id, family, self.run, *names)

    def shuffled(self) -> Sequence[Shard]:
        """Returns the shards in the random order of SHUFFLE-CONCAT."""
        shards = list(self.instruction.shards)
        Random(self.seed("shuffle")).shuffle(shards)
        return shards

    def record(
        self, items: Sequence[Mapping[str, Any]], score: float | None, correct: bool | None
    ) -> dict[str, Any]:
        """Returns the record of the conversation in the format of the published logs."""
        setting = self.setting
        is_one_turn = self.condition in ONE_TURN
        return {
            "conv_id": self.conv_id(),
            "conv_type": self.conv_type,
            "task": self.instruction.task,
            "task_id": self.instruction.task_id,
            "dataset_fn": setting.dataset,
            "assistant_model": setting.assistant,
            "system_model": "NA" if is_one_turn else setting.system,
            "user_model": "NA" if is_one_turn else setting.user,
            "git_version": setting.version,
            "trace": list(items),
            "is_correct": correct,
            "score": score,
        }
