"""Trajectories of SWE-agent, mini-SWE-agent, SWE-smith, SWE-Gym and others of software engineering, and of OpenHands.

What the environment answered stands in messages of the user there; it becomes the answer of a tool. OpenHands has
events with actions and observations (version 0), or with kinds (version 1). A record of it is the list of events of a
file, or an object with them as `history`, as its evaluations write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import (
    BadRecord,
    json_text,
    list_or_empty,
    object_or_empty,
    objects_in,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalize import looks_like_message, read_in_turn
from engine.formats.messages.parts import answer_text
from engine.formats.messages.roles import role_named
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
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


_LISTS = ("history", "trajectory", "events")
"""Keys of the list of events in a record."""
_OPENHANDS_IDS = ("instance_id", "conversation_id", "session_id", "id")
"""Fields that may name a conversation, the first that there is."""
_OPENHANDS_JUDGED = (
    "test_result",
    "report",
    "resolved",
    "error",
    "fine_grained_report",
    "eval_output",
    "instance",
)
"""Fields that say how well the task was solved; they become truth."""
_PROGRAM = frozenset(
    ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
)
"""Actions and observations of the program itself, which are no messages."""
_SPOKEN = frozenset(("message", "system"))
"""Actions that are a message."""

_NOT_ARGUMENTS = frozenset(
    (
        *("thought", "hidden", "confirmation_state", "security_risk", "is_static", "blocking"),
        *("impl_source", "translated_ipython_code", "agent_state"),
    )
)
"""What OpenHands adds to the arguments of a call."""


def _recognize_openhands(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if _is_event(record):
        return "the records are events with `action` or `observation`, as of OpenHands"
    if isinstance(record, dict):
        for key in _LISTS:
            events = _events(record.get(key))
            if events and _is_event(events[0]):
                return f"the records have `{key}` with events of OpenHands"
    return None


def _is_event(event: Any) -> bool:
    """Returns whether a value is an event of either version."""
    if not isinstance(event, dict):
        return False
    kind = event.get("kind")
    if isinstance(kind, str) and "source" in event:
        return kind.endswith(("Event", "Condensation"))
    acts = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    sees = isinstance(event.get("observation"), str) and isinstance(event.get("extras"), dict)
    return "source" in event and (acts or sees)


def _events(listed: Any) -> list[Any]:
    """Events in a list; older evaluations have pairs of an action and its observation."""
    if not isinstance(listed, list):
        return []
    return [event for entry in listed for event in (entry if isinstance(entry, list) else [entry])]


def _arrange_openhands(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields events that are records of their own as one frame, and other records as they are."""
    events: list[Frame] = []
    for frame in frames:
        if frame.reason is None and _is_event(frame.value):
            events.append(frame)
        else:
            yield frame
    if events:
        yield joined_frame(events, {"history": [frame.value for frame in events]})


