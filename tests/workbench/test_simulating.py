"""`workbench simulate`: from instructions to a table, and the results of several projects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base import folders
from engine.base.errors import UsageError
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.simulate.service import load_instructions
from tests.command_line import result
from tests.engine.model.tuned import tune
from tests.engine.simulate.forms.playing import Script, as_reply, played
from tests.engine.simulate.sharded.scripted import SHELLS
from workbench.cli import main

PLUMS: dict[str, Any] = {**SHELLS.record(), "task_id": "plums"}


@pytest.fixture
def plums(tmp_path: Path) -> Path:
    """A file with one instruction."""
    path = tmp_path / "plums.json"
    path.write_text(json.dumps([PLUMS]), "utf-8")
    return path


class TestPlaying:
    def test_table_and_conversations(
        self, single_layer_weights: Path, plums: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A layer of the default model plays; a second run calls no model and prints the same."""
        tune(single_layer_weights, folders.data_dir(), folders.cache_dir())
        project = str(plums.parent / "p.wb")
        words = ["simulate", "sharded", project, str(plums), "--max-tokens", "8"]
        words += ["--context", "2048", "--conditions", "full", "--json"]
        assert main(words) == 0
        first = json.loads(capsys.readouterr().out)
        assert [(row["condition"], row["runs"]) for row in first["aptitude"]] == [("full", 1)]
        (play,) = first["plays"]
        assert (play["reason"], play["task_id"], play["turns"]) == (None, "plums", 1)
        assert first["source"].startswith("sharded-")
        assert main(words) == 0
        again = capsys.readouterr()
        assert json.loads(again.out) == first
        assert "Played 0 plays of sharded in 0 replies" in again.err


def test_an_edit_with_a_place_that_nothing_fills(tmp_path: Path) -> None:
    """An edited prompt with an unknown place is refused with the list of known ones."""
    with OpenProject(tmp_path / "p.wb", create=True) as workspace:
        with pytest.raises(UsageError, match=r"\[\[NO_SUCH_PLACE\]\]") as error:
            workspace.run_setup.prompts.edit("sharded/recap", "[[SAMPLE_TEXT]] [[NO_SUCH_PLACE]]")
        assert "[[SAMPLE_TEXT]]" in error.value.hint


class TestWords:
    @pytest.mark.parametrize(("name", "count"), [("math", 20), ("actions", 2)])
    def test_what_comes_along(self, name: str, count: int) -> None:
        """The shipped instructions are found by name; those of maths have 3 to 6 shards."""
        found, dataset = load_instructions(name)
        assert (len(found), {one.task for one in found}) == (count, {name})
        assert dataset == f"instructions_{name}.json"
        assert name != "math" or all(3 <= len(one.shards) <= 6 for one in found)


class TestResults:
    @pytest.fixture
    def logs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
        """A project of simulations: one instruction under two conditions, with two runs of the same text, and one
        without an attempt.
        """
        lines = [
            {
                "conv_id": f"{condition}-{n}",
                "conv_type": condition,
                "task": "math",
                "task_id": 1,
                "assistant_model": "m",
                "score": score,
                "trace": [
                    {"role": "user", "content": f"{condition}?"},
                    {"role": "assistant", "content": f"{score}"},
                    {"role": "log", "content": {"type": "answer-evaluation", "score": score}},
                ],
            }
            for n, (condition, score) in enumerate(
                [("full", 1.0), ("full", 1.0), ("full", 0.0), ("sharded", None)]
            )
        ]
        (tmp_path / "l.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        assert main(["import", str(tmp_path / "p.wb"), str(tmp_path / "l.jsonl")]) == 0
        capsys.readouterr()
        return tmp_path / "p.wb"

    def test_every_run_counts(self, logs: Path) -> None:
        """Two runs with the same text are one conversation and count as two runs; one without an attempt scores 0."""
        full, sharded = result("simulate", "results", str(logs))["aptitude"]
        assert sharded["performance"] == 0
        assert (full["runs"], full["instructions"], sharded["runs"]) == (3, 1, 1)
        assert full["performance"] == pytest.approx(200 / 3)
        assert full["aptitude"] == 100
        assert full["unreliability"] == pytest.approx(80)
        assert full["of_full"] == {"performance": 1, "aptitude": 1, "unreliability": 1}
        assert sharded["of_full"] == {"performance": 0, "aptitude": 0, "unreliability": None}


def test_imported_runs_are_tabulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of several projects are one table (here twice the same); a project without a run is told in words."""
    over = played(Script({"user": as_reply({"answer": "Ulm"})}), run=2)
    record = over.ending.record or {}
    truth = {**record["truth"], "assistant_model": "small-model"}
    (tmp_path / "run.jsonl").write_text(json.dumps({**record, "truth": truth}))
    project = str(tmp_path / "a.wb")
    assert main(["import", project, str(tmp_path / "run.jsonl")]) == 0
    row, mean = result("simulate", "results", project, project)["forms"]
    assert (row["model"], row["form"], row["runs"], row["failed"]) == ("small-model", "small", 2, 0)
    filled = pytest.approx(over.ending.result["filled_score"])
    assert (row["filled_score"], mean["filled_score"], row["score"]) == (filled, filled, None)
    Project.open(tmp_path / "c.wb", create=True).close()
    assert main(["simulate", "results", str(tmp_path / "c.wb")]) == 2
    assert "conv_type" in capsys.readouterr().err
