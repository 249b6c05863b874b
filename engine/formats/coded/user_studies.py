"""Logs of two studies: RecLLMSim, and "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025).

In RecLLMSim people and simulated users plan with an assistant; a file is a conversation, in one of three schemas:
`LLM_agent_user` (simulated users, English), `real_human_user` (people, Chinese) and `human_exp_V2` (a second study with
people). All annotations become truth under their own names; those that the schemas share also under the names that the
rest of the program uses.

Laban et al. have messages and notes. A note gives the revealed shard, the category of a reply, or the score of an
answer. Notes become truth, each with the number of messages before it; they do not reach a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.json_values import BadRecord, as_object, kind_of
from engine.formats.messages.normalize import looks_like_messages, read_in_turn, record_id
from engine.formats.messages.times import created_at
from engine.formats.records import ParsedRecord, Reader

TASKS = {
    "旅行规划": "travel planning",
    "技能学习规划": "skills learning planning",
    "礼物准备": "preparing gifts",
    "菜谱规划": "recipe planning",
    "new travel planning": "travel planning",
}
"""Chinese name -> English name of the four tasks; other names are English already."""

HALLUCINATED = {"是": True, "否": False, "无法判断": None}
"""What people chose for whether an answer is invented; None where they could not say."""
RATED = {
    "Memorization": {"是": 1, "否": 0},
    "Detail": {"详细": 2, "一般": 1, "简略": 0},
    "Availability": {"很有用": 2, "有一定参考": 1, "不可用": 0},
    "Diversity": {"结果多样": 2, "一般": 1, "结果单一": 0},
}
"""Option of the questionnaire -> number; in `Memorization`, 1 means that something was forgotten."""

_SIMULATED, _ASKED = "preference_id", "questionnaire"
_OF_A_MESSAGE = ("role", "content")
"""Keys of a message that are no annotations."""
_RECLLMSIM_META = ("chat_model",)
"""Fields of a record of RecLLMSim that are metadata."""
_LANGUAGES = ("en", "zh")
"""Codes of the languages of the studies."""

_SHARDED_META = ("user_model", "system_model", "dataset_fn", "git_version")
"""Fields of a record of Laban et al. that are metadata."""

NOTE = "log"
"""Role of an entry that is a note and no message."""


def _recognize_recllmsim(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not looks_like_messages(record.get("history")):
        return None
    if not isinstance(record.get("task_context"), str):
        return None
    kind_key = next((name for name in (_SIMULATED, _ASKED, "profile") if name in record), None)
    return (
        None if kind_key is None else f"the records have `history`, `task_context` and `{kind_key}`"
    )


def _read_recllmsim(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; all other fields but the name of the model become truth.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    history = record.get("history")
    # what else stands beside a message are annotations, which become truth
    if not isinstance(history, list):
        raise BadRecord(f"the messages are {kind_of(history)}, not a list")
    messages = tuple(replace(message, facts=None) for message in read_in_turn(history))
    meta = {name: record[name] for name in _RECLLMSIM_META if name in record}
    rest = {
        name: value
        for name, value in record.items()
        if name not in ("history", "id", *_RECLLMSIM_META)
    }
    external_id = record_id(record, ("id",), fallback_id)
    truth = {**rest, **_of_record(record), **_of_turns(history)}
    return ParsedRecord(Conversation(external_id, messages, meta, truth, created_at(record)))


def _of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a record says of the task, of its language and of the people, as truth."""
    task = record.get("task", record.get("task_type"))
    stated = record.get("language")
    assumed_language = "en" if _SIMULATED in record else "zh"
    language = stated if stated in _LANGUAGES else assumed_language
    truth: dict[str, Any] = {"language": language}
    if isinstance(task, str):
        truth |= {"task": task, "goal": TASKS.get(task, task)}
    context = record.get("task_context_zh") if stated == "zh" else record.get("task_context")
    if isinstance(context, str):
        truth["goal_text"] = context
    strategy = record.get("strategy_V3")
    if isinstance(strategy, dict) and "final" in strategy:
        truth["user_strategy"] = strategy["final"]
    return truth | _questionnaire(record.get(_ASKED))


