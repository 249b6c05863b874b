"""Dialogues on tasks from four data sets: schema-guided ones and Taskmaster 4, whose calls of an interface stand in
annotations, RecLLMSim, and "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025).

Schema-guided dialogues (Rastogi et al. 2020; also of MultiWOZ 2.2) have turns of a user and a system. A system turn may
hold the service call that was made before it; it becomes a tool call and its result. Annotations become truth or stay
in the original bytes only: no act, slot or state reaches a model.

In RecLLMSim people and simulated users plan with an assistant; a file is a conversation, in one of three schemas:
`LLM_agent_user` (simulated users, English), `real_human_user` (people, Chinese) and `human_exp_V2` (a further study
with people). All annotations become truth under their own names; those that the schemas share also under the names
that the rest of the program uses.

Laban et al. have messages and notes. A note gives the revealed shard, the category of a reply, or the score of an
answer. Notes become truth, each with the number of messages before it; they do not reach a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.base.conversation import Conversation, Message, ToolCall
from engine.formats.json_values import (
    BadRecord,
    as_object,
    kind_of,
    list_or_empty,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.normalize import (
    looks_like_messages,
    messages_of,
    read_in_turn,
    record_id,
)
from engine.formats.messages.times import created_at
from engine.formats.records import ParsedRecord, Reader

# Schema-guided dialogues

_SGD_ROLES = {"USER": "user", "SYSTEM": "assistant"}
"""Speakers of schema-guided dialogues -> the roles that they stand for."""

_SGD_ANNOTATIONS = ("actions", "slots", "state")
"""Keys of a frame (what a turn says about one service) that stay in the original record only."""

_SERVICE_NUMBER = re.compile(r"_\d+$")
"""Matches the number at the end of a service's name."""


