"""Records and traces over HTTP: what is taken, what is refused, and that nothing that was answered is lost."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.jobs.runner import JobRunner
from engine.services.watch import listening
from engine.services.watch.growing import GrowingFiles
from engine.services.watch.listening import RECORDS, TRACES, Listener, address_of
from engine.store.project import Project

RECORD = {"id": "a", "messages": [{"role": "user", "content": "Hi 😀"}]}


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    """Listens on a free port."""
    with Listener(("127.0.0.1", 0), tmp_path / "received") as made:
        yield made


def send(
    listener: Listener, body: bytes, path: str = "/", method: str = "POST", **headers: str
) -> tuple[int, dict[str, Any]]:
    """Status and answer of a request."""
    port = int(listener.url.rpartition(":")[2])
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.request(method, path, body, named)
    answer = client.getresponse()
    found = answer.status, json.loads(answer.read())
    client.close()
    return found


def lines(listener: Listener, name: str = RECORDS) -> list[Any]:
    path = listener.folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (json.dumps(RECORD), 1),
        (json.dumps([RECORD, RECORD], indent=2), 2),
        (f"{json.dumps(RECORD)}\n\n{json.dumps(RECORD)}\r\n{json.dumps(RECORD)}", 3),
    ],
    ids=["an object", "an array", "lines"],
)
def test_records(listener: Listener, body: str, count: int) -> None:
    """An object, an array and lines are stored as one line each, also where they were packed."""
    assert send(listener, body.encode()) == (200, {"stored": count})
    assert send(listener, gzip.compress(body.encode()), Content_Encoding="gzip")[0] == 200
    assert lines(listener) == [RECORD] * 2 * count


@pytest.mark.parametrize(
    ("status", "said", "request_"),
    [
        (400, "Line 2 is no JSON", {"body": b'{"a": 1}\nnothing'}),
        (400, "Record 1 is no JSON object", {"body": b"[1]"}),
        (400, "no record in it", {"body": b"[]"}),
        (400, "nested too deeply", {"body": b'{"a":' * 200_000}),
        (400, "no JSON", {"body": b"\xff\xfe"}),
        (400, "no gzip", {"body": b"{}", "Content_Encoding": "gzip"}),
        (400, "breaks off", {"body": gzip.compress(b"{}" * 99)[:-9], "Content_Encoding": "gzip"}),
        (400, "no OTLP request", {"body": b'{"spans": []}', "path": "/v1/traces"}),
        (415, "Protobuf", {"body": b"\n", "path": "/v1/traces", "Content_Type": "application/x-protobuf"}),
        (415, "br is not unpacked", {"body": b"{}", "Content_Encoding": "br"}),
        (413, "A request may have", {"body": b" " * 2000 + b"{}"}),
        (413, "A request may have", {"body": gzip.compress(b" " * 2000), "Content_Encoding": "gzip"}),
        (404, "There is no /else", {"body": b"{}", "path": "/else"}),
        (405, "Nothing can be read", {"body": b"", "method": "GET"}),
        (403, "Pages of a browser", {"body": b"{}", "Origin": "http://localhost"}),
        (403, "other names", {"body": b"{}", "Host": "evil.example:80"}),
    ],
)  # fmt: skip
def test_refused(
    status: int,
    said: str,
    request_: dict[str, Any],
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What cannot be stored is answered with what is wrong and what to do, and nothing of it is stored."""
    if status == 413:
        monkeypatch.setattr(listening, "MOST_BYTES", 1024)
    found, answer = send(listener, **request_)
    assert found == status
    assert said in answer["error"]
    assert answer["hint"]
    assert lines(listener) == lines(listener, TRACES) == []
    assert send(listener, json.dumps(RECORD).encode())[0] == 200  # it goes on


