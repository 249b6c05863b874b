"""What is in the root of the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

ROOT = {
    ".ci", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Containerfile", "LICENSE", "README.md",
    "SECURITY.md", "constraints.txt", "docs", "engine", "mkdocs.yml", "pyproject.toml", "screens", "tests", "training",
    "workbench",
}  # fmt: skip


def test_only_known_files_are_in_the_root() -> None:
    """Git tracks nothing in the root but what belongs there: no file that a test or a person left by mistake."""
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("this is no checkout of git")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True
    ).stdout
    paths = listed.decode("utf-8", "surrogateescape").split("\0")
    assert {path.partition("/")[0] for path in paths if path} == ROOT
