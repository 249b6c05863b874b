"""`workbench watch`: what it refuses before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.project.project import Project
from workbench.cli import main
from workbench.command_result import EXIT_FAILED, EXIT_USAGE
from workbench.commands.scoring import print_event


@pytest.mark.parametrize(
    ("paths", "said", "code"),
    [
        (["none.jsonl"], "There is no file or folder none.jsonl", EXIT_FAILED),
        ([], "required: PATH", EXIT_USAGE),
        ([".", "--format", "yaml"], "There is no format 'yaml'", EXIT_USAGE),
    ],
)
def test_refused(
    paths: list[str], said: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path or a format that is not there and no path are refused with what to do."""
    Project.open(tmp_path / "p.wb", create=True).close()
    assert main(["watch", str(tmp_path / "p.wb"), *paths]) == code
    assert said in capsys.readouterr().err


def test_an_event_may_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """An event cannot act on a terminal: what a name from the logs has of control characters is escaped."""
    event = {"conversation": "a\x9b31m\u202eb"}
    print_event(event)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == event
