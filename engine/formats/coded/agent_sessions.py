"""Sessions and logs that a mapping file can nearly read: histories of Cline, telemetry of OpenClaw, sessions of Gemini
CLI as JSON Lines, chats of VS Code as changes of a state, voice simulations of tau2 as ticks, vCons whose turns name
parties by number, likelihoods of answers of lm-evaluation-harness.

Cline and programs made of it write messages of Anthropic, tool calls often as XML in the text. A result of a tool
stands in a message of the user that begins with `[name for 'what'] Result:`. It becomes the answer of a tool, unless
the user wrote something in it. Calls in the text stay there, as the model wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.accounting import MessageTexts
from engine.formats.coded.spans import first_filled
from engine.formats.json_values import (
    BadRecord,
    as_object,
    json_text,
    list_or_empty,
    object_or_empty,
    objects_in,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.inserted import with_context_apart
from engine.formats.messages.normalize import looks_like_message, read_in_turn
from engine.formats.messages.parts import texts_of
from engine.formats.messages.roles import speaker_word
from engine.formats.messages.times import as_time, created_at
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import as_word, json_within
from engine.formats.records import ParsedRecord, Reader

_CLINE_RESULT = re.compile(r"\s*\[([\w.-]+)(?: for [^\n]*)?\] Result:")
"""Beginning of a user's message that has the result of a tool."""
_CLINE_FEEDBACK = re.compile(r"<(feedback|user_message|answer)>")
"""Marks of what a user wrote into such a message."""
_CLINE_DETAILS = "<environment_details>"
"""Beginning of the part that the program adds to a message."""
_CLINE_CHECKED_MESSAGES = 6
"""Number of first messages in which the marks of Cline must appear."""

_OPENCLAW_EVENT_TYPES = ("message.", "agent.", "tool.", "llm.", "session.")
"""Beginnings of the types of events."""

_OPENCLAW_SUB_AGENT = ":subagent:"
"""Part of the key of a session that a sub-agent has."""

_OPENCLAW_OTHER_SESSION = "[Inter-session message]"
"""Beginning of a prompt that another session wrote."""

_OPENCLAW_ROLES = {"toolResult": "tool", "custom": "system", "bashExecution": "tool"}
"""The role for each name that OpenClaw gives a speaker."""

_OPENCLAW_REPEAT_DISTANCE = 3
"""Number of last messages that an event may repeat: `message.out` tells again what `message.sending` did."""

_GEMINI_MESSAGE_TYPES = ("user", "gemini", "info", "warning", "error")
"""Types of lines that are messages."""


def _recognize_cline(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, list) or not record or not all(map(looks_like_message, record[:1])):
        return None
    beginning = json_text(record[:_CLINE_CHECKED_MESSAGES])
    if _CLINE_DETAILS in beginning and ("<task>" in beginning or "] Result:" in beginning):
        return "the records are lists of messages with `<environment_details>`, as of Cline"
    return None


