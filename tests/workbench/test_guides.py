"""The pages of the guide are followed by their commands. Blocks marked `sh` are run; `bash` marks what takes long
or needs a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
def test_every_command_works(page: str, tmp_path: Path) -> None:
    """In the order of the page, in an empty folder, every command ends with success."""
    script = "\n".join(BLOCK.findall((GUIDE / f"{page}.md").read_text("utf-8")))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
