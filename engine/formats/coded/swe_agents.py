"""Trajectories of SWE-agent, mini-SWE-agent, SWE-smith, SWE-Gym and others of software engineering, and of OpenHands.

A *trajectory* is the log of an agent that solves a task in an *environment*, such as a shell. What the environment
answers stands in messages of the user there; it becomes the answer of a tool. OpenHands has events with actions and
observations (version 0), or with kinds (version 1). A record of it is the list of events of a file, or an object with
them as `history`, as its evaluations write it.
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
    without_keys,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalize import looks_like_message, read_in_turn
from engine.formats.messages.parts import answer_text
from engine.formats.messages.roles import role_named
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import json_within
from engine.formats.records import ParsedRecord, Reader

# SWE-agent, mini-SWE-agent, and instances of SWE-bench

_OUTCOME_FIELDS = (
    "info", "resolved", "target", "exit_status", "patch", "generated_patch", "model_patch", "eval_logs",
    "test_result", "submission", "reward", "score", "report",
)  # fmt: skip
"""Fields that say how well the task was solved; they become truth."""

_ID_FIELDS = ("traj_id", "trajectory_id", "instance_id", "id")
"""Fields that may name a trajectory; the first of them that a record has is taken."""

_REPEATED_FIELDS = frozenset(("trajectory", "replay_config"))
"""Fields that repeat the messages or say how to run them again; they stay in the original record."""

_OBSERVATION_STARTS = (
    "<returncode>",
    "OBSERVATION:",
    "Observation:",
    "<output>",
    "EXECUTION RESULT",
)
"""Beginnings of messages in which the environment answers."""

_RESULT_STARTS = ("EXECUTION RESULT of [", "OBSERVATION:\n")
"""Beginnings of messages of SWE-Gym with the result of a command."""

_MESSAGES_FOR_DETECTION = 8
"""Number of messages at the beginning in which results of commands are looked for (`_OBSERVATION_STARTS`,
`_RESULT_STARTS`)."""


def _recognize_trajectory(record: Any) -> str | None:
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


def _recognize_mini(record: Any) -> str | None:
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


def _recognize_instance(record: Any) -> str | None:
    """Returns in words why a record looks like one of an instance of SWE-bench; None if it does not."""
    if not isinstance(record, dict):
        return None
    listed = json_within(record.get("messages"))
    if not isinstance(listed, list) or not listed or not looks_like_message(listed[0]):
        return None
    if "instance_id" in record and record.keys() & {*_OUTCOME_FIELDS, "traj_id", "run_id"}:
        return "the records have `messages`, `instance_id` and an outcome"
    if any(_is_command_result(item) for item in listed[:_MESSAGES_FOR_DETECTION]):
        return "the records have `messages` with the results of commands, as of SWE-Gym"
    return None


def _is_command_result(item: Any) -> bool:
    """Returns whether an item is the result of a command, which SWE-Gym gives the role of the user."""
    return (
        isinstance(item, dict)
        and item.get("role") == "user"
        and _text(item).startswith(_RESULT_STARTS)
    )


def _read_trajectory(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft; truth is what the record says of the end: exit status, patch, tests.

    Raises:
        BadRecord: It has no messages.
    """
    record = {"messages": record} if isinstance(record, list) else record
    if not isinstance(record, dict):
        raise BadRecord("it is no object")
    steps = list_or_empty(record.get("trajectory"))
    list_key = next((key for key in ("history", "messages") if json_within(record.get(key))), "")
    entries = json_within(record[list_key]) if list_key else _messages_of_steps(steps)
    entries = list_or_empty(entries)
    is_mini = bool(_recognize_mini(entries) or _recognize_mini(record))
    chat_messages = _with_tool_answers(entries, only_environment=is_mini or not list_key)
    if list_key == "history":
        chat_messages += _last_observation(steps, chat_messages, record.get("info"))
    left_out = {
        (id(record), key)
        for key in _REPEATED_FIELDS
        if key in record and (list_key or key != "trajectory")
    }
    truth = _outcomes(record)
    if is_mini:
        truth |= _pop_submission(chat_messages)
        extras = objects_in([item.get("extra") for item in entries])
        left_out |= {(id(extra), "response") for extra in extras}  # it has the message once more
    messages = read_in_turn(chat_messages)
    other_fields = without_keys(record, list_key, *_REPEATED_FIELDS, *_OUTCOME_FIELDS)
    fields = MessageTexts(messages).without(other_fields) or {}
    ids = (str(record[key]) for key in _ID_FIELDS if record.get(key) not in (None, ""))
    return ParsedRecord(
        Conversation(next(ids, fallback_id), tuple(messages)),
        {**fields, **truth},
        frozenset(truth),
        left_out=frozenset(left_out),
    )


