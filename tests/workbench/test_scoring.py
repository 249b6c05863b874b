"""`workbench scores` and `workbench status`: the sets of scores, and the one in force."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.model import catalog
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.command_line import result
from tests.engine.project.support import fill, give_scores, talk
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A project of three conversations with two sets of scores, the first of which is in force."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(str(n), f"hi {n}") for n in range(3)])
        give_scores(project, {1: 0.9, 2: 0.9, 3: 0.1}, "aa11")
        give_scores(project, {1: 0.1, 2: 0.1, 3: 0.1}, "ab22", make_current=False)
    return str(tmp_path / "p.wb")


def complete(path: str) -> int:
    """The number of complete conversations that `status` prints."""
    return int(result("status", path)["counts"]["complete"])


def test_a_set_is_chosen_and_gone_back_to(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--use switches by number or by the start of a hash, without a run; the list marks the set in force."""
    assert main(["scores", path]) == 0
    assert "*  1  aa11  base · tiny.gguf, 3 conversations; not tested" in capsys.readouterr().out
    assert complete(path) == 2
    assert main(["scores", path, "--use", "2"]) == 0
    assert "*  2  ab22" in capsys.readouterr().out
    assert complete(path) == 0
    sets = result("scores", path, "--use", "aa")["sets"]
    assert [one["in_force"] for one in sets] == [True, False]
    assert complete(path) == 2


@pytest.mark.parametrize("which", ["3", "a"])
def test_a_set_that_is_not_one(path: str, capsys: pytest.CaptureFixture[str], which: str) -> None:
    """What names no set, or two, is refused with the numbers that there are, and changes nothing."""
    assert main(["scores", path, "--use", which]) == 2
    assert "Numbers of sets: 1, 2." in capsys.readouterr().err
    assert complete(path) == 2


def test_status_names_the_set_in_force(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`status` names mode and model of the scores that it counts, says that they are not tested and what would help."""
    assert main(["status", path]) == 0
    out = capsys.readouterr().out
    assert "scores in force: set 1, base · tiny.gguf, 3 conversations; not tested" in out
    assert "what would help: `run complete --mode probe`" in out
    assert "1 other set" in out


@pytest.fixture
def unscored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A project of 26 sample conversations."""
    write_jsonl(
        sorted(sample_conversations(60), key=lambda one: len(one.messages))[10:36],
        tmp_path / "logs.jsonl",
    )
    project = str(tmp_path / "p.wb")
    assert main(["import", project, str(tmp_path / "logs.jsonl")]) == 0
    capsys.readouterr()
    return project


def test_words_need_no_model(
    unscored: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a model `run complete --mode words` says beforehand that it takes words alone, and scores
    all conversations, tested; again it changes nothing, and a copy of the project gets the same scores."""
    monkeypatch.setattr(catalog, "_EMBEDDED_PACKAGE", "not_installed")
    copy = shutil.copy(unscored, unscored + "-copy.wb")
    words = ["run", "complete", unscored, "--mode", "words"]
    estimate = result(*words, "--estimate")
    assert (estimate["items"], estimate["tokens"], estimate["model"]) == (26, None, "words alone")
    for _ in range(2):
        assert main(words) == 0
        assert (
            "scores in force: set 1, words, 26 conversations; whole against"
            in capsys.readouterr().out
        )
    assert main(["run", "complete", copy, "--mode", "words"]) == 0
    capsys.readouterr()
    exports = []
    for project in (unscored, copy):
        assert main(["list", project, "--json"]) == 0
        exports.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert len(exports[0]) == 26
    assert exports[0] == exports[1]


def test_a_probe_from_the_command_line(
    unscored: str, capsys: pytest.CaptureFixture[str], single_layer_weights: Path
) -> None:
    """`run complete` scores by words, reads, fits and tests in one command, says so and succeeds; again it finds the
    same set in force without reading."""
    words = ["run", "complete", unscored, "--model", str(single_layer_weights), "--mode", "probe"]
    words += ["--no-tune", "--no-remaining"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "scores in force: set 2, probe" in out
    assert "26 conversations; whole against cut" in out
    found = result(*words)
    assert found["scored_set"]["scored"] == 26
    assert found["scored_set"]["config_hash"] == found["in_force"]["config_hash"]
    assert found["score_sets"] == 2


def test_why(unscored: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--why prints the words for and against the end of a conversation, --at at an earlier place; both need words."""
    with Project.open(Path(unscored), read_only=True) as project, project.reading() as conn:
        (name,) = conn.execute("SELECT external_id FROM conversation WHERE id = 1").fetchone()
    assert main(["scores", unscored, "--why", name]) == 2
    assert "--mode words" in capsys.readouterr().err
    assert main(["scores", unscored, "--at", "1"]) == 2
    assert main(["run", "complete", unscored, "--mode", "words"]) == 0
    capsys.readouterr()

    assert main(["scores", unscored, "--why", name]) == 0
    out = capsys.readouterr().out
    assert "for an end" in out
    assert "before any word" in out
    found = result("scores", unscored, "--why", name)
    assert {"message", "reasons", "rest", "intercept", "states", "log_odds", "p"} <= set(found)
    assert main(["scores", unscored, "--why", "nobody"]) == 2
