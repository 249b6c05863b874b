"""Each write of a new project fails in turn; the error is one for people, and the next opening succeeds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.project.project import Project

SOURCE = Path(__file__).with_name("failing_writes.c")

CREATE = """
import os, sys
from sqlite_utils import Database, migrations  # before the forks
from engine.base.errors import WorkbenchError
from engine.project.project import Project
[folder] = sys.argv[1:]
for at in range(1, 40):
    if not os.fork():
        os.environ["FAIL_AT"] = str(at)
        try:
            Project.open(f"{folder}/{at}.wb", create=True).close()
        except WorkbenchError as error:
            print(error, flush=True)
        except BaseException as error:
            print("UNFORESEEN", repr(error), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("once", ["0", "1"])
def test_creating_on_a_full_disk(tmp_path: Path, once: str) -> None:
    """Wherever the disk becomes full while a project is made, the error says so and no file is left; a file that is
    made is sound."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path / "failing_writes.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    projects = tmp_path / "projects"
    projects.mkdir()
    failing = {"FAIL_UNDER": str(projects), "FAIL_WITH": "28", "FAIL_ONCE": once}
    said = subprocess.run(
        [sys.executable, "-c", CREATE, str(projects)],
        env={**os.environ, "LD_PRELOAD": str(library), **failing},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said
    assert all("written" in line for line in said), said
    assert len(list(projects.iterdir())) == 39 - len(said)
    for at in range(1, 40):
        with Project.open(projects / f"{at}.wb", create=True) as project, project.reading() as conn:
            assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            assert conn.execute("SELECT count(*) FROM conversation").fetchone()[0] == 0