def _read_cline(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft.

    Raises:
        BadRecord: It is no list of messages.
    """
    if not isinstance(record, list):
        raise BadRecord("it is no list of messages")
    entries = map(_with_tool_role, record)
    messages = read_in_turn(
        message
        for entry in entries
        for message in (with_context_apart(entry) if isinstance(entry, dict) else [entry])
    )
    first = record[0]
    began = created_at({"timestamp": first.get("ts")}) if isinstance(first, dict) else None
    return ParsedRecord(Conversation(fallback_id, tuple(messages), created_at=began))


def _with_tool_role(item: Any) -> ChatMessage:
    """Returns a message with the role `tool` if it is the result of a tool, and with the name of that tool."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return item  # type: ignore[no-any-return]
    texts = texts_of(item.get("content"))
    if _has_result(item.get("content")) and all(text.startswith(_CLINE_DETAILS) for text in texts):
        return {**item, "role": "tool"}
    result = _CLINE_RESULT.match(texts[0]) if texts else None
    if result is None or any(map(_CLINE_FEEDBACK.search, texts)):
        return item
    return {**item, "role": "tool", "name": result[1]}


def _has_result(content: Any) -> bool:
    """Returns whether a content has a part that is the result of a tool."""
    return any(part.get("type") == "tool_result" for part in objects_in(content))


CLINE_HISTORY = Reader(
    "cline_history",
    _recognize_cline,
    _read_cline,
    conditions=4,
    title="conversation histories of Cline",
)
"""Reads the history of a task of Cline."""


# OpenClaw writes a line for each event, of which `agent.start` has the history of the session so far. A session is one
# conversation: the longest history, then what the events after it tell. Its sub-agents are sessions.


def _recognize_openclaw(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return None
    kind = record["type"]
    if kind.startswith(_OPENCLAW_EVENT_TYPES) and (
        "sessionKey" in record or (kind.startswith("message.") and "channel" in record)
    ):
        return "the records have `type` and `sessionKey` or `channel`, as telemetry of OpenClaw"
    return None


def _arrange_openclaw(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each session, in the order of their beginnings; broken lines come first.

    The whole file is in memory at once. Events without the key of a session that began belong to the last main session
    before them, which is one of no sub-agent.
    """
    members: list[Frame] = []
    for frame in frames:
        if frame.reason is not None or _recognize_openclaw(frame.value) is None:
            yield frame._replace(reason=frame.reason or "it is no event of OpenClaw")
        else:
            members.append(frame)
    keys = dict.fromkeys(
        str(frame.value.get("sessionKey"))
        for frame in members
        if frame.value["type"] == "agent.start"
    )
    main = next((key for key in keys if _OPENCLAW_SUB_AGENT not in key), next(iter(keys), ""))
    sessions: dict[str, list[Frame]] = {key: [] for key in keys}
    for frame in members:
        key = str(frame.value.get("sessionKey"))
        if key in keys and _OPENCLAW_SUB_AGENT not in key:
            main = key
        sessions.setdefault(key if key in keys else main, []).append(frame)
    for key, events in sessions.items():
        value = {"id": key, "events": [frame.value for frame in events]}
        yield joined_frame(events, value, number=events[0].number, name=key or None)


def _read_openclaw(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of the events of a session as a draft.

    Raises:
        BadRecord: No event has a message.
    """
    events = [entry for entry in as_object(record).get("events", ()) if isinstance(entry, dict)]
    lengths = [len(_history_of(event)) for event in events]
    longest = lengths.index(max(lengths)) if any(lengths) else 0
    items = [_message_of_history(entry) for entry in _history_of(events[longest])] if events else []
    for event in events[longest:]:
        message = _message_of_event(event)
        if message is not None and not any(
            _is_repeated(message, entry) for entry in items[-_OPENCLAW_REPEAT_DISTANCE:]
        ):
            items.append(message)
    messages = read_in_turn(items)
    rest = MessageTexts(messages).without(events)
    times = (as_time(event.get("timestamp", event.get("ts"))) for event in events)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=next(filter(None, times), None),
    )
    return ParsedRecord(conversation, {"events": rest} if rest else {})


def _history_of(event: dict[str, Any]) -> list[Any]:
    """Returns the messages so far that the start of an agent repeats; empty for other events."""
    history = event.get("messages")
    return history if isinstance(history, list) and event.get("type") == "agent.start" else []


def _message_of_history(item: Any) -> ChatMessage:
    """Returns an entry of a session's history in the form of a chat API."""
    if not isinstance(item, dict):
        raise BadRecord("a message of the history is no object")
    role = item.get("role")
    rest = {key: item[key] for key in item if key not in ("role", "toolCallId", "toolName")}
    message = {**rest, "role": _OPENCLAW_ROLES.get(str(role), role)}
    if item.get("toolCallId"):
        message["tool_call_id"] = item["toolCallId"]
    if item.get("toolName"):
        message["name"] = item["toolName"]
    return message


def _message_of_event(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message that an event tells; None if it tells none."""
    kind = event.get("type")
    if kind == "agent.start" and event.get("prompt"):
        prompt = event["prompt"]
        role = "system" if str(prompt).startswith(_OPENCLAW_OTHER_SESSION) else "user"
        return {"role": role, "content": prompt}
    if kind == "tool.start" and event.get("toolName"):
        call = {
            "name": event["toolName"],
            "arguments": event.get("params"),
            "id": event.get("toolCallId"),
        }
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if kind == "tool.end" and event.get("result") is not None:
        result = event["result"]
        text = result if isinstance(result, str | list) else json_text(result)
        answer = {"role": "tool", "content": text, "tool_call_id": event.get("toolCallId")}
        return {**answer, "name": event.get("toolName")}
    if kind in ("message.out", "message.sending") and isinstance(event.get("content"), str):
        return {"role": "assistant", "content": event["content"]}
    return None


def _is_repeated(message: ChatMessage, other: ChatMessage) -> bool:
    """Returns whether a message tells an earlier one again; equal calls and results of tools are ones of their own."""
    return message == other and message["role"] != "tool" and "tool_calls" not in message


OPENCLAW = Reader(
    "openclaw",
    _recognize_openclaw,
    _read_openclaw,
    arrange=_arrange_openclaw,
    conditions=4,
    title="telemetry of OpenClaw",
    sample="openclaw_telemetry.jsonl",
)
"""Reads the sessions in a file of telemetry."""


# Gemini CLI writes the session, then a line for each message, as often as it was changed. Lines that change the session
# (`$set`) or take messages back (`$rewindTo`) are applied; then the session is the object that older versions wrote,
# which the mapping file reads.


def gemini_cli_lines(session_reader: Reader) -> Reader:
    """Returns the reader of sessions as lines, by the one of sessions that are one object."""
    return replace(
        session_reader,
        name="gemini_cli_lines",
        title="sessions of Gemini CLI as JSON Lines",
        recognize=_recognize_gemini_lines,
        arrange=_arrange_gemini_lines,
        sample="",
    )


def _recognize_gemini_lines(record: Any) -> str | None:
    """Returns in words why a record looks like a line of Gemini CLI; None if it does not."""
    if not isinstance(record, dict):
        return None
    if _begins_gemini_session(record):
        return "the first record has `sessionId`, `projectHash` and `startTime`, as sessions of Gemini CLI"
    if _is_gemini_message(record):
        return "the records have `id`, `timestamp`, `content` and a `type` of Gemini CLI"
    return None


def _begins_gemini_session(record: dict[str, Any]) -> bool:
    """Returns whether a line begins a session; an object with its messages is one of older versions."""
    return record.keys() >= {"sessionId", "projectHash", "startTime"} and "messages" not in record


def _is_gemini_message(record: dict[str, Any]) -> bool:
    """Returns whether a line is a message of Gemini CLI, and not one of another program with the same keys."""
    required_keys = {"id", "timestamp", "content", "type"}
    keys_of_other_programs = {"message", "sessionId", "role", "payload"}
    return (
        record.keys() >= required_keys
        and record["type"] in _GEMINI_MESSAGE_TYPES
        and not record.keys() & keys_of_other_programs
    )


@dataclass(slots=True)
class _GeminiSession:
    """A session while its lines are read.

    Attributes:
        fields: The fields of the session, as of the last change.
        messages: The messages by id, as of the last change.
        lines: The lines that it is made of.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, Any] = field(default_factory=dict)
    lines: list[Frame] = field(default_factory=list)


def _arrange_gemini_lines(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each session of a file, after the lines that are broken."""
    sessions: list[_GeminiSession] = []
    for frame in frames:
        value = frame.value
        if frame.reason is not None or not isinstance(value, dict):
            yield frame._replace(reason=frame.reason or "it is no line of a session")
            continue
        if _begins_gemini_session(value) or not sessions:
            sessions.append(_GeminiSession())
        session = sessions[-1]
        if isinstance(value.get("$set"), dict):
            session.fields.update(value["$set"])
        elif "$rewindTo" in value:
            _rewind_gemini(session.messages, value["$rewindTo"])
        elif _is_gemini_message(value):
            session.messages[str(value["id"])] = value
        elif _begins_gemini_session(value):
            session.fields.update(value)
        else:
            yield frame._replace(reason="it is no line of a session")
            continue
        session.lines.append(frame)
    for session in sessions:
        if session.lines:
            messages = session.fields.get("messages") or list(session.messages.values())
            value = {**session.fields, "messages": messages}
            yield joined_frame(session.lines, value, number=session.lines[0].number)


def _rewind_gemini(messages: dict[str, Any], first_id: Any) -> None:
    """Takes back a message and those after it; nothing if there is none of this id."""
    ids = list(messages)
    for message_id in ids[ids.index(first_id) :] if first_id in ids else []:
        del messages[message_id]


_STATE, _SET, _PUSH, _DELETE = range(4)
"""Kinds of lines of VS Code: the state at the beginning, and its changes."""

_SPOKEN = "[audio]"
"""What stands for speech whose words the log does not have."""


def copilot_lines(session_reader: Reader) -> Reader:
    """Returns the reader of chats of VS Code as lines, by the one of chats that are one object."""
    return replace(
        session_reader,
        name="copilot_lines",
        title="chats of GitHub Copilot in VS Code as JSON Lines",
        recognize=_recognize_changes,
        arrange=_arrange_changes,
        conditions=3,
        sample="",
    )


def _recognize_changes(record: Any) -> str | None:
    """Returns in words why a record looks like a line of VS Code; None if it does not."""
    if not isinstance(record, dict) or not record.keys() <= {"kind", "k", "v", "i"}:
        return None
    if record.get("kind") == _STATE and "sessionId" in object_or_empty(record.get("v")):
        return "the first record has `kind` and the state of a session, as chats of VS Code"
    if record.get("kind") in (_SET, _PUSH, _DELETE) and isinstance(record.get("k"), list):
        return "the records have `kind`, `k` and `v`, as chats of VS Code"
    return None


def _arrange_changes(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for the session of a file, after the lines that are broken or do not fit the state."""
    state: Any = {}
    members: list[Frame] = []
    for frame in frames:
        line = frame.value
        if frame.reason is not None or _recognize_changes(line) is None:
            yield frame._replace(reason=frame.reason or "it is no line of a chat of VS Code")
        elif line["kind"] == _STATE:
            state = line["v"]
            members.append(frame)
        elif _change(state, line):
            members.append(frame)
        else:
            yield frame._replace(reason="it changes what the session does not have")
    if members:
        yield joined_frame(members, state)


def _change(state: Any, line: dict[str, Any]) -> bool:
    """Changes a state as a line says; returns whether it has the place of the change."""
    value: Any = state
    try:
        *way, last = line["k"]
        for step in way:
            value = value[step]
        if isinstance(value, dict) and not isinstance(last, str):
            return False
        if line["kind"] == _SET and isinstance(value, list) and last == len(value):
            value.append(line.get("v"))
        elif line["kind"] == _SET:
            value[last] = line.get("v")
        elif line["kind"] == _DELETE:
            del value[last]
        else:
            pushed = value.setdefault(last, []) if isinstance(value, dict) else value[last]
            del pushed[line.get("i", len(pushed)) :]
            pushed += list_or_empty(line.get("v"))
    except (LookupError, TypeError, AttributeError, ValueError):
        return False
    return True


def tau2_ticks(simulation_reader: Reader) -> Reader:
    """Returns the reader of voice simulations of tau2, by the one of simulations with messages.

    Agent and user may speak at once, in chunks, one in each tick.
    """
    return replace(
        simulation_reader,
        name="tau2_ticks",
        title="voice simulations of tau2-bench, with ticks in place of messages",
        recognize=_recognize_ticks,
        arrange=_arrange_ticks,
        conditions=4,
        sample="",
    )


def _recognize_ticks(record: Any) -> str | None:
    """Returns in words why a record looks like a voice simulation; None if it does not."""
    if not isinstance(record, dict) or record.get("messages"):
        return None
    ticks = list_or_empty(record.get("ticks"))
    if "task_id" in record and ticks and "agent_chunk" in object_or_empty(ticks[0]):
        return "the records have `task_id` and `ticks[].agent_chunk`, as voice simulations of tau2-bench"
    return None


def _arrange_ticks(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the simulations with the messages that their ticks add up to."""
    for frame in frames:
        if frame.reason is None and _recognize_ticks(frame.value):
            frame = frame._replace(
                value={**frame.value, "messages": _messages_of_ticks(frame.value["ticks"])}
            )
        yield frame


def _messages_of_ticks(ticks: list[Any]) -> list[Any]:
    """Returns the messages that chunks add up to, in the order in which they begin.

    A message of a speaker goes on until that speaker is silent for a tick, calls a tool, or begins another utterance.
    Results of tools are left as they are, whatever they are.
    """
    messages: list[Any] = []
    speaking: dict[str, dict[str, Any] | None] = {}  # by role, the message that goes on
    for tick in map(object_or_empty, ticks):
        for side, role in (("user", "user"), ("agent", "assistant")):
            chunk = object_or_empty(tick.get(f"{side}_chunk"))
            words = chunk.get("content") or tick.get(f"{side}_transcript")
            text: str = words if isinstance(words, str) else ""
            utterances = list_or_empty(chunk.get("utterance_ids"))
            message = speaking.get(role)
            if not text and chunk.get("contains_speech") is not True:
                message = None
            elif message is None or not _is_same(message["utterances"], utterances):
                time = chunk.get("timestamp") or tick.get("timestamp")
                message = {"role": role, "content": "", "timestamp": time, "utterances": utterances}
                messages.append(message)
            if message is not None:
                message["content"] += text
            if calls := list_or_empty(tick.get(f"{side}_tool_calls")):
                messages.append({"role": role, "content": "", "tool_calls": calls})
                message = None
            speaking[role] = message
            messages += list_or_empty(tick.get(f"{side}_tool_results"))
    for message in messages:
        if "utterances" in object_or_empty(message):
            message["content"] = message["content"].strip() or _SPOKEN
    return messages


def _is_same(utterances: list[Any], others: list[Any]) -> bool:
    """Returns whether chunks with these ids of utterances are of the same one, as far as they have any."""
    return not utterances or not others or any(entry in utterances for entry in others)


def with_turns(vcon_reader: Reader) -> Reader:
    """Returns the reader of vCons (draft-ietf-vcon-vcon-container) whose turns are put together under `turns`."""
    return replace(vcon_reader, arrange=_arrange_vcons)


def _arrange_vcons(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields vCons with the texts and transcripts of their dialogs as turns with speakers."""
    for frame in frames:
        if frame.reason is None and isinstance(frame.value, dict):
            frame = frame._replace(value={**frame.value, "turns": list(_vcon_turns(frame.value))})
        yield frame


def _vcon_turns(vcon: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the turns of the dialogs of a vCon, in their order."""
    parties = objects_in(vcon.get("parties"))
    for position, dialog in enumerate(objects_in(vcon.get("dialog"))):
        first, *_ = list_or_empty(dialog.get("parties")) or [dialog.get("parties")]
        if dialog.get("type") == "text":
            speaker, time = dialog.get("originator", first), dialog.get("start")
            yield {"speaker": _party(parties, speaker), "text": dialog.get("body"), "time": time}
        for analysis in objects_in(vcon.get("analysis")):
            is_of_dialog = analysis.get("dialog") in (position, [position])
            if analysis.get("type") != "transcript" or not is_of_dialog:
                continue
            body = json_within(analysis.get("body"))
            turns = body if isinstance(body, list) else object_or_empty(body).get("utterances")
            for turn in objects_in(turns):
                text = first_filled(turn, "message", "text", "transcript") or ""
                yield {"speaker": _party(parties, turn.get("speaker")), "text": text}


def _party(parties: list[dict[str, Any]], speaker: Any) -> str:
    """Returns the role of a party, else its name; the word for it itself if it is not the number or name of one."""
    names = [speaker_word(party) for party in parties]
    if isinstance(speaker, int) and 0 <= speaker < len(parties):
        return names[speaker] or str(speaker)
    return next(
        (name for party, name in zip(parties, names, strict=True) if speaker == party.get("name")),
        as_word(speaker),
    )


def with_likeliest(sample_reader: Reader) -> Reader:
    """Returns the reader of samples of lm-evaluation-harness in which the likeliest of given answers is the model's."""
    return replace(sample_reader, arrange=_arrange_samples)


def _arrange_samples(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields samples, of which those with likelihoods get the likeliest answer under `likeliest`."""
    for frame in frames:
        if frame.reason is None and (answer := _likeliest(object_or_empty(frame.value))):
            frame = frame._replace(value={**frame.value, "likeliest": answer})
        yield frame


def _likeliest(sample: dict[str, Any]) -> str | None:
    """Returns the answer of a sample with the highest log-likelihood; None if it has not several with one each.

    `resps` has a pair for each answer: its log-likelihood, and whether the model would have written it.
    """
    given = sample.get("arguments")
    requests = list(given.values()) if isinstance(given, dict) else list_or_empty(given)
    try:
        answers = [call["arg_1"] if isinstance(call, dict) else call[1] for call in requests]
        likelihoods = [float(response[0][0]) for response in sample["resps"]]
    except (LookupError, TypeError, ValueError):
        return None
    if len(answers) < 2 or len(answers) != len(likelihoods):
        return None
    answer = answers[likelihoods.index(max(likelihoods))]
    return answer.strip() if isinstance(answer, str) else None
