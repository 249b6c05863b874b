"""The pages of the guide are followed by the commands they show, except those of the first hour and the weekly triage,
which are about a person's own logs, and of training, which takes too long."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "pages", ["import", "goals", "completeness trees simulation", "machines", "scripting"]
)
def test_every_command_works(pages: str, tmp_path: Path) -> None:
    """In the order of the page, in an empty folder, every command ends with success. Pages with a model share a home,
    in which the model is tuned once."""
    script = ""
    for page in pages.split():
        commands = "\n".join(BLOCK.findall((GUIDE / f"{page}.md").read_text("utf-8")))
        script += f"mkdir {page}\ncd {page}\n{commands}\ncd ..\n"
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
