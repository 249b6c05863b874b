"""`engine.opener.doctor` on this machine, and on simulated machines where something is wrong."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base import network_guard
from engine.model.catalog import DEFAULT_MODEL, Catalog, embedded_model
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.memory_plan import MachineMemory
from engine.opener.doctor import Check, check_folder, check_network, run_checks
from engine.project import runs
from engine.project.project import Project
from tests.engine.model.tiny import write_sliding
from tests.engine.project.support import REPOSITORY, fill, in_child, talk

NOBODY = 65534


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A data and a cache folder that exist and are empty."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    cache.mkdir()
    return data, cache


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project large enough that there are pages to damage."""
    path = tmp_path / "work" / "p.wb"
    path.parent.mkdir()
    with Project.open(path, create=True) as opened:
        fill(opened, [talk(f"c{n}", f"hello {n} " * 40, "hi " * 40) for n in range(200)])
    return path


@pytest.fixture
def without_model_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the check that starts the model process, which takes most of the time of all checks."""
    monkeypatch.setattr("engine.opener.doctor._check_model_process", lambda: iter(()))


def named(checks: list[Check], name: str) -> Check:
    """The check of this name."""
    found = [check for check in checks if check.name == name]
    assert len(found) == 1, (name, checks)
    return found[0]


class TestThisMachine:
    def test_everything_needed_is_there(self, folders: tuple[Path, Path], project: Path) -> None:
        """On the machine of the tests no check is bad, the texts describe this machine, and looking leaves nothing
        behind: no byte of a project is changed, and no folder is created."""
        before = project.read_bytes()
        cache = folders[1] / "not" / "there"
        checks = run_checks(folders[0], cache, project)

        assert project.read_bytes() == before
        assert not cache.exists()
        assert [check for check in checks if check.status == "bad"] == []
        assert "llama-cpp-python" in named(checks, "packages").found
        assert str(os.cpu_count()) in named(checks, "processor").found
        assert "as installed" in named(checks, f"model {DEFAULT_MODEL}").found
        assert "200 conversations" in named(checks, "project").found

    @pytest.mark.usefixtures("without_model_process")
    def test_what_is_not_well_says_what_to_do(
        self, folders: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """Every check that is not ok has a fix, and none that is ok has one."""
        checks = run_checks(*folders, tmp_path / "nothing.wb")

        assert any(check.status != "ok" for check in checks)
        assert all(bool(check.fix) == (check.status != "ok") for check in checks)


@pytest.mark.usefixtures("without_model_process")
class TestModels:
    def test_tuned_copy_gone(self, folders: tuple[Path, Path]) -> None:
        """A missing tuned copy is reported; with the copy in place tuning is ok."""
        data, cache = folders
        catalog = Catalog(data, cache)
        result = {
            "file": "m-bf16.gguf", "chosen": "bf16", "tokens_per_s": 900.0, "gain": 2.0, "threads": 2, "noise": 0.0,
        }  # fmt: skip
        catalog.record_tuning(catalog.entry(None), result)

        assert "is gone" in named(run_checks(*folders), "tuning").found
        catalog.cache.mkdir()
        (catalog.cache / "m-bf16.gguf").write_bytes(b"GGUF")
        assert named(run_checks(*folders), "tuning").status == "ok"

    def test_added_model_missing(self, folders: tuple[Path, Path], tmp_path: Path) -> None:
        """A model whose file is missing is bad, and its path is named."""
        added = write_sliding(tmp_path / "mine.gguf")
        Catalog(*folders).add(added)
        check = named(run_checks(*folders), "model mine")
        assert check.status == "ok"
        assert re.search(r"takes \d+ MB for logs of 2,048 tokens", check.found)

        added.unlink()
        check = named(run_checks(*folders), "model mine")
        assert check.status == "bad"
        assert str(added) in check.found

    def test_added_model_is_damaged(self, folders: tuple[Path, Path], tmp_path: Path) -> None:
        """A model whose file was cut is bad, with what is wrong with it."""
        added = write_sliding(tmp_path / "mine.gguf")
        Catalog(*folders).add(added)
        added.write_bytes(added.read_bytes()[:-500])
        check = named(run_checks(*folders), "model mine")
        assert check.status == "bad"
        assert "it ends before its tensors do" in check.found

    def test_model_too_large(
        self, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A model that needs more than the free memory is reported before it is loaded; a GPU counts with its
        layers.
        """
        Catalog(*folders).add(write_sliding(tmp_path / "mine.gguf"))
        monkeypatch.setattr("engine.opener.doctor.machine_memory", lambda: MachineMemory(1_000_000))
        check = named(run_checks(*folders), "model mine")
        assert (check.status, "more than there is" in check.found) == ("warn", True)
        monkeypatch.setattr(
            "engine.opener.doctor.machine_memory",
            lambda: MachineMemory(1_000_000, "A GPU", 8 << 30),
        )
        check = named(run_checks(*folders), "model mine")
        assert (check.status, "7 of 7 layers on the GPU" in check.found) == ("ok", True)

    def test_default_model_damaged(
        self, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Weights of the right size with other bytes are detected by the checksum that pip recorded."""
        copy = tmp_path / embedded_model().name
        shutil.copyfile(embedded_model(), copy)
        with copy.open("r+b") as file:
            file.seek(1_000_000)
            file.write(b"damage")
        monkeypatch.setattr("engine.model.catalog.embedded_model", lambda: copy)

        check = named(run_checks(*folders), f"model {DEFAULT_MODEL}")
        assert check.status == "bad"
        assert "pip install" in check.fix

    def test_model_process_cannot_start(self, folders: tuple[Path, Path], tmp_path: Path) -> None:
        """A llama.cpp that cannot be loaded is bad, with the last line of the process's output."""
        broken = tmp_path / "broken"
        (broken / "llama_cpp").mkdir(parents=True)
        (broken / "llama_cpp" / "__init__.py").write_text(
            "raise OSError('libllama.so: no such file')"
        )
        code = (
            "import json, pathlib, sys; from engine.opener.doctor import run_checks;"
            "print(json.dumps([[c.name, c.status, c.found] for c in run_checks(*map(pathlib.Path, sys.argv[1:]))]))"
        )
        path = os.pathsep.join([str(broken), *(p for p in sys.path if p), os.getcwd()])
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, folders)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=True,
            text=True,
        )
        found = {name: (status, text) for name, status, text in json.loads(done.stdout)}
        assert found["model process"][0] == "bad"
        assert "libllama.so" in found["model process"][1]


