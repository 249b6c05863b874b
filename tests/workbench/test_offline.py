"""The guard against the network: what it refuses, what it lets pass, and that the program never asks for it.

Each test has processes of its own, because a guard that could be taken off again would be none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.simulate.samples import sample_conversations, write_jsonl
from tests.engine.store.support import REPOSITORY

RECORDER = """
import os, sys
def record(event, args):
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.gethostname"):
        with open(os.environ["RECORD"], "a") as file:
            file.write(f"{event} {args[1:] or args}\\n")
sys.addaudithook(record)
"""
"""Writes down every use of a socket that could leave the machine, refused ones included."""

USE = """
from pathlib import Path
from engine import offline
offline.install()
offline.install()
from engine.jobs import JobDone, JobRunner
from engine.model.catalog import Catalog
from engine.stages.importing import ImportStage
from engine.stages.scoring import ScoringStage, question_for
from engine.store.project import Project
from engine.worker.client import ModelProcess
from workbench.doctor import report

folder = Path(sys.argv[1])
worker = os.environ["WORKER"]
process = ModelProcess(folder / "model.log", [sys.executable, "-c", worker])
catalog = Catalog(folder / "data", folder / "cache")
try:
    with Project.open(folder / "p.wb", create=True) as project:
        runner = JobRunner(project, lambda event: None)
        stages = [
            ImportStage(project, [str(folder / "in.jsonl")]),
            ScoringStage(
                project, process, lambda: catalog.runnable(catalog.entry(None)), "tuned",
                question_for("tuned", {}, None),
            ),
        ]
        for stage in stages:
            outcome = runner.run(stage)
            assert isinstance(outcome, JobDone), outcome
            print(outcome.message)
finally:
    process.close()
print(len(report(folder / "data", folder / "cache", folder / "p.wb")), "checks")
"""

WORKER = (
    "from engine import offline; offline.install(); from engine.worker.__main__ import main; main()"
)


def run(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


class TestTheProgram:
    def test_never_asks_for_the_network(self, tmp_path: Path) -> None:
        """Import, scoring in the model process and the doctor, guarded and watched: neither process uses a socket."""
        write_jsonl(sample_conversations(count=6), tmp_path / "in.jsonl")
        record = tmp_path / "record"

        done = run(RECORDER + USE, str(tmp_path), RECORD=str(record), WORKER=RECORDER + WORKER)

        assert done.returncode == 0, done.stderr
        assert "6 new" in done.stdout
        assert "Scored 6" in done.stdout
        assert "checks" in done.stdout
        assert not record.exists(), record.read_text()

    def test_the_watch_would_have_seen_it(self, tmp_path: Path) -> None:
        """The recorder of the test above does notice a connection."""
        record = tmp_path / "record"
        run(
            RECORDER + "import socket; socket.socket().connect_ex(('127.0.0.1', 9))",
            RECORD=str(record),
        )
        assert "socket.connect" in record.read_text()


class TestRefused:
    @pytest.mark.parametrize(
        "attempt",
        [
            "socket.socket().connect(('192.0.2.1', 80))",
            "socket.socket().connect_ex(('192.0.2.1', 80))",
            "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
            "socket.socket(socket.AF_INET6).connect(('::ffff:192.0.2.1', 80))",
            "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
            "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53))",
            "socket.getaddrinfo('host.invalid', 80)",
            "socket.gethostbyname('host.invalid')",
            "socket.getnameinfo(('192.0.2.1', 80), 0)",
            "socket.create_connection(('host.invalid', 443))",
            "urllib.request.urlopen('http://host.invalid/')",
            "asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
        ],
    )
    def test_other_machines(self, attempt: str) -> None:
        """Connections, datagrams and look-ups that leave the machine raise an error that names the target."""
        done = run(
            f"""
            import asyncio, socket, urllib.request
            from engine import offline
            from engine.errors import NetworkRefused
            offline.install()
            try:
                {attempt}
            except NetworkRefused as error:
                print(error.message)
            """
        )
        assert done.returncode == 0, done.stderr
        assert "192.0.2.1" in done.stdout or "host.invalid" in done.stdout or "2001" in done.stdout
        assert "which this program does not use" in done.stdout

    def test_in_threads_too(self) -> None:
        """A thread started before the guard is not exempt."""
        done = run(
            """
            import socket, threading
            from engine import offline
            from engine.errors import NetworkRefused
            go = threading.Event()
            def work():
                go.wait()
                try:
                    socket.socket().connect(("192.0.2.1", 80))
                except NetworkRefused:
                    print("refused")
            thread = threading.Thread(target=work)
            thread.start()
            offline.install()
            go.set()
            thread.join()
            """
        )
        assert done.stdout == "refused\n", done.stderr


class TestAllowed:
    def test_this_machine(self) -> None:
        """Loopback, sockets in the file system, pairs and an event loop work as ever."""
        done = run(
            """
            import asyncio, json, socket, tempfile, os
            from engine import offline
            offline.install()
            found = []
            for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "localhost")):
                server = socket.create_server((host, 0), family=family)
                client = socket.create_connection(server.getsockname()[:2])
                client.sendmsg([b"x"])
                found.append(server.accept()[0].recv(1).decode())
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "s")
                server = socket.socket(socket.AF_UNIX)
                server.bind(path)
                server.listen()
                socket.socket(socket.AF_UNIX).connect(path)
                found.append("unix")
            one, other = socket.socketpair()
            one.send(b"p")
            found.append(other.recv(1).decode())
            async def loop():
                return await asyncio.to_thread(lambda: "loop")
            found.append(asyncio.run(loop()))
            print(json.dumps(found))
            """
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["x", "x", "unix", "p", "loop"]