def _recognize_sgd(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or "dialogue_id" not in record:
        return None
    turns = record.get("turns")
    first = turns[0] if isinstance(turns, list) and turns else None
    if isinstance(first, dict) and "speaker" in first and "utterance" in first:
        return "the records have `dialogue_id` and `turns` with speaker and utterance"
    return None


def _read_sgd(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft; truth are `services`, `intents`, and `goal`, which is made of the services.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    turns = record.get("turns")
    if not isinstance(turns, list):
        raise BadRecord(f"`turns` is {kind_of(turns)}, not a list")
    if not turns:
        raise BadRecord("no turns")
    messages: list[Message] = []
    intents: dict[str, None] = {}  # in the order in which they come
    left_out: set[tuple[int, str | int]] = set()
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict):
            raise BadRecord(f"turn {number} is {kind_of(turn)}, not an object")
        for frame in objects_in(turn.get("frames")):
            messages.extend(_service_call(frame))
            if (intent := _active_intent(frame)) is not None:
                intents[intent] = None
            left_out.update((id(frame), key) for key in _SGD_ANNOTATIONS)
        speaker = turn.get("speaker")
        role = _SGD_ROLES.get(speaker, speaker) if isinstance(speaker, str) else speaker
        messages.extend(messages_of({"role": role, "content": turn.get("utterance")}, number))
    services = record.get("services", [])
    truth: dict[str, Any] = {"services": services, "intents": list(intents)}
    names = list_or_empty(services)
    if names and all(isinstance(name, str) for name in names):
        truth["goal"] = "+".join(sorted({_SERVICE_NUMBER.sub("", name) for name in names}))
    external_id = record_id(record, ("dialogue_id",), fallback_id)
    conversation = Conversation(external_id, tuple(messages), {}, truth)
    return ParsedRecord(conversation, left_out=frozenset(left_out))


def _service_call(frame: Mapping[str, Any]) -> list[Message]:
    """Returns the tool call of a frame and its result as messages; [] if it has no call."""
    call = object_or_empty(frame.get("service_call"))
    method = call.get("method")
    if not isinstance(method, str):
        return []
    arguments = json.dumps(call.get("parameters"), ensure_ascii=False)
    results = json.dumps(frame.get("service_results", []), ensure_ascii=False)
    return [
        Message("assistant", "", tool_calls=(ToolCall(method, arguments),)),
        Message("tool", results, name=method),
    ]


def _active_intent(frame: Mapping[str, Any]) -> str | None:
    """Returns the active intent of a frame; None if it has none."""
    intent = object_or_empty(frame.get("state")).get("active_intent")
    return intent if isinstance(intent, str) and intent != "NONE" else None


SGD = Reader(
    "sgd",
    _recognize_sgd,
    _read_sgd,
    conditions=2,  # dialogue_id; turns with speaker and utterance
    title="schema-guided dialogues (Rastogi et al. 2020), also of MultiWOZ 2.2",
    sample="sgd.json",
)
"""Reads schema-guided dialogues."""


# Taskmaster 4, where a call is two annotations of an utterance, its name and its request; so is an answer. They come
# after what the user said, and before what the assistant says.

_CALL_ANNOTATION_NAMES = ("api_call", "request", "api_response", "response")
"""Names of the annotations of Taskmaster that are parts of a call or of its answer."""

_TASKMASTER_TRUTH = {"vertical": "goal", "scenario": "scenario", "instructions": "instructions"}
"""Fields of a record of Taskmaster that are truth -> the names that they get there."""


def _recognize_taskmaster(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or "conversation_id" not in record:
        return None
    utterances = record.get("utterances")
    if not isinstance(utterances, list) or not all(map(_is_utterance, utterances)):
        return None
    notes = (note for utterance in utterances for note in _call_annotations(utterance))
    if not any(note["name"] == "api_call" for note in notes):
        return None
    return "the records have `utterances[].annotations[]` with api_call, as of Taskmaster 4"


def _is_utterance(value: Any) -> bool:
    """Returns whether a value is an utterance with a speaker and a text."""
    return isinstance(value, dict) and isinstance(value.get("speaker"), str) and "text" in value


def _read_taskmaster(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of a record as a draft.

    Raises:
        BadRecord: An utterance is no message, or there is none.
    """
    record = as_object(record)
    messages: list[Message] = []
    left_out: set[tuple[int, str | int]] = set()
    utterances = record.get("utterances")
    if not isinstance(utterances, list):
        raise BadRecord("the utterances are no list")
    for utterance in map(as_object, utterances):
        calls = _call_annotations(utterance)
        left_out.add((id(utterance), "segments"))
        left_out.update((id(note), key) for note in calls for key in ("context", "name"))
        # Annotations that are no calls are facts. Where all are calls, none is left; an utterance without calls keeps
        # its annotations as they are.
        facts = without_keys(utterance, "speaker", "text", "segments")
        if calls or not facts.get("annotations"):
            notes = facts.pop("annotations", None) or ()
            if other_notes := [note for note in notes if note not in calls]:
                facts["annotations"] = other_notes
        number = len(messages) + 1
        message = {"role": utterance.get("speaker"), "content": utterance.get("text")}
        spoken = messages_of(message, number, facts=facts)
        called = list(_annotated_calls(calls, number))
        messages += [*spoken, *called] if spoken[0].role == "user" else [*called, *spoken]
    if not messages:
        raise BadRecord("no messages")
    truth = {name: record[key] for key, name in _TASKMASTER_TRUTH.items() if record.get(key)}
    read_fields = ("conversation_id", "utterances", *_TASKMASTER_TRUTH)
    fields = without_keys(record, *read_fields)
    external_id = record_id(record, ("conversation_id",), fallback_id)
    return ParsedRecord(
        Conversation(external_id, tuple(messages)),
        {**fields, **truth},
        frozenset(truth),
        left_out=frozenset(left_out),
    )


def _call_annotations(utterance: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the annotations of an utterance that are parts of calls and answers, in order."""
    return [
        note
        for note in objects_in(utterance.get("annotations"))
        if note.get("name") in _CALL_ANNOTATION_NAMES and isinstance(note.get("value"), str)
    ]


def _annotated_calls(notes: list[dict[str, Any]], number: int) -> Iterator[Message]:
    """Yields the calls and answers in the annotations of an utterance, as messages.

    Args:
        notes: The annotations that are parts of calls and answers.
        number: Number of the first message, from 1, for the reason of a BadRecord.
    """
    name = call_id = answering_name = ""
    for note in notes:
        kind, value, context = note["name"], note["value"], str(note.get("context", ""))
        if kind == "api_call":
            name, call_id = value, context
        elif kind == "api_response":
            answering_name = value
        elif kind == "request":
            call = {"name": name or "api", "arguments": value, "id": call_id or None}
            message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
            yield from messages_of(message, number)
        else:
            answer = {"role": "tool", "content": value, "name": answering_name or name or None}
            yield from messages_of({**answer, "tool_call_id": call_id or None}, number)


TASKMASTER_CALLS = Reader(
    "taskmaster_calls",
    _recognize_taskmaster,
    _read_taskmaster,
    conditions=5,  # conversation_id; utterances with speaker and text; annotations with api_call
    title="dialogues of Taskmaster 4, with calls of an interface",
    sample="taskmaster4.json",
)
"""Reads dialogues of Taskmaster 4."""


# RecLLMSim

_ENGLISH_TASKS = {
    "旅行规划": "travel planning",
    "技能学习规划": "skills learning planning",
    "礼物准备": "preparing gifts",
    "菜谱规划": "recipe planning",
    "new travel planning": "travel planning",
}
"""Chinese name -> English name of the four tasks, and one English name that means the same as another."""

_HALLUCINATION_ANSWERS = {"是": True, "否": False, "无法判断": None}
"""What people chose for whether an answer is invented -> whether it is; None where they could not say."""

_RATING_NUMBERS = {
    "Memorization": {"是": 1, "否": 0},
    "Detail": {"详细": 2, "一般": 1, "简略": 0},
    "Availability": {"很有用": 2, "有一定参考": 1, "不可用": 0},
    "Diversity": {"结果多样": 2, "一般": 1, "结果单一": 0},
}
"""Question of the questionnaire -> option -> number; in `Memorization`, 1 means that something was forgotten."""

_PREFERENCE_KEY = "preference_id"
"""Key that only records with a simulated user have."""

_QUESTIONNAIRE_KEY = "questionnaire"
"""Key of the questions that a person answered after the conversation."""

_MODEL_KEY = "chat_model"
"""Key of the name of the model, the only field of a record of RecLLMSim that is metadata."""


def _recognize_recllmsim(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not looks_like_messages(record.get("history")):
        return None
    if not isinstance(record.get("task_context"), str):
        return None
    for key in (_PREFERENCE_KEY, _QUESTIONNAIRE_KEY, "profile"):
        if key in record:
            return f"the records have `history`, `task_context` and `{key}`"
    return None


def _read_recllmsim(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft; all other fields but the name of the model become truth.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    history = record.get("history")
    if not isinstance(history, list):
        raise BadRecord(f"the messages are {kind_of(history)}, not a list")
    # what else stands beside a message are annotations, which become truth
    messages = tuple(replace(message, facts=None) for message in read_in_turn(history))
    meta = {_MODEL_KEY: record[_MODEL_KEY]} if _MODEL_KEY in record else {}
    remaining = without_keys(record, "history", "id", _MODEL_KEY)
    external_id = record_id(record, ("id",), fallback_id)
    truth = {**remaining, **_record_truth(record), **_turn_truth(history)}
    return ParsedRecord(Conversation(external_id, messages, meta, truth, created_at(record)))


def _record_truth(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a record says of the task, of its language and of the people, as truth."""
    task = record.get("task", record.get("task_type"))
    stated = record.get("language")
    assumed_language = "en" if _PREFERENCE_KEY in record else "zh"
    language = stated if stated in ("en", "zh") else assumed_language
    truth: dict[str, Any] = {"language": language}
    if isinstance(task, str):
        truth |= {"task": task, "goal": _ENGLISH_TASKS.get(task, task)}
    context = record.get("task_context_zh") if stated == "zh" else record.get("task_context")
    if isinstance(context, str):
        truth["goal_text"] = context
    strategy = object_or_empty(record.get("strategy_V3"))
    if "final" in strategy:
        truth["user_strategy"] = strategy["final"]
    return truth | _questionnaire_truth(record.get(_QUESTIONNAIRE_KEY))


def _questionnaire_truth(questions: Any) -> dict[str, Any]:
    """Returns the answers of the questionnaire as numbers and as words; an unknown option only as its words."""
    options = {
        str(question["summary"]): question["option"]
        for question in objects_in(questions)
        if "summary" in question and isinstance(question.get("option"), str)
    }
    numbers = {
        name: _RATING_NUMBERS[name][option]
        for name, option in options.items()
        if option in _RATING_NUMBERS.get(name, {})
    }
    return {"rating": numbers, "rating_options": options} if options else {}


def _turn_truth(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the annotations of turns: name -> one value for each message of the assistant or of the user, None if it
    has none; under `messages` one object for each message of the history."""
    answers = [message for message in history if message.get("role") == "assistant"]
    user_turns = [message for message in history if message.get("role") == "user"]
    hallucinations = [message.get("hallucination") for message in answers]
    annotations = {
        "hallucination": list(map(_is_hallucinated, hallucinations)),
        "hallucination_memo": [object_or_empty(value).get("memo") for value in hallucinations],
        "satisfaction": [_rating_number(message.get("satisfaction")) for message in answers],
        "unsatisfied_reason": [message.get("reason") for message in answers],
        "user_intents": [message.get("intent") for message in user_turns],
    }
    stated_annotations = {
        name: values
        for name, values in annotations.items()
        if any(value is not None for value in values)
    }
    others = [without_keys(message, "role", "content") for message in history]
    return stated_annotations | ({"messages": others} if any(others) else {})


def _is_hallucinated(value: Any) -> bool | None:
    """Returns whether an annotation says that an answer is hallucinated; None if it says neither."""
    if isinstance(value, dict):
        value = value.get("hallucination")
    if isinstance(value, bool):
        return value
    return _HALLUCINATION_ANSWERS.get(value) if isinstance(value, str) else None


def _rating_number(value: Any) -> int | None:
    """Returns a number from 1 to 5 that is given as a number or as text; None for anything else."""
    if isinstance(value, str) and len(value) == 1 and value.isdecimal():
        value = int(value)
    is_rating = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 5
    return value if is_rating else None


RECLLMSIM = Reader(
    "recllmsim",
    _recognize_recllmsim,
    _read_recllmsim,
    conditions=2,  # history with role and content; task_context, beside one of three fields
    title="the three studies of RecLLMSim",
)
"""Reads the three studies of RecLLMSim."""


# Laban et al.

_SHARDED_META = ("user_model", "system_model", "dataset_fn", "git_version")
"""Fields of a record of Laban et al. that are metadata."""


def _recognize_sharded(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("conv_type"), str):
        return None
    if not looks_like_messages(record.get("trace")):
        return None
    return "the records have `conv_type` and `trace` with role and content"


def _read_sharded(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
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
        if isinstance(item, dict) and item.get("role") == "log":
            note_fields = without_keys(item, "role", "content")
            notes.append({"after": len(spoken), "note": item.get("content"), **note_fields})
        else:
            spoken.append(item)
    meta = {name: record[name] for name in _SHARDED_META if name in record}
    remaining = without_keys(record, "trace", *_SHARDED_META)
    truth = {**remaining, "condition": record.get("conv_type"), "notes": notes}
    if isinstance(record.get("task"), str):
        truth["goal"] = record["task"]
    if isinstance(record.get("score"), int | float):
        truth["reward"] = record["score"]
        truth["complete"] = record["score"] == 1
    first = object_or_empty(spoken[0] if spoken else None)
    external_id = record_id(record, ("conv_id",), fallback_id)
    return ParsedRecord(
        Conversation(external_id, tuple(read_in_turn(spoken)), meta, truth, created_at(first))
    )


SHARDED_LOGS = Reader(
    "sharded_logs",
    _recognize_sharded,
    _read_sharded,
    conditions=2,  # conv_type; trace with role and content
    title='logs of "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025)',
)
"""Reads the logs of Laban et al."""
