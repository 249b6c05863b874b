"""Plays sharded conversations as in Laban et al. (2025): over several turns under SHARDED and SNOWBALL, else in one.

A shard is a piece of the instruction. FULL gives the instruction as it is, CONCAT all shards in one message,
SHUFFLE-CONCAT does so in random order, SNOWBALL repeats earlier shards in each turn, and RECAP adds a turn with all of
them to SHARDED.

The simulated user reveals at most one shard in each turn; where the model gives no usable reply, the next shard itself
is sent (a stand-in). A judge, which is a model too, sorts the replies of the assistant and copies answers out; a copied
answer must occur in the reply word for word. The record of a play is a log in the published format: its trace has the
messages, and notes between them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Literal, get_args

import msgspec

from engine.model.chat import (
    ATTEMPT_TEMPERATURES,
    Call,
    ChatMessage,
    Completion,
    Ending,
    Play,
    seed_from,
)
from engine.model.interface import Sampling
from engine.model.prompt_files import filled
from engine.model.reply_forms import UnreadableReply
from engine.model.structured_replies import ask_in_play
from engine.simulate.sharded.instruction import Instruction, Shard, Task

Category = Literal[
    "answer_attempt", "clarification", "interrogation", "discussion", "hedge", "refuse", "missing"
]
"""A category of a reply of the assistant."""

CATEGORIES: tuple[Category, ...] = get_args(Category)

Condition = Literal["full", "concat", "shuffle-concat", "sharded", "recap", "snowball"]
"""A way in which the user gives the instruction; the docstring of the module says what each is."""

CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""The conditions of Laban et al., "LLMs Get Lost In Multi-Turn Conversation" (2025), in the order of their tables."""

FORMAT = "sharded_logs"
"""The import format of the records."""

ONE_TURN: tuple[Condition, ...] = ("full", "concat", "shuffle-concat")
"""Conditions in which the user has one turn: no model plays the user, and every reply is scored."""

NO_SHARD = -1
"""The shard id of a turn that reveals no shard."""

MAX_IDLE_TURNS = 2
"""Largest number of consecutive turns without a new shard. After them the user must reveal one, so that every play
ends."""

_MAX_EXTRACT_TOKENS = 60
"""Longest reply that copies an answer of less than ten words, in tokens."""

_MAX_USER_TOKENS = 250
"""Longest reply of the simulated user, in tokens, JSON included."""

_MAX_CATEGORY_TOKENS = 60
"""Longest reply of the judge that names a category, in tokens."""


