"""Sessions of Gemini CLI as JSON Lines: the session, then a line for each message, as often as it was changed.

Lines that change the session (`$set`) or take messages back (`$rewindTo`) are applied; then the session is the object
that older versions wrote, which the mapping file reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine.formats.opening.framing import Frame
from engine.formats.reader import Reader

_WORDS = ("user", "gemini", "info", "warning", "error")


def lines_of(whole: Reader) -> Reader:
    """The reader of sessions as lines, by the one of sessions that are one object."""
    return replace(
        whole,
        name="gemini_cli_lines",
        title="sessions of Gemini CLI as JSON Lines",
        recognise=_recognise,
        arrange=_arrange,
        sample="",
    )


def _recognise(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    if _is_session(record):
        return "the first record has `sessionId`, `projectHash` and `startTime`, as sessions of Gemini CLI"
    if _is_message(record):
        return "the records have `id`, `timestamp`, `content` and a `type` of Gemini CLI"
    return None


def _is_session(record: dict[str, Any]) -> bool:
    return record.keys() >= {"sessionId", "projectHash", "startTime"} and "messages" not in record


def _is_message(record: dict[str, Any]) -> bool:
    wanted = {"id", "timestamp", "content", "type"}
    beside = {"message", "sessionId", "role", "payload"}
    return record.keys() >= wanted and record["type"] in _WORDS and not record.keys() & beside


def _arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields a frame for each session of a file, after the lines that are broken."""
    sessions: list[tuple[dict[str, Any], dict[str, Any], list[Frame]]] = []
    for frame in frames:
        value = frame.value
        if frame.reason is not None or not isinstance(value, dict):
            yield frame._replace(reason=frame.reason or "it is no line of a session")
            continue
        if _is_session(value) or not sessions:
            sessions.append(({}, {}, []))
        session, messages, members = sessions[-1]
        if isinstance(value.get("$set"), dict):
            session.update(value["$set"])
        elif "$rewindTo" in value:
            _rewind(messages, value["$rewindTo"])
        elif _is_message(value):
            messages[str(value["id"])] = value
        elif _is_session(value):
            session.update(value)
        else:
            yield frame._replace(reason="it is no line of a session")
            continue
        members.append(frame)
    for session, messages, members in sessions:
        if members:
            raw = b"\n".join(frame.raw for frame in members)
            listed = session.pop("messages", None) or list(messages.values())
            yield Frame(members[0].number, raw, {**session, "messages": listed})


def _rewind(messages: dict[str, Any], last: Any) -> None:
    """Takes back a message and those after it."""
    names = list(messages)
    for name in names[names.index(last) :] if last in names else []:
        del messages[name]
