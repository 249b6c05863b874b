"""The scripts with which a shell completes commands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from workbench.cli import main


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("workbench ru", "run"),
        ("workbench run comp", "complete"),
        ("workbench run complete --mod", "--model --mode"),
        ("workbench run complete --mode pro", "probe"),
        ("workbench status proj", "project.wb"),
    ],
)
def test_bash_completes(
    words: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """bash completes commands, options, choices and files, without starting the program."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "project.wb").touch()
    (tmp_path / "script").write_text(capsys.readouterr().out)
    typed = f"source ./script; COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}"
    shown = subprocess.run(
        ["bash", "-c", f"{typed}; _shtab_workbench; echo ${{COMPREPLY[@]}}"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == found.split()


def test_the_version_says_what_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` begins with the version, and names Python and llama.cpp's package."""
    assert main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert shown.split()[0].count(".") == 2
    assert "Python 3." in shown
    assert "llama-cpp-python" in shown
