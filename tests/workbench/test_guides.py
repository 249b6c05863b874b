"""The pages of the guide are followed by their commands. Blocks marked `sh` are run; `bash` marks what takes long
or needs a server. All commands are forks of one process that has imported the program: the imports are most of a
command's second."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)

SERVER = """
import atexit, importlib, json, os, pkgutil, socket, sys
import engine, workbench
from workbench.cli import main

for package in (engine, workbench):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    words, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
    if os.fork() == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
        folder, arguments, environment = json.loads(words)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = 1
        try:
            code = main(arguments)
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            client.send(bytes([code]))
            os._exit(code)
    for file in files:
        os.close(file)
    client.close()
"""
CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
words = json.dumps([os.getcwd(), sys.argv[1:], dict(os.environ)])
socket.send_fds(server, [words.encode()], [0, 1, 2])
sys.exit(ord(server.recv(1)))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a program `workbench` that has everything imported."""
    folder = tmp_path_factory.mktemp("programs")
    path = str(folder / "socket")
    client = folder / "workbench"
    client.write_text(CLIENT.format(python=sys.executable, path=path), "utf-8")
    client.chmod(0o755)
    words = [sys.executable, "-c", SERVER, path]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
        server.kill()


SLOW = pytest.mark.skipif(
    "WORKBENCH_TEST_GUIDES" not in os.environ, reason="minutes: set WORKBENCH_TEST_GUIDES"
)


@pytest.mark.parametrize(
    "page",
    [
        "import",
        "goals",
        "agents",
        *(
            pytest.param(page, marks=SLOW)
            for page in (
                *("first-hour", "weekly-triage", "completeness", "trees", "machines"),
                *("simulation", "training", "scripting"),
            )
        ),
    ],
)
def test_every_command_works(page: str, programs: Path, tmp_path: Path) -> None:
    """In the order of the page, in an empty folder, every command ends with success."""
    script = "\n".join(BLOCK.findall((GUIDE / f"{page}.md").read_text("utf-8")))
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
