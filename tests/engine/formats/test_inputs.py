"""Files, folders and standard input are opened, recognized and named."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from engine.base.errors import FormatError, NotFound
from engine.formats import registry
from engine.formats.inputs import open_inputs
from engine.formats.records import Detection, Parsed, Rejected
from engine.formats.registry import built_in_readers
from tests.engine.formats.reading import opened, parsed, read

ROW = b'{"messages": [{"role": "user", "content": "hi"}]}\n'
TAU = b'[{"task_id": 1, "traj": [{"role": "user", "content": "hi"}]}]'
SHAREGPT = b'{"conversations": [{"from": "human", "value": "hi"}]}\n'


def external_ids(path: Path) -> list[str]:
    return [
        record.conversation.external_id
        for found in open_inputs([path])
        for record in found.records()
        if isinstance(record, Parsed)
    ]


def test_folder_is_walked_in_sorted_order(tmp_path: Path) -> None:
    """All files with a known ending are inputs, in sorted order, subfolders too; others are named at the end."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(ROW))
    (tmp_path / "a.ndjson").write_bytes(ROW)
    (tmp_path / "sub" / "C.JSON").write_bytes(TAU)
    (tmp_path / "notes.txt").write_bytes(b"not for us")
    found = list(open_inputs([str(tmp_path)]))
    assert [os.path.relpath(entry.label, tmp_path) for entry in found] == [
        "a.ndjson",
        "b.jsonl.gz",
        os.path.join("sub", "C.JSON"),
        ".",
    ]
    formats = [entry.detection.format for entry in found]
    assert formats == ["openai", "openai", "tau_bench", "skipped"]
    assert "notes.txt" in found[-1].detection.why


def test_names_in_a_folder(tmp_path: Path) -> None:
    """A conversation without an id is named after its path inside the folder, so that equal file names differ, and its
    line; in a file that was passed itself, after the file name."""
    for parent in ("a", "b"):
        (tmp_path / parent).mkdir()
        (tmp_path / parent / "1.json").write_bytes(b'[{"role": "user", "content": "hello"}]')
    lines = b'\n[{"role": "user", "content": "hi"}]\n[{"role": "user", "content": "ho"}]'
    (tmp_path / "my.chats.jsonl.gz").write_bytes(gzip.compress(lines))
    assert external_ids(tmp_path) == ["a/1", "b/1", "my.chats-2", "my.chats-3"]
    assert external_ids(tmp_path / "a" / "1.json") == ["1"]


def test_stray_file_in_a_folder_keeps_nothing_out(tmp_path: Path) -> None:
    """A file without conversations in a folder is one rejected record, and the other files are read."""
    (tmp_path / "a.json").write_bytes(b'{"name": "settings"}')
    (tmp_path / "b.jsonl").write_bytes(ROW)
    stray, good = open_inputs([tmp_path])
    (rejected,) = stray.records()
    assert isinstance(rejected, Rejected)
    assert "its records have `name`" in rejected.reason
    assert rejected.raw == b'{"name": "settings"}'
    assert stray.detection.format == "unknown"
    assert [isinstance(record, Parsed) for record in good.records()] == [True]


def test_missing_paths_are_refused_at_once(tmp_path: Path) -> None:
    """A missing path, an empty folder and an unknown format are errors with a hint, before anything is read."""
    with pytest.raises(FormatError, match="There is no file or folder") as missing:
        open_inputs([tmp_path / "absent.jsonl"])
    assert missing.value.hint
    with pytest.raises(FormatError, match="holds no conversations") as empty:
        open_inputs([tmp_path])
    assert ".jsonl" in empty.value.hint
    with pytest.raises(NotFound, match="no format 'yaml'") as unknown:
        open_inputs([tmp_path], format="yaml")
    assert all(reader.name in unknown.value.hint for reader in built_in_readers())


@pytest.mark.parametrize(
    ("data", "words", "hint"),
    [
        (b'{"a": 1, "b": 2}', "its records have `a`, `b`", "--map"),
        (b"[1, 2]", "its first record is a number", "--map"),
        (b"{}", "an empty object", "whole"),
        (b"hello", "not JSON: Expecting value at character 1", "whole"),
        (b"[]", "it has no records", "whole"),
        (b" \n \n", "it has no records", "whole"),
        (b"%PDF-1.7", "not JSON", "whole"),
    ],
)
def test_unknown_content_is_named(data: bytes, words: str, hint: str) -> None:
    """When no format fits, the error describes the content and says how to map it, where there is something to map."""
    with pytest.raises(FormatError) as error:
        opened(data)
    assert words in error.value.message
    assert hint in error.value.hint


def test_detection_says_what_it_saw() -> None:
    """The reason names the keys that decided, and how many of the first records had them unless all did."""
    assert opened(SHAREGPT).detection == Detection(
        "sharegpt", "the records have `conversations` with from and value"
    )
    assert opened(SHAREGPT * 3 + b"{}\n").detection.why.endswith("(seen in 3 of the first 4)")


