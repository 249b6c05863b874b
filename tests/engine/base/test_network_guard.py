"""The network guard: what it refuses and what it allows. Each test has processes of its own, because the guard cannot
be taken off a process. That the program never uses the network unasked is in `tests/workbench/test_without_network.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.base import network_guard
from tests.engine.project.support import REPOSITORY


def run(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


class TestRefused:
    def test_other_machines(self) -> None:
        """Connections, datagrams and look-ups to other machines raise an error that names the target."""
        attempts = {
            "socket.socket().connect(('192.0.2.1', 80))": "192.0.2.1",
            "socket.socket().connect_ex(('192.0.2.1', 80))": "192.0.2.1",
            "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))": "2001",
            "socket.socket(socket.AF_INET6).connect(('::ffff:192.0.2.1', 80))": "192.0.2.1",
            "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))": "192.0.2.1",
            "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53))": "192.0.2.1",
            "socket.getaddrinfo('host.invalid', 80)": "host.invalid",
            "socket.gethostbyname('host.invalid')": "host.invalid",
            "socket.getnameinfo(('192.0.2.1', 80), 0)": "192.0.2.1",
            "socket.create_connection(('host.invalid', 443))": "host.invalid",
            "urllib.request.urlopen('http://host.invalid/')": "host.invalid",
            "asyncio.run(asyncio.open_connection('192.0.2.1', 80))": "192.0.2.1",
        }
        done = run(
            """
            import asyncio, json, socket, sys, urllib.request
            from engine.base import network_guard
            from engine.base.errors import NetworkRefused
            network_guard.install()
            refusals = {}
            for attempt in sys.argv[1:]:
                try:
                    eval(attempt)
                except NetworkRefused as error:
                    refusals[attempt] = error.message
            print(json.dumps(refusals))
            """,
            *attempts,
        )
        assert done.returncode == 0, done.stderr
        refusals = json.loads(done.stdout)
        for attempt, target in attempts.items():
            assert target in refusals[attempt], attempt
            assert "which nobody asked for" in refusals[attempt], attempt

    def test_in_threads_too(self) -> None:
        """A thread started before the guard is not exempt."""
        done = run(
            """
            import socket, threading
            from engine.base import network_guard
            from engine.base.errors import NetworkRefused
            go = threading.Event()
            def work():
                go.wait()
                try:
                    socket.socket().connect(("192.0.2.1", 80))
                except NetworkRefused:
                    print("refused")
            thread = threading.Thread(target=work)
            thread.start()
            network_guard.install()
            go.set()
            thread.join()
            """
        )
        assert done.stdout == "refused\n", done.stderr


class TestAllowed:
    def test_what_reaches_nobody(self) -> None:
        """Unix sockets, socket pairs, an event loop and this machine's own name work as before."""
        done = run(
            """
            import asyncio, json, socket, tempfile, os
            from engine.base import network_guard
            network_guard.install()
            found = [socket.getaddrinfo("localhost", 80, socket.AF_INET)[0][4][0]]
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
        assert json.loads(done.stdout) == ["127.0.0.1", "unix", "p", "loop"]


NAMED = """
import json, socket, sys, threading
from engine.base import network_guard
from engine.base.errors import NetworkRefused
network_guard.install()

def server():
    made = socket.create_server(("127.0.0.1", 0))
    return made, made.getsockname()[1]

def tried(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
    except NetworkRefused as error:
        return "refused"
    return "reached"

(one, first), (two, second) = server(), server()
"""


def answers(code: str, **environment: str) -> list[str]:
    """The output of code after a preamble with the guard and two servers on this machine."""
    done = run(NAMED + textwrap.dedent(code), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


class TestNamed:
    def test_this_machine_is_no_exception(self) -> None:
        """A server on this machine can be reached only during the request, at the named port."""
        assert answers(
            """
            print(tried("127.0.0.1", first))
            with network_guard.reaching("127.0.0.1", first):
                print(tried("127.0.0.1", first), tried("127.0.0.1", second))
            print(tried("127.0.0.1", first))
            """
        ) == ["refused", "reached refused", "refused"]

    def test_another_machine(self) -> None:
        """While another machine is named it can be looked up and reached, and its neighbor cannot."""
        assert answers(
            """
            import contextlib
            with network_guard.reaching("192.0.2.7", 80), socket.socket() as asking:
                asking.setblocking(False)
                asking.connect_ex(("192.0.2.7", 80))
                print(tried("192.0.2.8", 80))
            with network_guard.reaching("Host.invalid", 80), contextlib.suppress(OSError):
                socket.getaddrinfo("host.invalid", 80)
            """
        ) == ["refused"]

    def test_a_name_stands_for_its_own_addresses_only(self) -> None:
        """Where a name was given, other machines on its port are refused, and other names are not looked up."""
        assert answers(
            """
            with network_guard.reaching("LocalHost", first):
                print(tried("localhost", first), tried("127.0.0.2", first), tried("a.invalid", first))
            """
        ) == ["reached refused refused"]

    def test_inside_each_other(self) -> None:
        """A second allowed endpoint is added to the first until its block ends."""
        assert answers(
            """
            with network_guard.reaching("127.0.0.1", first):
                with network_guard.reaching("localhost", second):
                    print(tried("127.0.0.1", first), tried("localhost", second))
                print(tried("127.0.0.1", first), tried("127.0.0.1", second))
            """
        ) == ["reached reached", "reached refused"]

    def test_tasks(self) -> None:
        """Of two tasks in one thread, only the one that opened the endpoint may connect."""
        assert answers(
            """
            import asyncio

            async def asking(inside, done):
                with network_guard.reaching("127.0.0.1", first):
                    inside.set()
                    await done.wait()
                    print(tried("127.0.0.1", first))

            async def other(inside, done):
                await inside.wait()
                print(tried("127.0.0.1", first))
                done.set()

            async def both():
                inside, done = asyncio.Event(), asyncio.Event()
                await asyncio.gather(asking(inside, done), other(inside, done))

            asyncio.run(both())
            """
        ) == ["refused", "reached"]


class TestSwitches:
    ASKING = """
    try:
        with network_guard.reaching("127.0.0.1", first):
            print(tried("127.0.0.1", first))
    except NetworkRefused as error:
        print(error)
    """

    @pytest.mark.parametrize(
        ("value", "is_on"),
        [
            ("1", True),
            ("TRUE", True),
            ("anything", True),
            ("", False),
            ("0", False),
            (" False ", False),
        ],
    )
    def test_values_of_the_variable(
        self, value: str, is_on: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Any value turns the switch on, but an empty one and those that mean no."""
        monkeypatch.setenv(network_guard.VARIABLE, value)
        assert (network_guard.off_by() is not None) is is_on

    def test_the_variable(self) -> None:
        """The variable also refuses what the user named, and the error says how to change that."""
        (said,) = answers(self.ASKING, WORKBENCH_OFFLINE="1")
        assert said.endswith(
            "is not reached, because the variable WORKBENCH_OFFLINE is on."
            " Unset WORKBENCH_OFFLINE and run it again."
        )

    def test_turned_on_while_it_is_asked(self) -> None:
        """An offline switch is in force for the next connection, until it is off."""
        assert answers(
            """
            import os
            with network_guard.reaching("127.0.0.1", first):
                os.environ["WORKBENCH_OFFLINE"] = "1"
                print(tried("127.0.0.1", first))
                del os.environ["WORKBENCH_OFFLINE"]
                print(tried("127.0.0.1", first))
            """
        ) == ["refused", "reached"]


class TestChildren:
    def test_environment(self) -> None:
        """A child process gets no key, libraries that are offline and silent, the offline switch, and the rest of the
        environment unchanged.
        """
        done = run(
            """
            import json
            from engine.base import network_guard
            print(json.dumps(network_guard.child_environment()))
            """,
            HF_TOKEN="canary", OPENAI_API_KEY="canary", my_secret="canary", WORKBENCH_OFFLINE="1", OTHER="kept",
            HF_HUB_OFFLINE="0",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert "canary" not in done.stdout
        assert (found["WORKBENCH_OFFLINE"], found["OTHER"]) == ("1", "kept")
        for name in (
            "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
        ):  # fmt: skip
            assert found[name] == "1", name

    @pytest.mark.parametrize(
        "start",
        [
            "from engine.opener.model_process import main; main()",
            "from training.__main__ import main; main([sys.argv[1]])",
        ],
    )
    def test_guards_itself(self, start: str, tmp_path: Path) -> None:
        """The model process and the trainer install the guard whoever starts them, and their libraries are offline."""
        done = run(
            f"""
            import os, sys
            {start}
            from engine.base import network_guard
            sys.stderr.write(f"{{network_guard.is_installed()}} {{os.environ['HF_HUB_OFFLINE']}}\\n")
            """,
            str(tmp_path),
        )
        assert done.stderr.endswith("True 1\n"), done.stderr

    def test_a_library_heeds_it(self) -> None:
        """The variables have an effect: the hub's own library is offline and without telemetry."""
        pytest.importorskip("huggingface_hub", reason="no library of the hub is installed")
        done = run(
            """
            import subprocess, sys
            from engine.base import network_guard
            code = (
                "from huggingface_hub import constants as c;"
                "print(c.is_offline_mode(), c.HF_HUB_DISABLE_TELEMETRY, c.HF_HUB_DISABLE_XET)"
            )
            subprocess.run([sys.executable, "-c", code], env=network_guard.child_environment(), check=True)
            """
        )
        assert done.stdout == "True True True\n", done.stderr