@dataclass(slots=True)
class Trace:
    """The messages of a conversation and the notes between them.

    Attributes:
        moment: `YYYY-MM-DD HH:MM:SS`, when the run began. It is the time of every item, because a play may not read the
            clock: playing it again must give the same record.
        timed: Whether messages have a time; those of the published logs with one user turn have none.
        items: Messages and notes, as the published logs have them; a note has the role `log`.
        score: Score of the last attempt; None before the first.
        correct: True if the last attempt is correct; else False in logs of one user turn, and None in others, as the
            published logs have it.
    """

    moment: str
    timed: bool = True
    items: list[dict[str, Any]] = field(default_factory=list)
    score: float | None = None
    correct: bool | None = None

    def add_message(self, role: str, content: str) -> None:
        """Adds a message."""
        item: dict[str, Any] = {"role": role, "content": content}
        if self.timed:
            item["timestamp"] = self.moment
        self.items.append(item)

    def note(self, type: str, **content: Any) -> None:
        """Adds a note of a type after the last message."""
        note = {"role": "log", "content": {"type": type, **content}, "timestamp": self.moment}
        self.items.append(note)

    def note_evaluation(self, answer: str, score: float, details: dict[str, Any]) -> bool:
        """Adds the note with the score of an answer; returns whether it is correct."""
        is_correct = score == 1
        self.score = score
        self.correct = is_correct if is_correct or not self.timed else None
        self.note(
            "answer-evaluation",
            exact_answer=answer,
            is_correct=self.correct,
            score=score,
            evaluation_return={"score": score, **details},
        )
        return is_correct

    def messages(self) -> tuple[ChatMessage, ...]:
        """Returns the messages without the notes, for a prompt."""
        return tuple(
            ChatMessage(item["role"], item["content"])
            for item in self.items
            if item["role"] != "log"
        )

    def notes(self, type: str) -> list[dict[str, Any]]:
        """Returns the contents of the notes of a type, in order."""
        contents = [item["content"] for item in self.items if item["role"] == "log"]
        return [content for content in contents if content["type"] == type]

    def shards(self) -> list[int]:
        """Returns the ids of the revealed shards, in order."""
        return [note["shard_id"] for note in self.notes("shard_revealed")]


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
class ShardedScenario:
    """One conversation on one instruction under one condition.

    Attributes:
        setting: What it shares with the other conversations.
        instruction: The instruction that is played.
        task: The task that is bound to the instruction: its prompts and its scoring.
        condition: How its shards are given.
        run: Number of the repetition, from 0.
    """

    setting: Setting
    instruction: Instruction
    task: Task
    condition: Condition
    run: int

    @property
    def key(self) -> str:
        """The name of the conversation in its simulation, also where another instruction has the same `task_id`."""
        instruction = self.instruction
        return f"sharded/{instruction.task}/{instruction.task_id}@{instruction.digest}/{self.condition}/{self.run}"

    @property
    def conv_type(self) -> str:
        """The condition as the logs name it: with the temperatures unless they are 1."""
        assistant, user = self.setting.assistant_temperature, self.setting.user_temperature
        if self.condition in ONE_TURN:
            return self.condition if assistant == 1 else f"{self.condition}-t{assistant}"
        if assistant == user == 1:
            return self.condition
        return f"{self.condition}-at{assistant}-ut{user}"

    def play(self) -> Play:
        """Starts a play; the record of its ending is a log in the published format."""
        one_turn = self.condition in ONE_TURN
        trace = Trace(self.setting.moment, timed=not one_turn)
        trace.add_message("system", self.task.system_prompt())
        stand_ins = 0
        recap_source: dict[str, Any] = {}
        if one_turn:
            yield from _play_one_turn(self, trace)
        else:
            stand_ins = yield from _play_turns(self, trace)
        if self.condition == "recap":
            recap_source = {
                "source_conv_id": self.conv_id("sharded"),
                "source_is_correct": trace.correct,
            }
            # The recap is scored anew, after what the sharded conversation came to was noted.
            trace.score = None
            trace.correct = None
            yield from _play_recap(self, trace)
        record = {**self.record(trace), **recap_source}
        return Ending(record, FORMAT, _make_result(self, trace, stand_ins))

    def conv_id(self, condition: Condition | None = None) -> str:
        """Returns 24 hex digits over all that determines the conversation.

        Args:
            condition: Condition to use instead of its own.
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
            names: What tells the call from the others of this conversation.
        """
        family = "sharded" if self.condition == "recap" else self.condition
        return seed_from(self.setting.seed, self.instruction.task_id, family, self.run, *names)

    def shuffled_shards(self) -> Sequence[Shard]:
        """Returns the shards in the random order of SHUFFLE-CONCAT."""
        shards = list(self.instruction.shards)
        Random(self.seed("shuffle")).shuffle(shards)
        return shards

    def record(self, trace: Trace) -> dict[str, Any]:
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
            "trace": trace.items,
            "is_correct": trace.correct,
            "score": trace.score,
        }


Step = Generator[Call, Completion, bool]
"""A part of a play; returns True if it ended with a correct answer."""


class ExtractedAnswer(msgspec.Struct):
    """An answer, copied out of a reply."""

    answer: str


class RevealedShard(msgspec.Struct):
    """The next turn of the user, and the shard that it reveals."""

    response: Annotated[str, msgspec.Meta(min_length=1)]
    shard_id: int


class ReplyCategory(msgspec.Struct):
    """The category of a reply of the assistant."""

    response_type: Category


