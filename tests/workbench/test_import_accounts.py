"""`workbench import` says what it read and what not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.exits import DONE, WITH_GAPS

WHOLE = {"id": "a", "messages": [{"role": "user", "content": "Where is my parcel?"}]}
GAP = {
    "id": "b",
    "messages": [{"role": "user", "content": "And mine?"}],
    "choices": [
        {"message": {"role": "assistant", "content": "On its way."}},
        {"message": {"role": "assistant", "content": "It was lost in the harbour."}},
    ],
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A file with one conversation that is read whole and one that is not."""
    path = tmp_path / "logs.jsonl"
    path.write_text("\n".join(map(json.dumps, (WHOLE, GAP))), encoding="utf-8")
    return path


def test_text_that_was_not_read_is_a_warning(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over 2% of text that went nowhere: the text says format, why, shares, path and example; the exit code is 3."""
    assert main(["import", str(tmp_path / "p.wb"), str(logs)]) == WITH_GAPS
    out = capsys.readouterr().out
    assert "openai, because the records have `messages` with role and content" in out
    assert "2 conversations, 3 messages" in out
    assert "`choices[].message.content`" in out
    assert "lost in the harbour" in out
    assert "Warning: more than 2% of the text was not read" in out


def test_json_has_every_source(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In JSON every source has its counts and where its text went."""
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(WHOLE), encoding="utf-8")
    main(["import", str(tmp_path / "p.wb"), str(logs), str(whole), "--json"])
    first, second = json.loads(capsys.readouterr().out)["sources"]
    assert first["warning"]
    assert first["characters"]["nowhere"] == 27
    assert not second["warning"]
    assert second["characters"]["nowhere"] == 0


def test_a_dry_run_shows_and_stores_nothing(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run` prints the account and two conversations, and makes no project."""
    assert main(["import", str(tmp_path / "p.wb"), str(logs), "--dry-run"]) == WITH_GAPS
    out = capsys.readouterr().out
    assert "text read as: " in out
    assert "== a ==\nTURN 1, STEP 1, user chat:\nWhere is my parcel?" in out
    assert not (tmp_path / "p.wb").exists()


def test_a_refused_import_leaves_no_project(tmp_path: Path) -> None:
    """A file in no known format leaves no project behind, and a project that was there stays."""
    strange, good = tmp_path / "strange.json", tmp_path / "good.json"
    strange.write_text('{"weather": "fine"}', encoding="utf-8")
    good.write_text(json.dumps(WHOLE), encoding="utf-8")
    project = tmp_path / "p.wb"
    assert main(["import", str(project), str(strange)]) != DONE
    assert not list(tmp_path.glob("p.wb*"))
    assert main(["import", str(project), str(good)]) == DONE
    assert main(["import", str(project), str(strange)]) != DONE
    assert project.exists()
