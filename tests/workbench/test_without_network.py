"""The whole program without a network: the demo, with every process watched; `tests.training.test_runs` has training
and scoring. Each command runs in a network namespace without interfaces where the kernel can make one, which stops
native code too. In addition a module that Python loads at its start records every process, children included, and
records and fails every use of a socket that could reach anybody, this machine included.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.base import folders
from screens.shell.title_line import MODES
from tests.engine.model.tuned import tune
from tests.terminal.pty import Session

WATCH = """
import os, socket, sys

def note(name, text):
    with open(os.path.join(FOLDER, name), "a") as file:
        file.write(text + "\\n")

def watch(event, args):
    if event in SENDING:
        if args[0].family == socket.AF_UNIX or args[1] is None:
            return
    elif event not in ASKING or args[0] is None:
        return
    note("reached", f"{event} {args[1:] or args} by {sys.orig_argv}")
    raise RuntimeError(f"watched: {event}")

SENDING = ("socket.connect", "socket.sendto", "socket.sendmsg")
ASKING = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
note("began", " ".join(sys.orig_argv))
sys.addaudithook(watch)
"""

NAMESPACE = ("unshare", "--map-root-user", "--net")

SECONDS = 1800
"""That one command may take on a machine that does other things too."""


def namespace() -> tuple[str, ...]:
    """The command prefix that runs a command without a network; empty where the kernel or its owner does not
    allow that.
    """
    if shutil.which(NAMESPACE[0]) is None:
        return ()
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    return NAMESPACE if tried.returncode == 0 else ()


class Watched:
    """Runs commands under the watch; `began` and `reached` are its records."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._prefix = namespace()
        (folder / "sitecustomize.py").write_text(f"FOLDER = {str(folder)!r}\n{WATCH}", "utf-8")

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs Python with these arguments."""
        return subprocess.run(
            [*self._prefix, sys.executable, *map(str, words)],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    def workbench(self, *words: str | Path) -> Any:
        """The JSON that a command of the program prints; asserts that it succeeds."""
        done = self.run("-m", "workbench", *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def began(self) -> str:
        return self._read("began")

    @property
    def reached(self) -> str:
        return self._read("reached")

    def _read(self, name: str) -> str:
        file = self.folder / name
        return file.read_text("utf-8") if file.exists() else ""


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """A watch without records."""
    return Watched(tmp_path / "watch")


class TestTheWatch:
    @pytest.mark.parametrize(
        "attempt",
        [
            "socket.socket().connect_ex(('192.0.2.1', 9))",
            "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        ],
    )
    def test_sees_and_fails(self, watched: Watched, attempt: str) -> None:
        """A use of the network in a child process is recorded and fails: the tests below can fail."""
        inner = f"import socket; {attempt}"
        code = (
            f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {inner!r}]))"
        )
        done = watched.run("-c", code)
        assert done.returncode == 1
        assert "RuntimeError: watched" in done.stderr
        assert attempt in watched.reached
        assert watched.began.count("\n") == 2

    def test_a_namespace_without_interfaces(self) -> None:
        """Where the kernel makes a namespace, not even this machine can be reached from it, also not by native code."""
        prefix = namespace()
        if not prefix:
            pytest.skip("this machine gives us no network namespace; the tests here run without")
        code = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 9)))"
        done = subprocess.run(
            [*prefix, sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert os.strerror(int(done.stdout)) == "Network is unreachable"


ONLY_ON = {
    "overview": "What is here",
    "conversations": "5 of 5",
    "triage": "n No",
    "trees": "or more",
    "goals": "goals of 5 conversations",
    "desk": "N Never",
    "training": "0 runs",
    "models": "0 adapters",
}
"""Words that one screen alone shows on the demo's project."""


def test_the_demo(
    watched: Watched, single_layer_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, scores, remaining tasks, trees, goals, the doctor and every screen work, and no connection is tried."""
    tune(single_layer_weights, folders.data_dir(), folders.cache_dir())
    folder = tmp_path / "d"
    watched.workbench("demo", folder, "--samples-only", "--count", "5")
    project = folder / "demo.wb"
    built = watched.workbench("open", folder / "samples.jsonl", "-o", project)
    assert built["counts"]["conversations"] == built["scored"] == 5
    assert built["coverage"] == 1.0
    watched.workbench("run", "complete", project)
    watched.workbench("run", "trees", project, "--limit", "1", "--max-tokens", "8")
    status = watched.workbench("status", project)
    stages = {run["stage"] for run in status["runs"]}
    assert stages >= {"import", "fit", "complete", "remaining", "trees", "embed", "cluster"}
    assert all(run["state"] == "done" for run in status["runs"])
    watched.workbench("doctor", project)
    assert "-m engine.opener.model_process" in watched.began
    assert watched.reached == ""
    monkeypatch.setenv("PYTHONPATH", str(watched.folder))
    with Session(str(project)) as session:
        session.wait("5 conversations")
        for name, key, *_ in reversed(MODES):
            session.press(key)
            session.wait(ONLY_ON[name])
        session.terminal.press(b"q")
        assert session.end() == 0
    assert f"-m workbench {project}" in watched.began
    assert watched.reached == ""
