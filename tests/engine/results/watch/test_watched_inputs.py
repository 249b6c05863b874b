"""Files that grow: only what is new is read, and a file that was rewritten is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.conversations.stages import ImportStage
from engine.formats.opening import framing
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.results.watch import watched_inputs
from engine.results.watch.watched_inputs import WatchedFiles


def line(key: str | None, count: int, about: str = "paint") -> str:
    """A conversation with the first messages of a longer one."""
    messages = [
        {"role": "assistant" if at % 2 else "user", "content": f"{at} about {about} {key}"}
        for at in range(count)
    ]
    return json.dumps({"id": key, "messages": messages} if key else {"messages": messages}) + "\n"


def look(project: Project, watched_input: WatchedFiles) -> ImportStage | None:
    """Imports what is new."""
    stage = watched_input.next_import(project)
    if stage is not None:
        JobRunner(project, lambda event: None).run(stage)
    return stage


def stored(project: Project) -> dict[str, int]:
    """Number of messages by id of the conversation."""
    query = "SELECT external_id, (SELECT count(*) FROM message WHERE conversation_id = c.id) FROM conversation c"
    with project.reading() as conn:
        return dict(conn.execute(query).fetchall())


def test_only_new_lines_are_read(project: Project, tmp_path: Path) -> None:
    """What was added is read and nothing before it; a line of an id that was there goes on with that conversation,
    also in the same look; records without an id keep the number of their line."""
    file = tmp_path / "a.jsonl"
    file.write_text(line("a", 2) + line("b", 2) + line(None, 2, "none"))
    watched_input = WatchedFiles([str(file)])
    first = look(project, watched_input)
    assert first is not None
    assert first.counts.read == 3
    with file.open("a") as grown:
        grown.write(line("a", 4) + line("a", 6) + line(None, 2, "other"))
    second = look(project, watched_input)
    assert second is not None
    assert (second.counts.read, second.counts.grew, second.counts.new) == (3, 2, 1)
    assert stored(project) == {"a": 6, "b": 2, "a-3": 2, "a-6": 2}
    assert look(project, watched_input) is None


def test_a_line_that_is_being_written_waits(project: Project, tmp_path: Path) -> None:
    """Whole lines are read while another is being written; that one when it is a whole record, whenever."""
    file = tmp_path / "a.jsonl"
    begun = line("b", 2)
    file.write_text(line("a", 2) + begun[:20])
    watched_input = WatchedFiles([str(file)])
    look(project, watched_input)
    assert look(project, watched_input) is None
    assert stored(project) == {"a": 2}
    with file.open("a") as grown:
        grown.write(begun[20:].rstrip("\n"))
    assert look(project, watched_input) is None
    look(project, watched_input)
    assert stored(project) == {"a": 2, "b": 2}


@pytest.mark.parametrize("rewritten", [line("c", 2), line("c", 2) + line("d", 4) + line("e", 2)])
def test_a_rewritten_file(rewritten: str, project: Project, tmp_path: Path) -> None:
    """A file that became shorter, or longer with another beginning, is read from its beginning."""
    file = tmp_path / "a.jsonl"
    file.write_text(line("a", 2) + line("b", 2))
    watched_input = WatchedFiles([str(file)])
    look(project, watched_input)
    file.write_text(rewritten)
    look(project, watched_input)
    assert stored(project).keys() >= {"a", "b", "c"}


def test_long_files_in_pieces(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long file is read in pieces of whole lines, one a look, also where one line is longer than a piece."""
    monkeypatch.setattr(watched_inputs, "MAX_READ_BYTES", 400)
    file = tmp_path / "a.jsonl"
    file.write_text("".join(line(f"a{at}", 2) for at in range(9)) + line("long", 30) + line("z", 2))
    watched_input = WatchedFiles([str(file)])
    looks = 0
    while look(project, watched_input) is not None:
        looks += 1
    assert looks > 4
    assert stored(project) == {f"a{at}": 2 for at in range(9)} | {"long": 30, "z": 2}


def export(span: str, *texts: str) -> str:
    """One line of a collector's file: an export of OTLP with one call of a model, with what was said before it."""
    messages = [
        {"role": "assistant" if at % 2 else "user", "parts": [{"type": "text", "content": text}]}
        for at, text in enumerate(texts)
    ]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(messages[:-1]),
        "gen_ai.output.messages": json.dumps(messages[-1:]),
    }
    start = str(1_544_712_660_000_000_000 + int(span) * 10**9)
    call = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"eee19b7ec3c1b17{span}", "parentSpanId": "",
        "flags": 256, "name": "chat", "kind": 3, "startTimeUnixNano": start, "endTimeUnixNano": start,
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
        "status": {},
    }  # fmt: skip
    service = [{"key": "service.name", "value": {"stringValue": "agent"}}]
    scopes = [{"scope": {"name": "agent"}, "spans": [call]}]
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": scopes}]}
    )


def log_export(text: str) -> str:
    """One line of a collector's file with the log record of a message, which is no part of a span."""
    said = [{"key": "content", "value": {"stringValue": text}}]
    record = {
        "timeUnixNano": "1544712660000000000", "eventName": "gen_ai.user.message",
        "body": {"kvlistValue": {"values": said}}, "attributes": [],
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
    }  # fmt: skip
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"scope": {}, "logRecords": [record]}]}]})


def test_what_a_collector_writes(project: Project, tmp_path: Path) -> None:
    """The lines that a collector appends to its file are read: the spans of one trace are one conversation, which
    grows, and the log records of another trace are another."""
    file = tmp_path / "live" / "traces.jsonl"
    file.parent.mkdir()
    watched_input = WatchedFiles([str(file.parent)])
    assert look(project, watched_input) is None
    said = ("Hello?", "Yes?", "Are you there?", "I am.")
    file.write_text(export("1", *said[:2]) + "\n")
    look(project, watched_input)
    first = list(stored(project).values())
    with file.open("a") as appended:
        appended.write(export("2", *said) + "\n" + log_export("Good evening.") + "\n")
    look(project, watched_input)
    assert (first, sorted(stored(project).values())) == ([2], [1, 4])


def test_a_line_without_end_is_not_held(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a line that is larger than a record may be only what shows that is in memory; it is quarantined once, and the
    lines after it are read."""
    monkeypatch.setattr(watched_inputs, "MAX_RECORD", 1_000)
    monkeypatch.setattr(framing, "MAX_RECORD", 1_000)
    monkeypatch.setattr(watched_inputs, "MAX_READ_BYTES", 400)
    text = line("a", 2) + "x" * 5_000 + "\n" + line("b", 2)
    (tmp_path / "a.jsonl").write_text(text)
    watched_input = WatchedFiles([str(tmp_path / "a.jsonl")])
    while (stage := look(project, watched_input)) is not None:
        assert all(len(tail.lines) <= 1_002 for tail in stage._tails)
    assert stored(project) == {"a": 2, "b": 2}
    with project.reading() as conn:
        assert conn.execute("SELECT line, reason FROM quarantine").fetchall() == [
            (2, "record is larger than 0 MiB")
        ]
