"""Formats that a mapping file reads once their records are prepared.

Each public function takes the reader of a mapping file and returns one that prepares the records before: lines of
sessions of Gemini CLI and of chats of VS Code are put together, ticks of voice simulations of tau2 become messages,
vCons get turns whose speakers are named by words and not by numbers, and samples of lm-evaluation-harness get the
answer that the model finds likeliest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from engine.formats.json_values import first_filled, list_or_empty, object_or_empty, objects_in
from engine.formats.messages.roles import speaker_word
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import as_word, json_within
from engine.formats.records import Reader

_GEMINI_MESSAGE_TYPES = ("user", "gemini", "info", "warning", "error")
"""Types of lines of Gemini CLI that are messages."""

_STATE, _SET, _PUSH, _DELETE = range(4)
"""Kinds of lines of VS Code: the state of a session at its beginning, and changes of it."""

_SPEECH_WITHOUT_WORDS = "[audio]"
"""What stands for speech of which a log has no words."""


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
            _rewind(session.messages, value["$rewindTo"])
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


def _rewind(messages: dict[str, Any], first_id: Any) -> None:
    """Takes back a message and those after it; nothing if there is none of this id."""
    ids = list(messages)
    for message_id in ids[ids.index(first_id) :] if first_id in ids else []:
        del messages[message_id]


# A line of VS Code has the kind of a change (`kind`), the keys and positions that lead to what is changed (`k`), a new
# value (`v`) and, where a list is cut off before it grows, the length that stays (`i`).


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
        elif _apply_change(state, line):
            members.append(frame)
        else:
            yield frame._replace(reason="it changes what the session does not have")
    if members:
        yield joined_frame(members, state)


def _apply_change(state: Any, line: dict[str, Any]) -> bool:
    """Changes a state in place as a line says; returns False if the state does not have the place of the change."""
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


# A voice simulation of tau2 has ticks of equal length in place of messages; in each the user and the agent may say a
# chunk of an utterance, so that both may speak at once.


def tau2_ticks(simulation_reader: Reader) -> Reader:
    """Returns the reader of voice simulations of tau2, by the one of simulations with messages.

    Agent and user may speak at once, in chunks, one in each tick.
    """
    return replace(
        simulation_reader,
        name="tau2_ticks",
        title="voice simulations of tau2-bench, with ticks in place of messages",
        recognize=_recognize_ticks,
        arrange=partial(_add_field, "messages", _tick_messages),
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


def _tick_messages(record: dict[str, Any]) -> list[Any] | None:
    """Returns the messages that the chunks of a simulation add up to, in the order in which they begin; None if it has
    no ticks.

    A message of a speaker goes on until that speaker is silent for a tick, calls a tool, or begins another utterance.
    Results of tools are left as they are, whatever they are.
    """
    if _recognize_ticks(record) is None:
        return None
    messages: list[Any] = []
    speaking: dict[str, dict[str, Any] | None] = {}  # by role, the message that goes on
    for tick in map(object_or_empty, record["ticks"]):
        for side, role in (("user", "user"), ("agent", "assistant")):
            chunk = object_or_empty(tick.get(f"{side}_chunk"))
            words = chunk.get("content") or tick.get(f"{side}_transcript")
            text: str = words if isinstance(words, str) else ""
            utterances = list_or_empty(chunk.get("utterance_ids"))
            message = speaking.get(role)
            if not text and chunk.get("contains_speech") is not True:
                message = None
            elif message is None or not _is_same_utterance(message["utterances"], utterances):
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
            message["content"] = message["content"].strip() or _SPEECH_WITHOUT_WORDS
    return messages


def _is_same_utterance(utterances: list[Any], others: list[Any]) -> bool:
    """Returns whether chunks with these ids of utterances are of the same utterance; a chunk without ids may be of
    any."""
    return not utterances or not others or any(entry in utterances for entry in others)


# A vCon has dialogs with texts, and transcripts of spoken ones among its analyses; both name speakers by the numbers of
# its parties.


def vcon_with_turns(vcon_reader: Reader) -> Reader:
    """Returns the reader of vCons (draft-ietf-vcon-vcon-container) whose turns are put together under `turns`."""
    return replace(vcon_reader, arrange=partial(_add_field, "turns", _vcon_turns))


def _vcon_turns(vcon: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the texts and transcripts of the dialogs of a vCon as turns with speakers, in their order."""
    turns: list[dict[str, Any]] = []
    parties = objects_in(vcon.get("parties"))
    for position, dialog in enumerate(objects_in(vcon.get("dialog"))):
        # the first of the parties, or the one that is given in place of a list
        first_party, *_ = list_or_empty(dialog.get("parties")) or [dialog.get("parties")]
        if dialog.get("type") == "text":
            speaker, time = dialog.get("originator", first_party), dialog.get("start")
            text = dialog.get("body")
            turns.append({"speaker": _party(parties, speaker), "text": text, "time": time})
        for analysis in objects_in(vcon.get("analysis")):
            is_of_dialog = analysis.get("dialog") in (position, [position])
            if analysis.get("type") != "transcript" or not is_of_dialog:
                continue
            body = json_within(analysis.get("body"))
            spoken = body if isinstance(body, list) else object_or_empty(body).get("utterances")
            for turn in objects_in(spoken):
                text = first_filled(turn, "message", "text", "transcript") or ""
                turns.append({"speaker": _party(parties, turn.get("speaker")), "text": text})
    return turns


def _party(parties: list[dict[str, Any]], speaker: Any) -> str:
    """Returns the role of a party, or its name if it has no role; `speaker` as text if it is no number or name of a
    party."""
    names = [speaker_word(party) for party in parties]
    if isinstance(speaker, int) and 0 <= speaker < len(parties):
        return names[speaker] or str(speaker)
    return next(
        (name for party, name in zip(parties, names, strict=True) if speaker == party.get("name")),
        as_word(speaker),
    )


# A sample of lm-evaluation-harness has the requests that were made for it (`arguments`), one for each answer to choose
# from: `[context, answer]`, or `{"arg_0": context, "arg_1": answer}`. `resps` has what the model made of each.


def lm_eval_with_likeliest(sample_reader: Reader) -> Reader:
    """Returns the reader of samples of lm-evaluation-harness in which the likeliest of given answers is the model's."""
    return replace(sample_reader, arrange=partial(_add_field, "likeliest", _likeliest))


def _likeliest(sample: dict[str, Any]) -> str | None:
    """Returns the answer of a sample with the highest log-likelihood; None if not each of several answers has one.

    `resps` has a pair for each answer: its log-likelihood, and whether the model would have written it.
    """
    arguments = sample.get("arguments")
    requests = list(arguments.values()) if isinstance(arguments, dict) else list_or_empty(arguments)
    try:
        answers = [call["arg_1"] if isinstance(call, dict) else call[1] for call in requests]
        likelihoods = [float(response[0][0]) for response in sample["resps"]]
    except (LookupError, TypeError, ValueError):
        return None
    if len(answers) < 2 or len(answers) != len(likelihoods):
        return None
    answer = answers[likelihoods.index(max(likelihoods))]
    return (answer.strip() or None) if isinstance(answer, str) else None


def _add_field(
    name: str, value_of: Callable[[dict[str, Any]], Any], frames: Iterable[Frame]
) -> Iterator[Frame]:
    """Yields the records; each that is an object gets the field `name` with what `value_of` returns of it, unless that
    is None."""
    for frame in frames:
        is_readable = frame.reason is None and isinstance(frame.value, dict)
        value = value_of(frame.value) if is_readable else None
        yield frame if value is None else frame._replace(value={**frame.value, name: value})