def _outcomes(record: dict[str, Any]) -> dict[str, Any]:
    """Returns what a record says of the outcome, and `success` where it says whether the issue was resolved."""
    truth = {key: record[key] for key in _OUTCOME_FIELDS if record.get(key) is not None}
    solved = record.get("resolved", record.get("target"))
    if isinstance(solved, int) and solved in (0, 1):
        truth["success"] = bool(solved)
    return truth


def _messages_of_steps(steps: list[Any]) -> list[Any]:
    """Returns the messages of a trajectory that has no history.

    Raises:
        BadRecord: A step is no object.
    """
    messages: list[Any] = []
    for step in steps:
        if not isinstance(step, dict):
            raise BadRecord("a step of the trajectory is no object")
        if "content" in step and "role" in step:
            messages.append(step)
            continue
        if "role" in step:
            text = step.get("text") or step.get("system_prompt") or step.get("content") or ""
            messages.append({"role": step["role"], "content": text})
            continue
        if not messages:
            messages += step.get("query") or []
        text = step.get("response") or step.get("action") or ""
        messages.append({"role": "assistant", "content": text})
        if step.get("observation"):
            messages.append({"role": "tool", "content": step["observation"]})
    return messages


def _with_tool_answers(entries: list[Any], *, only_environment: bool) -> list[ChatMessage]:
    """Returns the messages, with those of the environment as answers of tools.

    Args:
        only_environment: Whether all that the user says after the first answer of the model is of the environment.

    Raises:
        BadRecord: A message is no object.
    """
    names_agents = any("agent" in entry for entry in objects_in(entries))
    messages: list[ChatMessage] = []
    model_has_spoken = False
    for entry in entries:
        if not isinstance(entry, dict):
            raise BadRecord(f"message {len(messages) + 1} is no object")
        message = {key: value for key, value in entry.items() if value is not None}
        kind = message.get("message_type")
        is_of_environment = (
            kind == "observation"
            or ((names_agents or only_environment) and kind is None)
            or _text(message).startswith(_OBSERVATION_STARTS)
        )
        is_prompt = message.get("role") == "user" and not message.get("is_demo")
        if model_has_spoken and is_of_environment and is_prompt:
            message["role"] = "tool"
        model_has_spoken |= role_named(str(message.get("role"))) == "assistant"
        if only_environment and isinstance(message.get("extra"), dict):
            message["extra"] = without_keys(message["extra"], "response")
        messages.append({"content": "", **_with_usual_fields(message)})
    return messages


def _with_usual_fields(message: ChatMessage) -> ChatMessage:
    """Returns a message with its calls and its content as chat APIs have them, without the thought and the action that
    its content repeats."""
    message = dict(message)
    calls, ids = message.get("tool_calls"), message.pop("tool_call_ids", None)
    if calls is not None and not isinstance(calls, list):
        message.pop("tool_calls")
    if isinstance(ids, list) and ids and message.get("role") == "tool":
        message["tool_call_id"] = ids[0]
    content = message.get("content")
    for key in ("thought", "action"):
        if isinstance(message.get(key), str) and message[key].strip() in str(content):
            message.pop(key)
    if isinstance(content, dict):
        message["content"] = json_text(content)
    return message


def _last_observation(steps: list[Any], history: list[ChatMessage], info: Any) -> list[ChatMessage]:
    """Returns the last answer of the environment as a message; [] if the history has it, or if it is what was
    submitted."""
    observation = object_or_empty(steps[-1] if steps else None).get("observation")
    is_missing = bool(history) and history[-1].get("role") == "assistant"
    is_submission = observation == object_or_empty(info).get("submission")
    if isinstance(observation, str) and observation and is_missing and not is_submission:
        return [{"role": "tool", "content": observation}]
    return []


def _pop_submission(chat_messages: list[ChatMessage]) -> dict[str, Any]:
    """Removes the last message if mini-SWE-agent writes in it what was submitted, and returns it as fields; {} if it is
    another one."""
    if len(chat_messages) < 2 or _text(chat_messages[-1]).startswith(_OBSERVATION_STARTS):
        return {}
    *_, before, last = chat_messages
    is_unasked = last.get("role") == "tool" and "tool_call_id" not in last
    if before.get("role") != "assistant" or not (is_unasked or last.get("role") == "exit"):
        return {}
    chat_messages.pop()
    return {"submission": last["content"], **({"end": last["extra"]} if "extra" in last else {})}


def _text(message: ChatMessage) -> str:
    """Returns the text of a message, or of its first part, without blanks before it; empty if there is none."""
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return content.lstrip() if isinstance(content, str) else ""


SWE_AGENT = Reader(
    "swe_agent",
    _recognize_trajectory,
    _read_trajectory,
    conditions=4,
    title="trajectories of SWE-agent",
    sample="sweagent_katy.traj",
)

