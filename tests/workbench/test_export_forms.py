"""`export conversations` for other programs, and `answers --import`, as a script uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, Verdict, render_log
from engine.conversations.tables import conversations
from engine.formats.inputs import open_inputs
from engine.formats.records import Parsed
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from tests.engine.project.support import fill, give_scores, talk, with_tools
from workbench.cli import main

BESIDE = ["--with", "scores,answers,goals,trees"]
SECRET = "the lamp never came"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations with truth; one is scored and has a verdict with a note."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.wb"
    lamp = talk("lamp", "A lamp, please.", "Here it is.", meta={"n": 2}, truth={"reward": 0.0})
    with Project.open(path, create=True) as opened:
        fill(opened, [lamp, with_tools("flight")])
        give_scores(opened, {1: 0.25})
        TriageService(opened).give(1, Verdict.NO, SECRET)
    return path


def stored(project: Path) -> list[Conversation]:
    with Project.open(project, read_only=True) as opened, opened.reading() as conn:
        return [one for _, _, one in conversations.export_conversations(conn)]


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


FILES = (
    *("u.jsonl", "openai.jsonl", "anthropic.jsonl", "sharegpt.jsonl", "inspect.json", "csv.csv"),
    "parquet.parquet",
)


@pytest.mark.parametrize("name", FILES)
def test_what_is_known_is_no_truth(
    project: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores and verdicts that were written beside conversations are imported as metadata: no model reads them, and
    they are no truth. The truth is written on request only, except in the uniform form."""
    form = name.partition(".")[0]
    asked = [] if form == "u" else ["--as", form]
    code, _, told = run(capsys, "export", project, "conversations", *asked, *BESIDE, "-o", name)
    assert code == 0, told
    assert form == "u" or "2 conversations with truth, which is left out" in told
    (source,) = open_inputs([Path(name)])
    read = [one.conversation for one in source.records() if isinstance(one, Parsed)]
    assert len(read) == 2
    for before, after in zip(stored(project), read, strict=True):
        truth = {key: value for key, value in (after.truth or {}).items() if key != "target"}
        assert truth == (before.truth if form == "u" else {})
        assert SECRET not in "".join(piece.text for piece in render_log(after.messages))
    if form in ("u", "openai", "anthropic", "sharegpt"):
        assert read[0].meta["workbench"]["succeeded"] == "no"
        assert read[0].meta["workbench"]["p"] == 0.25


def test_a_file_is_written_over_only_with_force(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is there stays unless --force is named, also one for the settings of an annotation, which
    the tasks cannot take the name of; a device and an empty file are written."""
    words = ["export", project, "conversations", "--as", "label-studio", "-o", "tasks.json"]
    for name in ("tasks.json", "tasks.xml"):
        Path(name).write_text("mine", "utf-8")
        code, _, told = run(capsys, *words)
        assert (code, Path(name).read_text("utf-8")) == (1, "mine")
        assert f"{name} is there already.\n  Choose another name, or add --force" in told
        code, _, told = run(capsys, *words, "--force")
        assert code == 0, told
        assert Path(name).read_text("utf-8") != "mine"
        Path("tasks.json").unlink()
    for harmless in ("/dev/null", "empty.jsonl"):
        Path("empty.jsonl").touch()
        assert run(capsys, "export", project, "conversations", "-o", harmless)[0] == 0
    code, _, told = run(capsys, *words[:-1], "tasks.xml", "--force")
    assert (code, "the name of the settings" in told) == (2, True)
    code, _, told = run(capsys, "export", project, "table", "-o", project, "--force")
    assert code == 1
    assert "is a project" in told


def test_there_and_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks go to Label Studio with their settings, without what is known; answers come back as verdicts, with exit
    code 3 where some were not taken."""
    code, out, _ = run(
        capsys, "export", project, "conversations", "--json", "--as", "label-studio", "-o", "t.json"
    )
    assert (code, json.loads(out)["settings"]) == (0, "t.xml")
    assert '<Choice value="no"/>' in Path("t.xml").read_text("utf-8")
    text = Path("t.json").read_text("utf-8")
    assert SECRET not in text
    assert "reward" not in text
    found: list[dict[str, Any]] = json.loads(text)
    result = {"from_name": "succeeded", "type": "choices", "value": {"choices": ["yes"]}}
    for task in found:
        task["annotations"] = [{"completed_by": 1, "result": [result]}]
    Path("back.json").write_text(json.dumps(found), encoding="utf-8")
    code, out, _ = run(capsys, "answers", project, "succeeded", "--import", "back.json")
    assert code == 3
    assert "1 verdict was given." in out
    assert "another verdict, which stays" in out
    code, out, _ = run(
        capsys, "answers", project, "succeeded", "--import", "back.json", "--replace", "--json"
    )
    assert (code, json.loads(out)["replaced"], json.loads(out)["same"]) == (0, 1, 1)
