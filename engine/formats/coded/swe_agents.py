"""Trajectories of SWE-agent, mini-SWE-agent, SWE-smith, SWE-Gym and others of software engineering.

What the environment answered stands in messages of the user there; it becomes the answer of a tool.
"""

from __future__ import annotations

from typing import Any

from engine.base.conversation import Conversation
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import BadRecord, json_text, list_or_empty
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalize import looks_like_message, read_in_turn
from engine.formats.messages.roles import role_named
from engine.formats.paths import json_within
from engine.formats.records import ParsedRecord, Reader

_JUDGED = (
    *("info", "resolved", "target", "exit_status", "patch", "generated_patch", "model_patch"),
    *("eval_logs", "test_result", "submission", "reward", "score", "report"),
)
"""Fields that say how well the task was solved; they become truth."""
_IDS = ("traj_id", "trajectory_id", "instance_id", "id")
"""Fields that may name a trajectory, the first that there is."""
_OBSERVATIONS = ("<returncode>", "OBSERVATION:", "Observation:", "<output>", "EXECUTION RESULT")
"""Beginnings of messages in which the environment answers."""
_EXECUTED = ("EXECUTION RESULT of [", "OBSERVATION:\n")
"""Beginnings of messages of SWE-Gym with the result of a command."""
_LOOKED_AT = 8
"""Number of messages in which such results are looked for."""
_REPEATS = frozenset(("trajectory", "replay_config"))
"""Fields that repeat the messages or say how to run them again; they stay in the original record."""


def recognize_trajectory(record: Any) -> str | None:
    """Returns in words why a record looks like one of SWE-agent; None if it does not."""
    if not isinstance(record, dict):
        return None
    steps = record.get("trajectory")
    first = steps[0] if isinstance(steps, list) and steps else None
    if isinstance(first, dict) and first.keys() >= {"action", "observation"}:
        return "the records have `trajectory` with action and observation"
    if isinstance(first, dict) and "role" in first and first.keys() & {"text", "system_prompt"}:
        return "the records have `trajectory` with role and text"
    if looks_like_message(first) and "instance_id" in record:
        return "the records have `instance_id` and `trajectory` with role and content"
    return None


def recognize_instance(record: Any) -> str | None:
    """Returns in words why a record looks like one of an instance of SWE-bench; None if it does not."""
    if not isinstance(record, dict):
        return None
    listed = json_within(record.get("messages"))
    if not isinstance(listed, list) or not listed or not looks_like_message(listed[0]):
        return None
    if "instance_id" in record and record.keys() & {*_JUDGED, "traj_id", "run_id"}:
        return "the records have `messages`, `instance_id` and an outcome"
    if any(_is_executed(item) for item in listed[:_LOOKED_AT]):
        return "the records have `messages` with the results of commands, as of SWE-Gym"
    return None


def _is_executed(item: Any) -> bool:
    """Returns whether an item is the result of a command, which SWE-Gym gives the role of the user."""
    return (
        isinstance(item, dict) and item.get("role") == "user" and _text(item).startswith(_EXECUTED)
    )