def test_a_full_disk(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written whole is not answered with 200, and nothing of it stays in the file."""
    assert send(listener, b'{"first": 1}')[0] == 200

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        status, answer = send(listener, b'{"second": 2}')
    assert (status, answer["error"]) == (507, "It was not stored: No space left on device.")
    assert send(listener, b'{"third": 3}')[0] == 200
    assert lines(listener) == [{"first": 1}, {"third": 3}]


@pytest.mark.parametrize("text", ["0.0.0.0:80", "example.org:80", "[::]:80", "10.0.0.1:4318"])
def test_other_machines(text: str) -> None:
    """An address that other machines reach is refused with the way around."""
    with pytest.raises(UsageError, match="other machines") as refused:
        address_of(text)
    assert "ssh" in refused.value.hint


def test_addresses(listener: Listener, tmp_path: Path) -> None:
    """A port alone means this machine; a port that is none, or taken, is an error with what to do."""
    assert address_of("4318") == address_of("localhost:4318") == ("127.0.0.1", 4318)
    assert address_of("[::1]:1") == ("::1", 1)
    for text in ("http", "127.0.0.1", "1:99999"):
        with pytest.raises(UsageError, match="no port"):
            address_of(text)
    port = int(listener.url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"Port {port} cannot be listened on"):
        Listener(("127.0.0.1", port), tmp_path / "other")


SERVER = """
import sys
from pathlib import Path
from engine.services.watch.listening import Listener
with Listener(("127.0.0.1", 0), Path(sys.argv[1])) as made:
    print(made.url, flush=True)
    sys.stdin.read()
"""


def test_kill(tmp_path: Path) -> None:
    """After a kill at any moment every record that was answered is in the file; a line cut apart is taken away."""
    program = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "received")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    port = int(program.stdout.readline().rpartition(":")[2])
    answered: list[str] = []
    enough = threading.Event()

    def client(name: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for number in range(100_000):
            key = f"{name}-{number}"
            try:
                connection.request("POST", "/", json.dumps({"id": key, "text": "x" * 2000}))
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 200:
                answered.append(key)
            if len(answered) > 200:
                enough.set()

    threads = [threading.Thread(target=client, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    program.send_signal(signal.SIGKILL)
    program.wait()
    for thread in threads:
        thread.join()
    path = tmp_path / "received" / RECORDS
    with path.open("a") as file:
        file.write('{"id": "cut')
    with Listener(("127.0.0.1", 0), tmp_path / "received") as again:
        assert send(again, b'{"id": "after"}')[0] == 200
        stored = [one["id"] for one in lines(again)]
    assert set(answered) <= set(stored)
    assert len(stored) == len(set(stored))
    assert stored[-1] == "after"
    program.communicate()


def span(name: str, *said: str) -> dict[str, Any]:
    """A request of OTLP with one call of a model in a trace: what user and model said before, and the answer."""
    before = [
        {"role": "assistant" if at % 2 else "user", "parts": [{"type": "text", "content": text}]}
        for at, text in enumerate(said[:-1])
    ]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": said[-1]}]}]
    texts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(before),
        "gen_ai.output.messages": json.dumps(answer),
    }
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
    start = str(1_544_712_660_000_000_000 + int(name) * 10**9)
    one = {"traceId": "5B8E", "spanId": name, "name": "chat", "kind": 3, "startTimeUnixNano": start,
           "endTimeUnixNano": start, "attributes": attributes}  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": [one]}]}]}


def test_traces_are_imported(listener: Listener, tmp_path: Path) -> None:
    """Spans of one trace that come in several requests are one conversation, which grows."""
    counts = []
    with Project.open(tmp_path / "p.wb", create=True) as project:
        growing = GrowingFiles([str(listener.folder)])
        assert growing.next_import(project) is None  # nothing came yet
        said = ("Hello?", "Yes?", "Are you there?", "I am.")
        for number, count in (("1", 2), ("2", 4)):
            body = json.dumps(span(number, *said[:count])).encode()
            assert send(listener, body, "/v1/traces") == (200, {"partialSuccess": {}})
            stage = growing.next_import(project)
            assert stage is not None
            JobRunner(project, lambda event: None).run(stage)
            with project.reading() as conn:
                query = "SELECT (SELECT count(*) FROM conversation), (SELECT count(*) FROM message)"
                counts.append(conn.execute(query).fetchone())
    assert counts == [(1, 2), (1, 4)]