def extract_answer(
    task: Task, reply: str, texts: Mapping[str, str], seed: int
) -> Generator[Call, Completion, str]:
    """Returns the answer in a reply: all of it, or what a model copies out of it; "" if no attempt finds one."""
    if not task.extracts_answer:
        return reply
    prompt = filled(
        texts["extract"],
        {"ANSWER_DESCRIPTION": task.answer_description, "CONVERSATION_SO_FAR": reply},
    )
    call = Call(
        module="extract",
        role="judge",
        messages=(ChatMessage("user", prompt),),
        max_tokens=_MAX_EXTRACT_TOKENS,
        seed=seed,
    )

    def quoted_part(extracted: ExtractedAnswer) -> str:
        """Returns the part of the reply that is quoted.

        Raises:
            UnreadableReply: The part is not copied word for word.
        """
        part = extracted.answer.strip()
        if not part or part not in reply:
            raise UnreadableReply("The answer is not copied word for word")
        return part

    answer = yield from ask_in_play(call, ExtractedAnswer, quoted_part, ATTEMPT_TEMPERATURES)
    return answer or ""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One turn of the user.

    Attributes:
        text: What the user says.
        shard_id: Id of the shard that it reveals; NO_SHARD for none.
        stand_in: Whether the text is the next shard itself, because the model gave no usable reply.
    """

    text: str
    shard_id: int
    stand_in: bool = False


def ask_user(
    scenario: ShardedScenario, trace: Trace, number: int
) -> Generator[Call, Completion, UserTurn]:
    """Returns the user's next turn; at least one shard must be unrevealed.

    Args:
        number: Number of the turn, from 0.
    """
    shards = scenario.instruction.shards
    revealed = trace.shards()
    opening, *later_shards = shards
    if not revealed:
        return UserTurn(opening.text, opening.shard_id)
    unrevealed = [shard for shard in shards if shard.shard_id not in revealed]
    prompt = filled(
        scenario.setting.texts["user"],
        {
            "CONVERSATION_SO_FAR": conversation_text(trace),
            "SHARDS_REVEALED": list_shards(
                [shard for shard in later_shards if shard.shard_id in revealed]
            ),
            "SHARDS_NOT_REVEALED": list_shards(unrevealed),
        },
    )
    call = Call(
        module="user",
        role="user",
        messages=(ChatMessage("user", prompt),),
        max_tokens=_MAX_USER_TOKENS,
        seed=scenario.seed("user", number),
    )
    may_idle = _count_idle_turns(trace) < MAX_IDLE_TURNS
    offered = [shard.shard_id for shard in unrevealed] + ([NO_SHARD] if may_idle else [])
    temperature = scenario.setting.user_temperature
    # a second attempt, at 1 or above, differs from the first
    temperatures = temperature, max(temperature, 1.0)
    turn = yield from ask_in_play(
        call, RevealedShard, _turn_of, temperatures, {"shard_id": {"enum": offered}}
    )
    next_shard, *_ = unrevealed
    return turn or UserTurn(next_shard.text, next_shard.shard_id, stand_in=True)


def _turn_of(reply: RevealedShard) -> UserTurn:
    """Returns the turn in a reply.

    Raises:
        UnreadableReply: The response is empty.
    """
    if not reply.response.strip():
        raise UnreadableReply("The response says nothing")
    return UserTurn(reply.response, reply.shard_id)


def conversation_text(trace: Trace) -> str:
    """Returns the messages so far, without the system message, as text for a prompt."""
    return "\n\n".join(
        f"[{message.speaker}]\n{message.content}"
        for message in trace.messages()
        if message.speaker != "system"
    )


def list_shards(shards: Sequence[Shard]) -> str:
    """Returns shards as JSON for a prompt."""
    listed = [{"shard_id": shard.shard_id, "shard": shard.text} for shard in shards]
    return json.dumps(listed, ensure_ascii=False, indent=1)


def _count_idle_turns(trace: Trace) -> int:
    """Returns the number of user turns since the last one that revealed a shard."""
    turns = 0
    for item in reversed(trace.items):
        if item["role"] == "log" and item["content"]["type"] == "shard_revealed":
            break
        turns += item["role"] == "user"
    return turns


def _play_one_turn(scenario: ShardedScenario, trace: Trace) -> Step:
    """Plays FULL, CONCAT or SHUFFLE-CONCAT; returns whether the answer is correct."""
    task = scenario.task
    if scenario.condition == "full":
        trace.add_message("user", task.full_prompt())
    elif scenario.condition == "concat":
        trace.add_message("user", task.concat_prompt(scenario.instruction.shards))
    else:
        trace.add_message("user", task.concat_prompt(scenario.shuffled_shards()))
    reply = yield from _answer(scenario, trace)
    return (yield from _score(scenario, trace, reply))


def _play_turns(scenario: ShardedScenario, trace: Trace) -> Generator[Call, Completion, int]:
    """Plays SHARDED or SNOWBALL; returns the number of user turns that had to be replaced by the shard itself."""
    stand_ins = 0
    turns: list[str] = []
    shards_left = len(scenario.instruction.shards)
    while shards_left:
        turn = yield from ask_user(scenario, trace, len(turns))
        stand_ins += turn.stand_in
        trace.add_message("user", _with_earlier_turns(scenario, turns, turn.text))
        turns.append(turn.text)
        if turn.shard_id != NO_SHARD:
            trace.note("shard_revealed", shard_id=turn.shard_id)
            shards_left -= 1
        reply = yield from _answer(scenario, trace)
        if (yield from _judge(scenario, trace, reply)):
            trace.note("conversation-completed", is_correct=True)
            break
    return stand_ins


def _with_earlier_turns(scenario: ShardedScenario, earlier_turns: list[str], new: str) -> str:
    """Returns the user's message; under SNOWBALL it repeats the earlier ones."""
    if scenario.condition != "snowball" or not earlier_turns:
        return new
    earlier = "\n".join(f"- {text}" for text in earlier_turns)
    return filled(scenario.setting.texts["snowball"], {"EARLIER": earlier, "NEW": new})