def _questionnaire(questions: Any) -> dict[str, Any]:
    """Returns the answers of the questionnaire as numbers and as words; an unknown option only as its words."""
    if not isinstance(questions, list):
        return {}
    options = {
        str(question["summary"]): question["option"]
        for question in questions
        if isinstance(question, dict)
        and "summary" in question
        and isinstance(question.get("option"), str)
    }
    numbers = {
        name: RATED[name][option]
        for name, option in options.items()
        if option in RATED.get(name, {})
    }
    return {"rating": numbers, "rating_options": options} if options else {}


def _of_turns(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the annotations of turns: name -> one value for each assistant or user message, None if it has none."""
    answers = [message for message in history if message.get("role") == "assistant"]
    user_turns = [message for message in history if message.get("role") == "user"]
    annotations = {
        "hallucination": [_hallucinated(message.get("hallucination")) for message in answers],
        "hallucination_memo": [_memo(message.get("hallucination")) for message in answers],
        "satisfaction": [_number(message.get("satisfaction")) for message in answers],
        "unsatisfied_reason": [message.get("reason") for message in answers],
        "user_intents": [message.get("intent") for message in user_turns],
    }
    given_annotations = {
        name: values
        for name, values in annotations.items()
        if any(value is not None for value in values)
    }
    others = [
        {key: value for key, value in message.items() if key not in _OF_A_MESSAGE}
        for message in history
    ]
    return given_annotations | ({"messages": others} if any(others) else {})


def _hallucinated(value: Any) -> bool | None:
    """Returns whether an annotation says that an answer is hallucinated; None if it says neither."""
    if isinstance(value, dict):
        value = value.get("hallucination")
    if isinstance(value, bool):
        return value
    return HALLUCINATED.get(value) if isinstance(value, str) else None


def _memo(value: Any) -> Any:
    """Returns the memo in the annotation of a hallucination; None if it has none."""
    return value.get("memo") if isinstance(value, dict) else None


def _number(value: Any) -> int | None:
    """Returns a number from 1 to 5 that is given as a number or as text; None for anything else."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


RECLLMSIM = Reader(
    "recllmsim",
    _recognize_recllmsim,
    _read_recllmsim,
    conditions=2,
    title="the three studies of RecLLMSim",
)
"""Reads the three studies of RecLLMSim."""


def _recognize_sharded(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("conv_type"), str):
        return None
    if not looks_like_messages(record.get("trace")):
        return None
    return "the records have `conv_type` and `trace` with role and content"


def _read_sharded(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; in the truth, `reward` is the score and `complete` whether it was solved.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    trace = record.get("trace")
    if not isinstance(trace, list):
        raise BadRecord(f"`trace` is {kind_of(trace)}, not a list")
    spoken: list[Any] = []
    notes: list[dict[str, Any]] = []
    for item in trace:
        if isinstance(item, dict) and item.get("role") == NOTE:
            about = {key: value for key, value in item.items() if key not in ("role", "content")}
            notes.append({"after": len(spoken), "note": item.get("content"), **about})
        else:
            spoken.append(item)
    meta = {name: record[name] for name in _SHARDED_META if name in record}
    rest = {name: value for name, value in record.items() if name not in ("trace", *_SHARDED_META)}
    truth = {**rest, "condition": record.get("conv_type"), "notes": notes}
    if isinstance(record.get("task"), str):
        truth["goal"] = record["task"]
    if isinstance(record.get("score"), int | float):
        truth["reward"] = record["score"]
        truth["complete"] = record["score"] == 1
    first = spoken[0] if spoken and isinstance(spoken[0], dict) else {}
    external_id = record_id(record, ("conv_id",), fallback_id)
    return ParsedRecord(
        Conversation(external_id, tuple(read_in_turn(spoken)), meta, truth, created_at(first))
    )


SHARDED_LOGS = Reader(
    "sharded_logs",
    _recognize_sharded,
    _read_sharded,
    conditions=2,
    title='logs of "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025)',
)
"""Reads the logs of Laban et al."""
