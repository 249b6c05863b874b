"""Plays sharded conversations as in Laban et al. (2025): over several turns under SHARDED and SNOWBALL, else in one.

A shard is a piece of the instruction. FULL gives the instruction as it is, CONCAT all shards in one message, SNOWBALL
repeats earlier shards in each turn, and RECAP adds a turn with all of them to SHARDED.

The simulated user reveals at most one shard in each turn; where the model gives no usable reply, the next shard itself
is sent (a stand-in). A judge, which is a model too, sorts the replies of the assistant and copies answers out; a copied
answer must occur in the reply word for word. The trace has the messages, and notes between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from engine.model.chat import TRIES, Call, ChatMessage, Completion, Ending, Play
from engine.model.interface import Sampling
from engine.model.prompt_files import filled
from engine.model.reply_forms import UnreadableReply
from engine.model.structured_replies import ask_in_play
from engine.simulate.sharded.instruction import Shard
from engine.simulate.sharded.scenario import CATEGORIES, FORMAT, ONE_TURN, Case, Category, Trace
from engine.simulate.sharded.task import Evaluation, Task

_ELLIPSIS = re.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\.\.\.|…")
"""Matches the signs between the start and the end of an answer: `...` or `…`, perhaps in brackets."""

_EXTRACT_TOKENS = {"gen": 60, "prefix_suffix": 160}
"""Tokens of a reply that copies an answer of less than ten words, and of one that gives start and end of it."""

NO_SHARD = -1
"""The shard id of a turn that reveals no shard."""

MAX_IDLE_TURNS = 2
"""Largest number of consecutive turns without a new shard. After them the user must reveal one, so that every play
ends."""

_USER_TOKENS = 250
"""Longest reply of the simulated user, in tokens, JSON included."""

_CATEGORY_TOKENS = 60
"""Longest reply of the judge that names a category, in tokens."""


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
    """Returns the answer in a reply by the task's strategy; "" if three attempts find none."""
    if task.extraction == "full_response":
        return reply
    if task.extraction == "task_specific":
        return task.extract(reply)
    allow_ellipsis = task.extraction == "prefix_suffix"
    prompt = filled(
        texts["extract"],
        {"ANSWER_DESCRIPTION": task.answer_description, "CONVERSATION_SO_FAR": reply},
    )
    call = Call(
        module="extract",
        role="judge",
        messages=(ChatMessage("user", prompt),),
        max_tokens=_EXTRACT_TOKENS[task.extraction],
        seed=seed,
    )

    def quoted_part(extracted: ExtractedAnswer) -> str:
        """Returns the part of the reply that is quoted."""
        part = find_quoted_part(extracted.answer, reply, allow_ellipsis=allow_ellipsis)
        if part is None:
            raise UnreadableReply("The answer is not copied word for word")
        return part

    answer = yield from ask_in_play(call, ExtractedAnswer, quoted_part, TRIES)
    return answer or ""


