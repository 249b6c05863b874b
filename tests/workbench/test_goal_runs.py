"""Goal clustering from the command line without a model: arguments, exit codes, results as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.goals.service.runs import ABOUT_KEY
from engine.project import settings
from engine.project.project import Project
from tests.command_line import result, workbench
from tests.engine.goals import goal_runs
from workbench.cli import main

CLUSTER = ("run", "cluster")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """48 conversations with goals of four kinds, and one without user text."""
    goal_runs.make(tmp_path / "p.wb")
    return tmp_path / "p.wb"


class TestCluster:
    def test_clusters_and_merges(self, path: Path) -> None:
        """Too many clusters are merged by their probability, and members nearer to another group are moved there;
        conversations without a text give exit code 3.
        """
        words = (*CLUSTER, path, "--no-labels", "--k1", "12", "--filter", "name:goal")
        every = result(*words, "--decide", "none")
        merged = result(*words, "--decide", "auto")
        gaps = result(*CLUSTER, path, "--no-labels", "--decide", "none", code=3)

        assert every["conversations"] == merged["conversations"] == 48
        assert every["decisions"].keys() <= {"theme by auto"}
        assert len(merged["groups"]) < len(every["groups"])
        assert {"merge by auto", "move by auto"} <= set(merged["decisions"])
        assert sum(g["size"] for g in merged["groups"]) + merged["outliers"] == 48
        assert all(group["label"] for group in merged["groups"])
        assert gaps["without"] == 1

    def test_too_many_clusters(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """More clusters than the conversations fill are refused, where all would be left without a group."""
        assert main([*CLUSTER, str(path), "--no-labels", "--k1", "25"]) == 2
        assert "48 conversations cannot fill 25 clusters" in capsys.readouterr().err

    def test_reasons(self, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What explains answers is clustered into reasons, newly when an answer has come; before there is an answer
        that is refused. Conversations without a reason are no gap, and goals stay goals in filters."""
        reasons = (*CLUSTER, path, "--no-labels", "--text", "explanation:refused", "--k1", "2")
        assert main([*map(str, reasons)]) == 2
        assert "Nobody has answered “refused”" in capsys.readouterr().err
        ids = [json.loads(line)["id"] for line in self.listed(path)]
        file = tmp_path / "judge.jsonl"
        for count in (12, 13):
            lines = [
                {
                    "id": name,
                    "value": "yes",
                    "explanation": f"{'no refund' if n % 2 else 'wrong date'} for {n}",
                }
                for n, name in enumerate(ids[:count])
            ]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
            result("answers", path, "refused", "--import", file, "--replace")
            clustered = result(*reasons, "--decide", "none")
            assert clustered["conversations"] == count
            assert {group["size"] for group in clustered["groups"]} == {6, count - 6}
        result(*CLUSTER, path, "--no-labels", "--k1", "4", "--decide", "none", code=3)
        result("goals", "clusterings", path, "--show", "2")
        assert len(result("goals", "list", path)["groups"]) == 2
        for field, conversations in (("reason", 13), ("goal", 40)):
            assert main(["list", str(path), "--filter", f"{field}:any", "--json"]) == 0
            assert len(capsys.readouterr().out.splitlines()) == conversations
        assert main(["list", str(path), "--filter", "theme:none", "--json"]) == 0

    @staticmethod
    def listed(path: Path) -> list[str]:
        """The lines of the list of conversations with a goal."""
        return (
            workbench("list", path, "--filter", "name:goal", "--json").stdout.decode().splitlines()
        )

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--embedder", "/nowhere/e.gguf"), "no file"),
            (("--decide", "llm", "--no-labels"), "no model is asked"),
            (("--filter", "turns>"), "turns"),
        ],
    )
    def test_wrong_wishes(
        self,
        path: Path,
        capsys: pytest.CaptureFixture[str],
        words: tuple[str, ...],
        message: str,
    ) -> None:
        """Invalid arguments are an error on standard error before anything is clustered."""
        assert main([*CLUSTER, str(path), "--no-labels", *words]) == 2
        told = capsys.readouterr()
        assert message in told.err
        assert told.out == ""

    def test_the_paragraph_on_the_application_is_kept(self, path: Path) -> None:
        """The paragraph of `--about` is stored in the project and used by later summaries."""
        result(*CLUSTER, path, "--no-labels", "--decide", "none", "--about", "A help desk.", code=3)
        with Project.open(path, read_only=True) as project, project.reading() as conn:
            assert settings.get(conn, ABOUT_KEY) == "A help desk."


class TestAssign:
    def test_later_conversations(self, path: Path) -> None:
        """Later conversations are assigned to the groups; a second run has nothing to assign."""
        result(*CLUSTER, path, "--no-labels", "--k1", "4", "--decide", "none", code=3)
        with Project.open(path) as project:
            goal_runs.add(project, goal_runs.conversations(8, "later"), "later")
        found = result("run", "assign", path)
        assert found["assigned"] == sum(group["assigned"] for group in found["groups"]) == 8
        assert found["novel"] == 0
        assert result("run", "assign", path) == found