def test_majority_decides() -> None:
    """Of mixed records the format that fits most is taken. One of another format is read by that; one of none is
    rejected, and so is one of the file's own format that is broken."""
    mixed = (
        ROW + SHAREGPT * 2 + b'{"x": 1}\n' + b'{"conversations": [{"from": "owl", "value": "?"}]}\n'
    )
    assert opened(mixed).detection.format == "sharegpt"
    found = [r.reason if isinstance(r, Rejected) else "read" for r in read(mixed)]
    assert found == ["read"] * 3 + ["no messages", "message 1 has role 'owl'"]


def test_chosen_format_is_used() -> None:
    """A format that is given is used whatever the content looks like, and the reason says so."""
    found = opened(ROW, "sharegpt")
    assert found.detection == Detection("sharegpt", "it was chosen for this import")
    (rejected,) = found.records()
    assert isinstance(rejected, Rejected)


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
@pytest.mark.parametrize(
    "data",
    [ROW * 2, b"[" + ROW + b"," + ROW + b"]", gzip.compress(ROW * 2)],
    ids=[
        "lines",
        "list",
        "gzip",
    ],  # packed bytes hold the time, and every process must name a test alike
)
def test_content_decides_not_the_ending(tmp_path: Path, name: str, data: bytes) -> None:
    """A list in a .jsonl file, lines in a .json file and gzip without .gz are recognized by their content."""
    (tmp_path / name).write_bytes(data)
    assert external_ids(tmp_path / name) == ["x-1", "x-2"]


def test_ids_are_unique_within_a_file() -> None:
    """A record whose id occurred before gets a number behind it."""
    row = ROW.replace(b"{", b'{"id": "a", ', 1)
    assert [r.conversation.external_id for r in parsed(row * 3)] == ["a", "a#2", "a#3"]


def test_standard_input_has_no_size() -> None:
    """Standard input has its own name, an unknown size, and the number of bytes read as its position."""
    found = opened(ROW)
    assert (found.label, found.size) == ("standard input", None)
    assert len(list(found.records())) == 1
    assert found.position() == len(ROW)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a Unix matter")
def test_named_pipe_is_read_once(tmp_path: Path) -> None:
    """A pipe, as a shell gives for a process substitution, is read like standard input."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(ROW * 5,))
    writer.start()
    (found,) = open_inputs([pipe])
    assert len(list(found.records())) == 5
    writer.join()
    assert found.size is None


def test_file_that_vanishes_is_a_rejected_record(tmp_path: Path) -> None:
    """A file that is gone when its turn comes is reported, and nothing is raised."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(ROW)
    (found,) = open_inputs([path])
    path.unlink()
    (rejected,) = found.records()
    assert isinstance(rejected, Rejected)
    assert "cannot be opened" in rejected.reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "narrator", "content": ""}, "message 2 has role 'narrator'"),
        ({"content": "x"}, "message 2 has no role"),
        ({"role": ["user"], "content": "x"}, "message 2 has a role that is a list"),
        ({"role": "user"}, "message 2 has no content"),
        ({"role": "user", "content": 3}, "message 2 has content that is a number"),
        ({"role": "user", "content": [3]}, "message 2 has a content part that is a number"),
        ("hello", "message 2 is text, not an object"),
        ({"role": "assistant", "tool_calls": {}}, "message 2 has tool_calls that are an object"),
        ({"role": "assistant", "tool_calls": [1]}, "message 2 has a tool call that is a number"),
        ({"role": "tool", "content": "", "name": []}, "message 2 has a name that is a list"),
    ],
)
def test_reasons_name_the_message(message: object, reason: str) -> None:
    """A record with a bad message says which one and what is wrong with it."""
    first = {"role": "user", "content": "hi"}
    row = json.dumps({"messages": [first, message]}).encode()
    (rejected,) = read(row, "openai")
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason


def test_more_messages_than_a_conversation_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record over the limit is rejected with its bytes and both numbers; one at the limit is read."""
    monkeypatch.setattr(registry, "MAX_MESSAGES", 2)
    message = {"role": "user", "content": "hi"}
    rows = [json.dumps({"messages": [message] * count}).encode() for count in (2, 3)]
    accepted, rejected = read(b"\n".join(rows), "openai")
    assert isinstance(accepted, Parsed)
    assert isinstance(rejected, Rejected)
    assert (rejected.line, rejected.raw) == (2, rows[1])
    assert rejected.reason == "3 messages, more than the 2 of one conversation"


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Bytes of a name that are no text are U+FFFD in the id of its conversation, as everywhere else."""
    path = tmp_path / "caf\udce9.json"
    path.write_text('{"messages": [{"role": "user", "content": "Hi"}]}')
    (opened,) = open_inputs([path])
    (record,) = opened.records()
    assert isinstance(record, Parsed)
    assert record.conversation.external_id == "caf\ufffd"