def find_quoted_part(answer: str, reply: str, *, allow_ellipsis: bool) -> str | None:
    """Returns the part of the reply that an extracted answer quotes; None if the reply does not contain it.

    Args:
        allow_ellipsis: Whether `start [...] end` quotes everything from the start to the last occurrence of the end
            after it.
    """
    answer = answer.strip()
    if not answer:
        return None
    if answer in reply:
        return answer
    marks = list(_ELLIPSIS.finditer(answer)) if allow_ellipsis else []
    if not marks:
        return None
    first_mark, last_mark = marks[0], marks[-1]
    start, end = answer[: first_mark.start()].strip(), answer[last_mark.end() :].strip()
    if not start or not end:
        return None
    start_place = reply.find(start)
    end_place = reply.rfind(end)
    if start_place < 0 or end_place < start_place + len(start):
        return None
    return reply[start_place : end_place + len(end)]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One turn of the user.

    Attributes:
        shard_id: Id of the shard that it reveals; NO_SHARD for none.
        stand_in: Whether the text is the next shard itself, because the model gave no usable reply.
    """

    text: str
    shard_id: int
    stand_in: bool = False


def user_turn(case: Case, trace: Trace, number: int) -> Generator[Call, Completion, UserTurn]:
    """Returns the user's next turn; at least one shard must be unrevealed.

    Args:
        number: Number of the turn, from 0.
    """
    shards = case.instruction.shards
    revealed = trace.shards()
    scripted_text = case.task.user_turn(shards, len(revealed))
    if scripted_text is not None:
        return UserTurn(scripted_text, shards[len(revealed)].shard_id)
    opening, *later_shards = shards
    if not revealed:
        return UserTurn(opening.text, opening.shard_id)
    unrevealed = [shard for shard in shards if shard.shard_id not in revealed]
    prompt = filled(
        case.setting.texts["user"],
        {
            "CONVERSATION_SO_FAR": conversation(trace),
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
        max_tokens=_USER_TOKENS,
        seed=case.seed("user", number),
    )
    may_idle = _count_idle_turns(trace) < MAX_IDLE_TURNS
    offered = [shard.shard_id for shard in unrevealed] + ([NO_SHARD] if may_idle else [])
    temperature = case.setting.user_temperature
    turn = yield from ask_in_play(
        call,
        RevealedShard,
        _turn_of,
        (temperature, max(temperature, 1.0)),
        {"shard_id": {"enum": offered}},
    )
    next_shard, *_ = unrevealed
    return turn or UserTurn(next_shard.text, next_shard.shard_id, stand_in=True)


def _turn_of(reply: RevealedShard) -> UserTurn:
    """Returns the turn in a reply."""
    if not reply.response.strip():
        raise UnreadableReply("The response says nothing")
    return UserTurn(reply.response, reply.shard_id)


def conversation(trace: Trace) -> str:
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


@dataclass(frozen=True, slots=True)
class ShardedScenario(Case):
    """A case that can be played."""

    def play(self) -> Play:
        """Starts a play; the record of its ending is a log in the published format."""
        one_turn = self.condition in ONE_TURN
        trace = Trace(self.setting.moment, timed=not one_turn)
        trace.say("system", self.task.system_prompt())
        stand_ins = 0
        source: dict[str, Any] = {}
        if one_turn:
            yield from _play_one_turn(self, trace)
        else:
            stand_ins = yield from _play_turns(self, trace)
        if self.condition in ("recap", "recap-full"):
            source = {"source_conv_id": self.conv_id("sharded"), "source_is_correct": trace.correct}
            # The recap is scored anew.
            trace.score = None
            trace.correct = None
            yield from _play_recap(self, trace)
        record = {**self.record(trace.items, trace.score, trace.correct), **source}
        return Ending(record, FORMAT, _result_of(self, trace, stand_ins))


def _play_one_turn(case: Case, trace: Trace) -> Step:
    """Plays FULL, CONCAT or SHUFFLE-CONCAT; returns whether the answer is correct."""
    task = case.task
    if case.condition == "full":
        trace.say("user", task.full_prompt())
    elif case.condition == "concat":
        trace.say("user", task.concat_prompt(case.instruction.shards))
    else:
        trace.say("user", task.concat_prompt(case.shuffled()))
    reply = yield from _answer(case, trace)
    return (yield from _score(case, trace, reply, last=True))


def _play_turns(case: Case, trace: Trace) -> Generator[Call, Completion, int]:
    """Plays SHARDED or SNOWBALL; returns the number of user turns that had to be replaced by the shard itself."""
    stand_ins = 0
    turns: list[str] = []
    shards_left = len(case.instruction.shards)
    while shards_left:
        turn = yield from user_turn(case, trace, len(turns))
        stand_ins += turn.stand_in
        trace.say("user", _with_earlier_turns(case, turns, turn.text))
        turns.append(turn.text)
        if turn.shard_id != NO_SHARD:
            trace.note_revealed(turn.shard_id)
            shards_left -= 1
        reply = yield from _answer(case, trace)
        if (yield from _judge(case, trace, reply, last=not shards_left)):
            trace.note_completed()
            break
    return stand_ins


def _with_earlier_turns(case: Case, earlier_turns: list[str], new: str) -> str:
    """Returns the user's message; under SNOWBALL it repeats the earlier ones."""
    if case.condition != "snowball" or not earlier_turns:
        return new
    earlier = "\n".join(f"- {text}" for text in earlier_turns)
    return filled(case.setting.texts["snowball"], {"EARLIER": earlier, "NEW": new})