class TestFolders:
    def test_not_writable(self, tmp_path: Path) -> None:
        """A folder that cannot be written is bad, whether it exists or would have to be created."""
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o555)
        _open_up(tmp_path)

        there, deeper = in_child(
            _as_nobody(
                lambda: [
                    check_folder("data folder", closed),
                    check_folder("cache folder", closed / "deeper" / "cache"),
                ]
            )
        )

        assert (there.status, deeper.status) == ("bad", "bad")
        assert "WORKBENCH_DATA" in there.fix
        assert f"{closed} cannot be written" in deeper.found


class TestTerminal:
    @pytest.mark.parametrize(
        ("kind", "size", "encoding", "status", "word"),
        [
            ("xterm-256color", (120, 40), "utf-8", "ok", "256 colors"),
            ("dumb", (120, 40), "utf-8", "bad", "dumb"),
            ("xterm", (120, 20), "utf-8", "warn", "120x20"),
            ("xterm", (120, 40), "latin-1", "warn", "iso8859-1"),
        ],
    )
    def test_in_a_terminal(
        self, kind: str, size: tuple[int, int], encoding: str, status: str, word: str
    ) -> None:
        """A real terminal is checked by its type, its size and its encoding."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        code = (
            "import sys; from engine.opener.doctor import check_terminal; check = check_terminal();"
            "print(check.status, check.found, file=sys.stderr)"
        )
        environment = {**os.environ, "TERM": kind, "PYTHONIOENCODING": encoding}
        for name in ("COLORTERM", "COLUMNS", "LINES"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=REPOSITORY,
            text=True,
            check=True,
        )
        os.close(theirs)
        os.close(ours)
        assert done.stderr.split()[0] == status
        assert word in done.stderr


@pytest.mark.usefixtures("without_model_process")
class TestProject:
    def test_damaged(self, folders: tuple[Path, Path], project: Path) -> None:
        """Overwritten bytes in the middle of the file are detected, with what can still be done."""
        size = project.stat().st_size
        with project.open("r+b") as file:
            file.seek(size // 2 // 4096 * 4096)
            file.write(b"\xff" * 8192)
        check = named(run_checks(*folders, project), "project")
        assert check.status == "bad"
        assert "damaged" in check.found
        assert "workbench repair" in check.fix

    def test_interrupted_runs(self, folders: tuple[Path, Path], project: Path) -> None:
        """A run whose process is gone is reported; one whose process lives is not."""
        with Project.open(project) as opened:
            for pid in (os.getpid(), _gone()):
                run_id = opened.write(
                    lambda conn: runs.create(
                        conn, stage="complete", config_hash="x", params={}, fingerprints={},
                    )
                )  # fmt: skip
                opened.write(
                    lambda conn, pid=pid, run_id=run_id: conn.execute(  # type: ignore[misc]
                        "UPDATE run SET pid = ? WHERE id = ?", (pid, run_id)
                    )
                )
        check = named(run_checks(*folders, project), "runs")
        assert check.status == "warn"
        assert check.found == "1 left unfinished: complete"


def _as_nobody(work: Callable[[], list[Check]]) -> Callable[[], list[Check]]:
    def run() -> list[Check]:
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return run


def _open_up(path: Path) -> None:
    """Makes the folders above a path of this test accessible to every user."""
    for folder in path.parents:
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    path.chmod(0o755)


def _gone() -> int:
    """The id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def network(data: Path) -> Check:
    """The check `network`."""
    (found,) = [check for check in check_network(data) if check.name == "network"]
    return found


def add_endpoint(data: Path, name: str, url: str) -> None:
    """Writes an endpoint into the list without probing it."""
    entry = EndpointEntry(name, url, Capabilities())
    file = EndpointBook(data).file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: entry.as_params()}), "utf-8")


class TestWhatMayBeReached:
    def test_the_hub_and_endpoints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hub and endpoints are listed by host, with how to refuse them; nothing else of a URL is printed."""
        add_endpoint(tmp_path, "lab", "https://lab.example:8443/v1?token=canary#model")
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.example/mirror")
        found = network(tmp_path)
        assert found.status == "ok"
        assert "hub.example (the hub), lab.example:8443 (endpoint lab)" in found.found
        assert "--offline" in found.found
        assert "canary" not in found.found

    def test_switch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The offline switch that is on is named."""
        monkeypatch.setenv(network_guard.VARIABLE, "1")
        found = network(tmp_path).found
        assert "no network is used: the variable WORKBENCH_OFFLINE is on" in found
        assert "huggingface.co" in found


def test_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program around it, which turns the guard on, the check is bad."""
    for installed, status in ((True, "ok"), (False, "bad")):
        monkeypatch.setattr(network_guard, "is_installed", lambda installed=installed: installed)
        guard, _ = check_network(tmp_path)
        assert (guard.name, guard.status) == ("guard", status)