def _read_openhands(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; truth are the results of tests and the instance that was to be solved.

    Raises:
        BadRecord: It has no events, or none of them is a message.
    """
    key = next((key for key in _LISTS if isinstance(record, dict) and record.get(key)), None)
    events = _events(record[key]) if key is not None else []
    items: list[ChatMessage] = []
    others: list[Any] = []
    unknown: list[Any] = []
    for event in events:
        if not isinstance(event, dict):
            unknown.append(event)
            continue
        read_event = _version_1 if "kind" in event else _version_0
        message = read_event(event)
        if message is None:
            others.append(event)
        elif not _join_to_last(items, message):
            items.append(message)
    messages = read_in_turn(items)
    texts = MessageTexts(messages)
    rest = {name: value for name, value in record.items() if name not in (key, *_OPENHANDS_JUDGED)}
    fields = texts.without(rest) or {}
    if rest_of_events := texts.without(events):
        fields["events"] = rest_of_events
    truth = {name: record[name] for name in _OPENHANDS_JUDGED if record.get(name) is not None}
    name = next(
        (record[id_key] for id_key in _OPENHANDS_IDS if isinstance(record.get(id_key), str)),
        fallback_id,
    )
    began = next(
        (as_time(event.get("timestamp")) for event in events if isinstance(event, dict)), None
    )
    conversation = Conversation(name, tuple(messages), created_at=began)
    return ParsedRecord(conversation, {**fields, **truth}, frozenset(truth), unknown=tuple(unknown))


def _join_to_last(items: list[ChatMessage], message: ChatMessage) -> bool:
    """Adds a call to the message before if the model wrote both in one answer."""
    before = items[-1] if items else {}
    same = message.get("response") is not None and before.get("response") == message["response"]
    if not same or "tool_calls" not in message or "tool_calls" not in before:
        return False
    before["tool_calls"] = [*before["tool_calls"], *message["tool_calls"]]
    if message["content"] and message["content"] != before["content"]:
        before["content"] = "\n".join(filter(None, (before["content"], message["content"])))
    return True


def _version_0(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with `action` or `observation`; None if it is none."""
    facts = {"timestamp": event.get("timestamp")}
    call_metadata = object_or_empty(event.get("tool_call_metadata"))
    args = object_or_empty(event.get("args"))
    action = _text_or_empty(event.get("action"))
    observation = _text_or_empty(event.get("observation"))
    if action in _PROGRAM or observation in _PROGRAM:
        return None
    if action in _SPOKEN:
        role = "user" if event.get("source") == "user" else "assistant"
        if action == "system":
            role = "system"
        content = args.get("content") or event.get("message") or ""
        pictures = [
            {"type": "image_url", "image_url": url} for url in list_or_empty(args.get("image_urls"))
        ]
        return {**facts, "role": role, "content": [content, *pictures] if pictures else content}
    if observation:
        message = {
            **facts,
            "role": "tool",
            "content": event.get("content") or event.get("message") or "",
        }
        message["name"] = call_metadata.get("function_name") or observation
        if call_metadata.get("tool_call_id"):
            message["tool_call_id"] = call_metadata["tool_call_id"]
        return message
    if not action:
        return None
    response = object_or_empty(call_metadata.get("model_response"))
    call = _find_written_call(response, call_metadata) or {
        "name": call_metadata.get("function_name") or action,
        "arguments": {key: args[key] for key in args if key not in _NOT_ARGUMENTS},
        "id": call_metadata.get("tool_call_id"),
    }
    content = _find_written_text(response)
    thought = args.get("thought") if action != "think" else None
    message = {**facts, "role": "assistant", "tool_calls": [call]}
    message["content"] = content or (thought if isinstance(thought, str) else "")
    if response.get("id"):
        message |= {"response": response["id"], "model": response.get("model")}
        message["usage"] = response.get("usage")
    return message


def _text_or_empty(value: Any) -> str:
    """Returns a value that is text; empty for any other."""
    return value if isinstance(value, str) else ""


def _answer_messages(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages in the response of a model."""
    return objects_in([choice.get("message") for choice in objects_in(response.get("choices"))])


def _find_written_call(
    response: dict[str, Any], call_metadata: dict[str, Any]
) -> dict[str, Any] | None:
    """Returns the call as the model wrote it."""
    for message in _answer_messages(response):
        for call in objects_in(message.get("tool_calls")):
            if call.get("id") == call_metadata.get("tool_call_id"):
                return call
    return None


def _find_written_text(response: dict[str, Any]) -> str:
    """Returns the first text in the response of a model; empty if there is none."""
    texts = (message.get("content") for message in _answer_messages(response))
    return next((text for text in texts if isinstance(text, str)), "")


def _version_1(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with a kind; None if it is none."""
    kind = event["kind"]
    facts = {"timestamp": event.get("timestamp")}
    if kind == "SystemPromptEvent":
        return {**facts, "role": "system", "content": _as_parts(event.get("system_prompt"))}
    if kind == "MessageEvent":
        message = object_or_empty(event.get("llm_message"))
        assumed_role = "user" if event.get("source") == "user" else "assistant"
        content = [*_as_parts(message.get("content")), *_as_parts(event.get("extended_content"))]
        draft = {**facts, "role": message.get("role") or assumed_role, "content": content}
        return _with_reasoning(draft, message)
    if kind == "ActionEvent":
        action = object_or_empty(json_within(event.get("action")))
        call = object_or_empty(event.get("tool_call"))
        arguments = call.get("arguments") or (call.get("function") or {}).get("arguments")
        written = {
            "name": event.get("tool_name") or call.get("name") or action.get("kind") or "action",
            "arguments": arguments or {key: action[key] for key in action if key != "kind"},
            "id": event.get("tool_call_id"),
        }
        draft = {**facts, "role": "assistant", "content": _as_parts(event.get("thought"))}
        draft |= {"tool_calls": [written], "response": event.get("llm_response_id")}
        return _with_reasoning(draft, event)
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        observation = event.get("observation", event.get("error", event.get("rejection_reason")))
        draft = {**facts, "role": "tool", "content": _observed_text(observation)}
        return {
            **draft,
            "name": event.get("tool_name"),
            "tool_call_id": event.get("tool_call_id"),
        }
    return None


def _with_reasoning(message: ChatMessage, source: dict[str, Any]) -> ChatMessage:
    """Adds the reasoning in `source` to a message, if there is any; returns that message."""
    if isinstance(source.get("reasoning_content"), str):
        message["reasoning_content"] = source["reasoning_content"]
    return message


def _as_parts(value: Any) -> list[Any]:
    """Returns a content, which may be a text, a part or a list of parts, as a list of parts."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        return [value]
    return list_or_empty(value)


def _observed_text(observation: Any) -> str:
    """Returns what a tool answered, as text."""
    if not isinstance(observation, dict):
        return answer_text(observation)
    for key in ("content", "output", "text", "error"):
        if observation.get(key):
            return answer_text(observation[key])
    return json_text(
        {key: value for key, value in observation.items() if key != "kind" and value is not None}
    )


OPENHANDS = Reader(
    "openhands",
    _recognize_openhands,
    _read_openhands,
    arrange=_arrange_openhands,
    conditions=4,
    title="trajectories of OpenHands",
    sample="openhands_output.jsonl",
    seen="0.39 and SDK 1, 2025-11",
)
"""Reads the events of a trajectory as one conversation."""