def _play_recap(scenario: ShardedScenario, trace: Trace) -> Step:
    """Plays one more turn, in which the user repeats all shards; returns whether the answer is correct."""
    everything = scenario.task.concat_prompt(scenario.instruction.shards)
    recap = filled(scenario.setting.texts["recap"], {"SAMPLE_TEXT": everything})
    trace.add_message("user", recap.rstrip("\n"))
    reply = yield from _answer(scenario, trace)
    return (yield from _judge(scenario, trace, reply))


def _answer(scenario: ShardedScenario, trace: Trace) -> Generator[Call, Completion, str]:
    """Returns the assistant's reply to the conversation so far and adds it to the trace."""
    completion = yield Call(
        module="assistant",
        role="assistant",
        messages=trace.messages(),
        sampling=Sampling(temperature=scenario.setting.assistant_temperature),
        max_tokens=scenario.setting.max_tokens,
        seed=scenario.seed("assistant", len(trace.messages())),
    )
    trace.add_message("assistant", completion.text)
    return completion.text


def _judge(scenario: ShardedScenario, trace: Trace, reply: str) -> Step:
    """Classifies a reply and scores it if it attempts an answer; returns whether it is correct."""
    category = yield from _classify(scenario, reply, len(trace.messages()))
    trace.note("system-verification", response={"response_type": category})
    if category != "answer_attempt":
        return False
    return (yield from _score(scenario, trace, reply))


def _classify(
    scenario: ShardedScenario, reply: str, message_count: int
) -> Generator[Call, Completion, Category]:
    """Returns the category of a reply; `discussion`, the broadest one, if the judge gives no usable reply.

    Args:
        message_count: Number of messages so far, which gives each reply a seed of its own.
    """
    if not reply.strip():
        return "missing"
    first, *rest = scenario.instruction.shards
    prompt = filled(
        scenario.setting.texts["classify"],
        {
            "INITIAL_SHARD": first.text,
            "SHARDS": list_shards(rest),
            "ANSWER_DESCRIPTION": scenario.task.answer_description,
            "CONVERSATION_SO_FAR": f"[assistant]\n{reply}",
        },
    )
    call = Call(
        module="classify",
        role="judge",
        messages=(ChatMessage("user", prompt),),
        max_tokens=_MAX_CATEGORY_TOKENS,
        seed=scenario.seed("classify", message_count),
    )
    limits = {"response_type": {"enum": CATEGORIES}}
    # two attempts: a reply without a category is rare, and `discussion` is a safe one
    category = yield from ask_in_play(
        call, ReplyCategory, lambda reply: reply.response_type, ATTEMPT_TEMPERATURES[:2], limits
    )
    return category or "discussion"


def _score(scenario: ShardedScenario, trace: Trace, reply: str) -> Step:
    """Scores the answer in a reply; returns whether it is correct."""
    seed = scenario.seed("extract", len(trace.messages()))
    answer = yield from extract_answer(scenario.task, reply, scenario.setting.texts, seed)
    evaluation = scenario.task.evaluate(answer)
    return trace.note_evaluation(answer, evaluation.score, dict(evaluation.details))


def _make_result(scenario: ShardedScenario, trace: Trace, stand_ins: int) -> dict[str, Any]:
    """Returns scores, counts and labels of a play; those of the record have the names that they have as truth."""
    turns = [message for message in trace.messages() if message.speaker == "user"]
    return {
        "task": scenario.instruction.task,
        "task_id": scenario.instruction.task_id,
        "condition": scenario.conv_type,
        "assistant_model": scenario.setting.assistant,
        "run": scenario.run,
        "score": trace.score,
        "turns": len(turns),
        "shards": len(scenario.instruction.shards),
        "revealed": len(trace.shards()),
        "attempts": len(trace.notes("answer-evaluation")),
        "categories": [
            note["response"]["response_type"] for note in trace.notes("system-verification")
        ],
        "stand_ins": stand_ins,
    }