def _play_recap(case: Case, trace: Trace) -> Step:
    """Plays one more turn, in which the user repeats all shards or the full instruction; returns whether the answer is
    correct."""
    if case.condition == "recap":
        everything = case.task.concat_prompt(case.instruction.shards)
    else:
        everything = case.task.full_prompt()
    recap = filled(case.setting.texts["recap"], {"SAMPLE_TEXT": everything})
    trace.say("user", recap.rstrip("\n"))
    reply = yield from _answer(case, trace)
    return (yield from _judge(case, trace, reply, last=True))


def _answer(case: Case, trace: Trace) -> Generator[Call, Completion, str]:
    """Returns the assistant's reply to the conversation so far and adds it to the trace."""
    completion = yield Call(
        module="assistant",
        role="assistant",
        messages=trace.messages(),
        sampling=Sampling(temperature=case.setting.assistant_temperature),
        max_tokens=case.setting.max_tokens,
        seed=case.seed("assistant", len(trace.messages())),
    )
    trace.say("assistant", completion.text)
    return completion.text


def _judge(case: Case, trace: Trace, reply: str, *, last: bool) -> Step:
    """Classifies a reply and scores it if it attempts an answer; returns whether it is correct."""
    category: Category = "answer_attempt"
    if not case.task.always_attempts:
        category = yield from _classify(case, reply, len(trace.messages()))
    trace.note_category(category)
    if category != "answer_attempt":
        return False
    return (yield from _score(case, trace, reply, last=last))


def _classify(case: Case, reply: str, message_count: int) -> Generator[Call, Completion, Category]:
    """Returns the category of a reply; `discussion`, the broadest one, if the judge gives no usable reply.

    Args:
        message_count: Number of messages so far, which gives each reply a seed of its own.
    """
    if not reply.strip():
        return "missing"
    first, *rest = case.instruction.shards
    prompt = filled(
        case.setting.texts["classify"],
        {
            "INITIAL_SHARD": first.text,
            "SHARDS": list_shards(rest),
            "ANSWER_DESCRIPTION": case.task.answer_description,
            "CONVERSATION_SO_FAR": f"[assistant]\n{reply}",
        },
    )
    call = Call(
        module="classify",
        role="judge",
        messages=(ChatMessage("user", prompt),),
        max_tokens=_CATEGORY_TOKENS,
        seed=case.seed("classify", message_count),
    )
    limits = {"response_type": {"enum": CATEGORIES}}
    category = yield from ask_in_play(
        call, ReplyCategory, lambda reply: reply.response_type, TRIES[:2], limits
    )
    return category or "discussion"


def _score(case: Case, trace: Trace, reply: str, *, last: bool) -> Step:
    """Scores the answer in a reply; returns whether it is correct.

    Args:
        last: Whether all shards are revealed.
    """
    if case.task.scored_at_end and not last:
        evaluation = Evaluation(0.0, {"reason": "scored after the last shard only"})
        answer = reply
    else:
        seed = case.seed("extract", len(trace.messages()))
        answer = yield from extract_answer(case.task, reply, case.setting.texts, seed)
        evaluation = yield from case.task.evaluate(answer)
    return trace.note_evaluation(answer, evaluation.score, dict(evaluation.details))


def _result_of(case: Case, trace: Trace, stand_ins: int) -> dict[str, Any]:
    """Returns scores, counts and labels of a play."""
    turns = [message for message in trace.messages() if message.speaker == "user"]
    return {
        "task": case.instruction.task,
        "task_id": case.instruction.task_id,
        "condition": case.condition,
        "conv_type": case.conv_type,
        "conv_id": case.conv_id(),
        "model": case.setting.assistant,
        "run": case.run,
        "score": trace.score,
        "is_correct": trace.correct,
        "turns": len(turns),
        "shards": len(case.instruction.shards),
        "revealed": len(trace.shards()),
        "attempts": trace.attempts(),
        "categories": trace.categories(),
        "stand_ins": stand_ins,
    }
