"""Logs whose records say less directly what a mapping file can read: chats of VS Code as changes of a state, voice
simulations of tau2 as ticks, vCons whose turns name parties by number, likelihoods of answers of lm-evaluation-harness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine.formats.coded.spans import first_filled
from engine.formats.json_values import list_or_empty, object_or_empty, objects_in
from engine.formats.messages.roles import speaker_word
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import as_word, json_within
from engine.formats.records import Reader

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