def recognize_mini(record: Any) -> str | None:
    """Returns in words why a record looks like one of mini-SWE-agent; None if it does not."""
    if isinstance(record, dict) and isinstance(record.get("messages"), list):
        if str(record.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return "the records have `trajectory_format` of mini-SWE-agent"
        return None
    if not isinstance(record, list) or len(record) < 2 or not all(map(looks_like_message, record)):
        return None
    if any(str(item.get("content")).startswith("<returncode>") for item in record):
        return "the records are lists of messages with `<returncode>`, as of mini-SWE-agent"
    return None


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; truth is what is told of the end: exit status, patch, tests.

    Raises:
        BadRecord: It has no messages.
    """
    record = {"messages": record} if isinstance(record, list) else record
    if not isinstance(record, dict):
        raise BadRecord("it is no object")
    steps = list_or_empty(record.get("trajectory"))
    key = next(
        (key_of for key_of in ("history", "messages") if json_within(record.get(key_of))),
        "trajectory",
    )
    listed = json_within(record.get(key)) if key != "trajectory" else _messages_of_steps(steps)
    listed = list_or_empty(listed)
    mini = recognize_mini(listed) or recognize_mini(record)
    items = _with_tool_answers(listed, every=bool(mini) or key == "trajectory")
    if key == "history":
        items += _last_answer(steps, items, record.get("info"))
    left_out = {(id(record), key_of) for key_of in _REPEATS if key_of != key and key_of in record}
    truth = _truth(record)
    if mini:
        truth |= _take_submission(items)
        extras = [item.get("extra") for item in listed]  # the response has the message once more
        left_out |= {(id(extra), "response") for extra in extras if isinstance(extra, dict)}
    messages = read_in_turn(items)
    other_fields = {
        key_of: value
        for key_of, value in record.items()
        if key_of not in (key, *_REPEATS, *_JUDGED)
    }
    fields = MessageTexts(messages).without(other_fields) or {}
    name = next(
        (str(record[key_of]) for key_of in _IDS if record.get(key_of) not in (None, "")),
        fallback_id,
    )
    conversation = Conversation(name, tuple(messages))
    return ParsedRecord(
        conversation, {**fields, **truth}, frozenset(truth), left_out=frozenset(left_out)
    )


def _truth(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the judgments of a record, and `success` where it says whether the issue was resolved."""
    truth = {key: record[key] for key in _JUDGED if record.get(key) is not None}
    solved = record.get("resolved", record.get("target"))
    if isinstance(solved, int) and solved in (0, 1):
        truth["success"] = bool(solved)
    return truth


def _messages_of_steps(steps: list[Any]) -> list[Any]:
    """Returns the messages of a trajectory that has no history."""
    messages: list[Any] = []
    for step in steps:
        if not isinstance(step, dict):
            raise BadRecord("a step of the trajectory is no object")
        if "content" in step and "role" in step:
            messages.append(step)
            continue
        if "role" in step:
            text = next(
                (step[key] for key in ("text", "system_prompt", "content") if step.get(key)), ""
            )
            messages.append({"role": step["role"], "content": text})
            continue
        if not messages:
            messages += step.get("query") or []
        messages.append(
            {"role": "assistant", "content": step.get("response") or step.get("action") or ""}
        )
        if step.get("observation"):
            messages.append({"role": "tool", "content": step["observation"]})
    return messages


def _take_submission(items: list[ChatMessage]) -> dict[str, Any]:
    """Takes the last message out in which mini-SWE-agent writes what was submitted."""
    if len(items) < 2 or _text(items[-1]).startswith(_OBSERVATIONS):
        return {}
    ends = items[-1].get("role") == "exit" or (
        items[-1].get("role") == "tool" and "tool_call_id" not in items[-1]
    )
    if not ends or items[-2].get("role") != "assistant":
        return {}
    last = items.pop()
    return {"submission": last["content"], **({"end": last["extra"]} if "extra" in last else {})}


def _with_tool_answers(listed: list[Any], every: bool = False) -> list[ChatMessage]:
    """Returns the messages, with those of the environment as answers of tools.

    Args:
        every: Whether all that stands after the first answer of the model is of the environment.
    """
    agent = any(isinstance(item, dict) and "agent" in item for item in listed)
    messages: list[ChatMessage] = []
    written = False
    for item in listed:
        if not isinstance(item, dict):
            raise BadRecord(f"message {len(messages) + 1} is no object")
        message = {key: value for key, value in item.items() if value is not None}
        kind = message.get("message_type")
        of_agent = kind == "observation" or ((agent or every) and kind is None)
        answered = written and (of_agent or _text(message).startswith(_OBSERVATIONS))
        if answered and message.get("role") == "user" and not message.get("is_demo"):
            message["role"] = "tool"
        written = written or role_named(str(message.get("role"))) == "assistant"
        if every and isinstance(message.get("extra"), dict):
            message["extra"] = {
                key: value for key, value in message["extra"].items() if key != "response"
            }
        calls, ids = message.get("tool_calls"), message.pop("tool_call_ids", None)
        if calls is not None and not isinstance(calls, list):
            message.pop("tool_calls")
        if isinstance(ids, list) and ids and message.get("role") == "tool":
            message["tool_call_id"] = ids[0]
        content = message.get("content")
        for key in ("thought", "action"):  # what the content repeats
            if isinstance(message.get(key), str) and message[key].strip() in str(content):
                message.pop(key)
        if isinstance(content, dict):
            message["content"] = json_text(content)
        messages.append({"content": "", **message})
    return messages


def _text(message: ChatMessage) -> str:
    """Returns the text of a message, or of its first part, without blanks before it; empty if there is none."""
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return content.lstrip() if isinstance(content, str) else ""


def _last_answer(steps: list[Any], items: list[ChatMessage], info: Any) -> list[ChatMessage]:
    """Returns what the environment answered at last, which the history does not have; not what was submitted."""
    last = steps[-1] if steps and isinstance(steps[-1], dict) else {}
    observation = last.get("observation")
    submitted = info.get("submission") if isinstance(info, dict) else None
    if (
        isinstance(observation, str)
        and observation
        and observation != submitted
        and items
        and items[-1].get("role") == "assistant"
    ):
        return [{"role": "tool", "content": observation}]
    return []


SWE_AGENT = Reader(
    "swe_agent",
    recognize_trajectory,
    read,
    conditions=4,
    title="trajectories of SWE-agent",
    sample="sweagent_katy.traj",
)
"""Reads trajectories of SWE-agent."""
MINI_SWE_AGENT = Reader(
    "mini_swe_agent",
    recognize_mini,
    read,
    conditions=4,
    title="trajectories of mini-SWE-agent",
    sample="minisweagent.traj.json",
)
"""Reads trajectories of mini-SWE-agent."""
SWE_INSTANCES = Reader(
    "swe_instances",
    recognize_instance,
    read,
    conditions=4,
    title="trajectories on instances of SWE-bench, as of SWE-smith and SWE-Gym",
    sample="doc/swesmith_traj.jsonl",
)
"""Reads trajectories on instances of SWE-bench."""