MINI_SWE_AGENT = Reader(
    "mini_swe_agent",
    _recognize_mini,
    _read_trajectory,
    conditions=4,
    title="trajectories of mini-SWE-agent",
    sample="minisweagent.traj.json",
)

SWE_INSTANCES = Reader(
    "swe_instances",
    _recognize_instance,
    _read_trajectory,
    conditions=4,
    title="trajectories on instances of SWE-bench, as of SWE-smith and SWE-Gym",
    sample="doc/swesmith_traj.jsonl",
)


# OpenHands

_EVENT_LIST_KEYS = ("history", "trajectory", "events")
"""Keys of the list of events in a record of OpenHands."""

_OPENHANDS_ID_FIELDS = ("instance_id", "conversation_id", "session_id", "id")
"""Fields that may name a conversation of OpenHands; the first of them that a record has is taken."""

_OPENHANDS_OUTCOME_FIELDS = (
    "test_result", "report", "resolved", "error", "fine_grained_report", "eval_output", "instance",
)  # fmt: skip
"""Fields that say how well the task was solved; they become truth."""


def _recognize_openhands(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if _is_event(record):
        return "the records are events with `action` or `observation`, as of OpenHands"
    if isinstance(record, dict):
        for key in _EVENT_LIST_KEYS:
            events = _flat_events(record.get(key))
            if events and _is_event(events[0]):
                return f"the records have `{key}` with events of OpenHands"
    return None


def _is_event(event: Any) -> bool:
    """Returns whether a value is an event of either version."""
    if not isinstance(event, dict) or "source" not in event:
        return False
    kind = event.get("kind")
    if isinstance(kind, str):
        return kind.endswith(("Event", "Condensation"))
    is_action = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    observation, extras = event.get("observation"), event.get("extras")
    return is_action or (isinstance(observation, str) and isinstance(extras, dict))


def _flat_events(entries: Any) -> list[Any]:
    """Returns the events in a list, in which older evaluations have pairs of an action and its observation; [] for
    another value."""
    pairs = (entry if isinstance(entry, list) else [entry] for entry in list_or_empty(entries))
    return [event for pair in pairs for event in pair]


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


def _read_openhands(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft; truth are the results of tests and the instance that was to be solved.

    Raises:
        BadRecord: It has no events, or none of them is a message.
    """
    list_key = next((key for key in _EVENT_LIST_KEYS if object_or_empty(record).get(key)), None)
    if list_key is None:
        raise BadRecord("no messages")
    events = _flat_events(record[list_key])
    chat_messages: list[ChatMessage] = []
    for event in objects_in(events):
        read_event = _message_of_version_1 if "kind" in event else _message_of_version_0
        message = read_event(event)
        if message is not None and not _merged_into_last(chat_messages, message):
            chat_messages.append(message)
    messages = read_in_turn(chat_messages)
    texts = MessageTexts(messages)
    other_fields = without_keys(record, list_key, *_OPENHANDS_OUTCOME_FIELDS)
    fields = texts.without(other_fields) or {}
    if rest_of_events := texts.without(events):
        fields["events"] = rest_of_events
    truth = {key: record[key] for key in _OPENHANDS_OUTCOME_FIELDS if record.get(key) is not None}
    ids = (record[key] for key in _OPENHANDS_ID_FIELDS if isinstance(record.get(key), str))
    times = (as_time(event.get("timestamp")) for event in objects_in(events))
    conversation = Conversation(
        next(ids, fallback_id), tuple(messages), created_at=next(times, None)
    )
    unknown = tuple(event for event in events if not isinstance(event, dict))
    return ParsedRecord(conversation, {**fields, **truth}, frozenset(truth), unknown=unknown)


def _merged_into_last(chat_messages: list[ChatMessage], message: ChatMessage) -> bool:
    """Adds the calls of a message to the last one if the model wrote both in one answer; returns whether it did."""
    last = chat_messages[-1] if chat_messages else {}
    is_same = message.get("response") is not None and last.get("response") == message["response"]
    if not is_same or "tool_calls" not in message or "tool_calls" not in last:
        return False
    last["tool_calls"] = [*last["tool_calls"], *message["tool_calls"]]
    if message["content"] and message["content"] != last["content"]:
        last["content"] = "\n".join(filter(None, (last["content"], message["content"])))
    return True


# Events of OpenHands 0

_PROGRAM_EVENTS = frozenset(
    ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
)
"""Actions and observations of OpenHands itself, which are no messages."""

_MESSAGE_ACTIONS = frozenset(("message", "system"))
"""Actions of OpenHands that are a message."""

_ADDED_ARGUMENTS = (
    "thought", "hidden", "confirmation_state", "security_risk", "is_static", "blocking", "impl_source",
    "translated_ipython_code", "agent_state",
)  # fmt: skip
"""What OpenHands adds to the arguments of a call."""


def _message_of_version_0(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with `action` or `observation`; None if the event is no message."""
    action = _text_or_empty(event.get("action"))
    observation = _text_or_empty(event.get("observation"))
    if action in _PROGRAM_EVENTS or observation in _PROGRAM_EVENTS:
        return None
    facts = {"timestamp": event.get("timestamp")}
    call_metadata = object_or_empty(event.get("tool_call_metadata"))
    args = object_or_empty(event.get("args"))
    if action in _MESSAGE_ACTIONS:
        role = "user" if event.get("source") == "user" else "assistant"
        if action == "system":
            role = "system"
        content = args.get("content") or event.get("message") or ""
        urls = list_or_empty(args.get("image_urls"))
        pictures = [{"type": "image_url", "image_url": url} for url in urls]
        return {**facts, "role": role, "content": [content, *pictures] if pictures else content}
    if observation:
        content = event.get("content") or event.get("message") or ""
        message = {**facts, "role": "tool", "content": content}
        message["name"] = call_metadata.get("function_name") or observation
        if call_metadata.get("tool_call_id"):
            message["tool_call_id"] = call_metadata["tool_call_id"]
        return message
    return {**facts, **_call_of_action(action, args, call_metadata)} if action else None


def _call_of_action(
    action: str, args: dict[str, Any], call_metadata: dict[str, Any]
) -> ChatMessage:
    """Returns an action as a message of the assistant with a call, as the model wrote it if the event has its
    response."""
    response = object_or_empty(call_metadata.get("model_response"))
    call = _find_written_call(response, call_metadata) or {
        "name": call_metadata.get("function_name") or action,
        "arguments": without_keys(args, *_ADDED_ARGUMENTS),
        "id": call_metadata.get("tool_call_id"),
    }
    thought = "" if action == "think" else _text_or_empty(args.get("thought"))
    message: ChatMessage = {"role": "assistant", "tool_calls": [call]}
    message["content"] = _find_written_text(response) or thought
    if response.get("id"):
        message |= {"response": response["id"], "model": response.get("model")}
        message["usage"] = response.get("usage")
    return message


def _find_written_call(
    response: dict[str, Any], call_metadata: dict[str, Any]
) -> dict[str, Any] | None:
    """Returns the call of an event as the model wrote it; None if the response of the model does not have it."""
    for message in _answer_messages(response):
        for call in objects_in(message.get("tool_calls")):
            if call.get("id") == call_metadata.get("tool_call_id"):
                return call
    return None


def _find_written_text(response: dict[str, Any]) -> str:
    """Returns the first text in the response of a model; empty if there is none."""
    texts = (message.get("content") for message in _answer_messages(response))
    return next((text for text in texts if isinstance(text, str)), "")


def _answer_messages(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages in the response of a model."""
    return objects_in([choice.get("message") for choice in objects_in(response.get("choices"))])


def _text_or_empty(value: Any) -> str:
    """Returns a value that is text; empty for any other."""
    return value if isinstance(value, str) else ""


# Events of OpenHands 1


def _message_of_version_1(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with a kind, as OpenHands 1 writes events; None if the event is no message.

    A message is a system prompt, what somebody wrote, an action, which is a call, or an observation, which is an
    answer.
    """
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
            "arguments": arguments or without_keys(action, "kind"),
            "id": event.get("tool_call_id"),
        }
        draft = {**facts, "role": "assistant", "content": _as_parts(event.get("thought"))}
        draft |= {"tool_calls": [written], "response": event.get("llm_response_id")}
        return _with_reasoning(draft, event)
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        observation = event.get("observation", event.get("error", event.get("rejection_reason")))
        draft = {**facts, "role": "tool", "content": _observed_text(observation)}
        draft["name"] = event.get("tool_name")
        return {**draft, "tool_call_id": event.get("tool_call_id")}
    return None


def _with_reasoning(message: ChatMessage, source: dict[str, Any]) -> ChatMessage:
    """Adds the reasoning in an event or a message to a message, if there is any, and returns it."""
    if isinstance(source.get("reasoning_content"), str):
        message["reasoning_content"] = source["reasoning_content"]
    return message


def _as_parts(value: Any) -> list[Any]:
    """Returns a content, which may be a text, a part or a list of parts, as a list of parts."""
    if isinstance(value, str):
        return [value] if value else []
    return [value] if isinstance(value, dict) else list_or_empty(value)


def _observed_text(observation: Any) -> str:
    """Returns what a tool answered, as text."""
    if not isinstance(observation, dict):
        return answer_text(observation)
    for key in ("content", "output", "text", "error"):
        if observation.get(key):
            return answer_text(observation[key])
    fields = {key: value for key, value in observation.items() if value is not None}
    return json_text(without_keys(fields, "kind"))


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
"""Reads the events of a trajectory of OpenHands as one conversation."""
