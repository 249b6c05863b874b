"""The client of the model process against scripted processes that misbehave."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import Cancelled, ModelCrashed, ModelError, ModelFileError
from engine.model.interface import LoadOptions
from engine.model.process import process as process_module
from engine.model.process.process import ModelProcess, processor_time
from engine.model.process.requests import Tokenize

FAKE = Path(__file__).with_name("fake.py")
SAFETY = 30.0
"""Seconds after which something hangs; nothing here is timed."""


class ScriptedClients:
    """Clients of scripted processes, and the frames that these were sent."""

    def __init__(self, folder: Path) -> None:
        self.history_file = folder / "history"
        self.log = folder / "worker.log"
        self.clients: list[ModelProcess] = []
        self.restarts: list[str] = []

    def client(self, scenario: str) -> ModelProcess:
        """A client of a process with this scenario."""
        command = [sys.executable, str(FAKE), scenario, str(self.history_file)]
        self.clients.append(ModelProcess(self.log, command, self.restarts.append))
        return self.clients[-1]

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every frame that was sent, in order."""
        if not self.history_file.exists():
            return []
        return [json.loads(line) for line in self.history_file.read_text().splitlines()]

    def sent(self, kind: str) -> bool:
        """Whether a frame of this type has arrived."""
        return any(frame["type"] == kind for frame in self.history)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[ScriptedClients]:
    """Scripted processes that are ended after the test."""
    made = ScriptedClients(tmp_path)
    yield made
    for client in made.clients:
        client.close()


class RequestThread:
    """A request on a thread of its own."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def outcome(self) -> BaseException | None:
        """What the request raised, once it has ended."""
        self._thread.join(SAFETY)
        assert not self._thread.is_alive(), "the request never ended"
        return self.error


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + SAFETY
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def tokenize(client: ModelProcess) -> list[list[int]]:
    """One small request."""
    return client.ask(Tokenize(["text"]))


class TestAnswers:
    @pytest.mark.parametrize(
        ("scenario", "kind", "message"),
        [
            ("error", ModelFileError, "It is broken. Mend it."),
            ("strange error", ModelError, "Odd."),
        ],
    )
    def test_errors(
        self, fake: ScriptedClients, scenario: str, kind: type[ModelError], message: str
    ) -> None:
        """An error frame is raised as the error it names, and the process keeps running."""
        client = fake.client(scenario)
        for _ in range(2):
            with pytest.raises(kind) as error:
                tokenize(client)
            assert str(error.value) == message
            assert type(error.value) is kind
        assert [frame["id"] for frame in fake.history] == [1, 2]

    def test_garbage(self, fake: ScriptedClients, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that writes invalid frames is killed, and the request fails as in a crash."""
        monkeypatch.setattr(process_module, "CANCEL_GRACE_SECONDS", 0.2)
        client = fake.client("garbage")
        with pytest.raises(ModelCrashed):
            tokenize(client)
        assert client.pid is None


class TestDeath:
    def test_the_next_request_loads_again(self, fake: ScriptedClients) -> None:
        """After a crash the next request starts a process, says so, loads the same model, and is answered."""
        client = fake.client("dies once")
        client.load(Path("a.gguf"), LoadOptions(context=64), Path("b.gguf"))
        with pytest.raises(ModelCrashed, match="killed by SIGKILL"):
            tokenize(client)
        assert tokenize(client) == [[1]]
        assert fake.restarts == [
            "The model process died (killed by SIGKILL, perhaps for want of memory)."
        ]
        assert [frame["type"] for frame in fake.history] == [
            "Load",
            "Tokenize",
            "Load",
            "Tokenize",
        ]
        first, second = (frame for frame in fake.history if frame["type"] == "Load")
        assert {**first, "id": 0} == {**second, "id": 0}
        assert first["request"]["adapter"] == "b.gguf"


class TestHanging:
    def test_it_is_ended(self, fake: ScriptedClients, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that neither answers nor uses the processor is ended, and the request fails with the reason."""
        monkeypatch.setattr(process_module, "POLL_SECONDS", 0.02)
        monkeypatch.setattr(process_module, "POLLS_PER_SAMPLE", 2)
        client = fake.client("slow")
        with pytest.raises(ModelCrashed, match="no use of the processor for 2 min"):
            tokenize(client)
        assert client.pid is None

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
    def test_use_of_the_processor(self) -> None:
        """What a process has used of the processor changes when it works."""
        before = processor_time(os.getpid())
        end = time.process_time() + 5
        while processor_time(os.getpid()) == before:
            assert time.process_time() < end, "five seconds of work are not seen"


class TestCancel:
    def test_heeded(self, fake: ScriptedClients) -> None:
        """A cancel names the request in flight; the process stays for the next one."""
        client = fake.client("slow")
        asking = RequestThread(lambda: tokenize(client))
        until(lambda: fake.sent("Tokenize"))
        pid = client.pid
        client.cancel()
        assert isinstance(asking.outcome(), Cancelled)
        assert [(f["type"], f["id"]) for f in fake.history] == [("Tokenize", 1), ("cancel", 1)]
        assert client.pid == pid

    def test_deaf(self, fake: ScriptedClients, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that ignores a cancel is killed, and the next request gets a new one, which is no news."""
        monkeypatch.setattr(process_module, "CANCEL_GRACE_SECONDS", 0.2)
        client = fake.client("deaf")
        asking = RequestThread(lambda: tokenize(client))
        until(lambda: fake.sent("Tokenize"))
        pid = client.pid
        client.cancel()
        assert isinstance(asking.outcome(), Cancelled)
        assert client.pid is None
        again = RequestThread(lambda: tokenize(client))
        until(lambda: client.pid not in (None, pid))
        client.close()
        assert isinstance(again.outcome(), Cancelled)
        assert fake.restarts == []


def test_close_while_busy(fake: ScriptedClients) -> None:
    """A close ends process and request at once; a second close does nothing."""
    client = fake.client("deaf")
    asking = RequestThread(lambda: tokenize(client))
    until(lambda: fake.sent("Tokenize"))
    client.close()
    assert client.pid is None
    assert isinstance(asking.outcome(), Cancelled)
    client.close()
