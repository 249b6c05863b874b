"""`workbench analyse`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.simulate.forms.table import ModelRow, draw_forms
from tests.engine.project.support import fill, talk
from tests.engine.simulate.forms.playing import Script, as_reply, played
from tests.engine.simulate.forms.test_run_files import files_of
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three conversations of one and two turns, two of them rated."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        fill(
            project,
            [
                talk("a", "hi", "ho", truth={"rating": {"质量": 1}}),
                talk("b", "hi", "ho", "and?", "so", truth={"rating": {"质量": 2}}),
                talk("c", "hi", "ho", "why?", "so"),
            ],
        )
    return path


def test_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each number of turns, aligned in cells whatever the script."""
    assert main(["analyse", "turns", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "turns  conversations    质量",
        "    1              1  1.0000",
        "    2              2  2.0000",
    ]


def test_the_same_text_twice(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record with the same text as another one counts too; the same record from another file does not."""
    with Project.open(path) as project:
        fill(project, [talk("a2", "hi", "ho", truth={"rating": {"质量": 2}})], "b")
        fill(project, [talk("a", "hi", "ho", truth={"rating": {"质量": 1}})], "c")
    assert main(["analyse", "turns", str(path), "--json", "--filter", "turns:1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["turns"]
    assert row == {"turns": 1, "conversations": 2, "means": {"质量": 1.5}, "counts": {"质量": 2}}


class TestAptitude:
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

    def test_every_run_counts(self, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two runs with the same text are one conversation and count as two runs; one without an attempt scores 0."""
        assert main(["analyse", "aptitude", str(logs), "--json"]) == 0
        full, sharded = json.loads(capsys.readouterr().out)["aptitude"]
        assert sharded["performance"] == 0
        assert (full["runs"], full["instructions"], sharded["runs"]) == (3, 1, 1)
        assert full["performance"] == pytest.approx(200 / 3)
        assert full["aptitude"] == 100
        assert full["unreliability"] == pytest.approx(80)
        assert full["of_full"] == {"performance": 1, "aptitude": 1, "unreliability": 1}
        assert sharded["of_full"] == {"performance": 0, "aptitude": 0, "unreliability": None}

    def test_table(self, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With one run only, the table has no reliability."""
        assert main(["analyse", "aptitude", str(logs)]) == 0
        told = capsys.readouterr()
        assert told.out.splitlines()[2].split() == [
            "1", "1", "0.0", "0%", "0.0", "-", "0%", "-", "math,", "sharded,", "m"
        ]  # fmt: skip
        assert "simulated once" in told.err

    def test_nothing_simulated(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Without simulations the error says what such logs contain."""
        assert main(["analyse", "aptitude", str(path)]) == 2
        assert "conv_type" in capsys.readouterr().err


def test_imported_runs_are_tabulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of several projects are one table (here twice the same), and Figure 2 shows its figures; a project
    without a run is told in words.
    """
    over = played(Script({"user": as_reply({"answer": "Ulm"})}), run=2)
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, value in files_of(over, dummies=frozenset()).items():
        (folder / name).write_text(json.dumps(value))
    project = str(tmp_path / "a.wb")
    assert main(["import", project, str(folder)]) == 0
    capsys.readouterr()
    picture = tmp_path / "forms.svg"
    assert main(["analyse", "forms", project, project, "--json", "--plot", str(picture)]) == 0
    row, mean = json.loads(capsys.readouterr().out)["forms"]
    assert (row["model"], row["form"], row["runs"], row["failed"]) == ("small-model", "small", 2, 0)
    filled = pytest.approx(over.ending.result["filled_score"])
    assert (row["filled_score"], mean["filled_score"], row["score"]) == (filled, filled, None)
    drawn = picture.read_text("utf-8")
    for shown in ("small-model", f"{row['turns']:.2g}", f"{mean['filled_score']:.2g}"):
        assert f">{shown}<" in drawn
    assert ">small: fields and turns" in drawn
    Project.open(tmp_path / "c.wb", create=True).close()
    assert main(["analyse", "forms", str(tmp_path / "c.wb")]) == 2
    assert "simulate forms" in capsys.readouterr().err


def test_models_whose_names_begin_alike_have_bars_of_their_own(tmp_path: Path) -> None:
    """Only the labels are shortened, and they keep the end of a name, which tells such models apart."""
    begin = "a-family-of-models-with-a-long-name-instruct"
    rows = [
        ModelRow(f"{begin}-{size}", "modular", form, 1, 0, 2.0, 3.0, mean, mean, mean, mean, mean)
        for size, mean in (("8b", 0.25), ("70b", 0.75))
        for form in ("small", "")
    ]
    draw_forms(rows, tmp_path / "forms.svg")
    drawn = (tmp_path / "forms.svg").read_text("utf-8")
    for shown in ("instruct-8b<", "instruct-70b<", ">0.25<", ">0.75<"):
        assert shown in drawn
