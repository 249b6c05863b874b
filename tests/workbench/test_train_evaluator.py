"""`workbench train evaluator`: examples from samples and files, as a run directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.goals.questions.teaching import KINDS
from engine.run_directory.config import EVALUATOR, TrainConfig
from engine.run_directory.events import RunDirectory
from engine.simulate.samples import sample_conversations, sample_tasks, write_jsonl
from workbench.cli import main
from workbench.evaluator_data import cut_short, known_of, make


@pytest.fixture(scope="module")
def goals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of conversations with goals."""
    path = tmp_path_factory.mktemp("files") / "shop.jsonl"
    write_jsonl(sample_conversations(60, seed=3), path)
    return path


class TestCommand:
    def test_a_run_directory(
        self, goals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Config, both data files and the manifest are there, and what is told is what they hold."""
        folder = tmp_path / "run"
        code = main(
            [
                "train", "evaluator", str(folder), "--file", f"{goals}:40", "--examples", "60", "--held-out", "0.3",
                "--set", "rank=4", "--json",
            ]
        )  # fmt: skip
        assert code == 0
        told = json.loads(capsys.readouterr().out)
        run = RunDirectory(folder)
        config = TrainConfig.load(run.config)
        assert (config.recipe, config.rank) == (EVALUATOR, 4)
        for side, path in (("train", run.train), ("valid", run.valid)):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            assert sum(told[side].values()) == len(lines)
            kinds = {line["prompt"]["name"] for line in lines}
            # Few conversations are held out, hardly two of one goal that could be compared.
            assert {"summary", "remaining"} <= kinds if side == "valid" else kinds == set(KINDS)
        assert told["conversations"]["shop"] == 40
        assert json.loads(run.manifest.read_text())["counts"]["train"] == sum(
            told["train"].values()
        )

    def test_a_folder_that_is_there_stays(self, goals: Path, tmp_path: Path) -> None:
        """It is not written into."""
        assert main(["train", "evaluator", str(tmp_path)]) == 2
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "words",
        [
            ["--set", "rank"],
            ["--set", "rank=high"],
            ["--set", "rank=0"],
            ["--set", "recipe=paper"],
            ["--file", "no.jsonl"],
        ],
    )
    def test_what_cannot_be_is_refused(self, tmp_path: Path, words: list[str]) -> None:
        """A setting that is none, or a file that is not there, ends before anything is written."""
        assert main(["train", "evaluator", str(tmp_path / "run"), *words]) != 0
        assert not (tmp_path / "run").exists()


class TestSides:
    def test_what_validates_was_not_trained_on(self, goals: Path) -> None:
        """No log and no task stands on both sides."""
        made = make([str(goals)], 200, 0.3, seed=1)
        logs = [
            {one.texts for one in side if one.prompt.name in ("summary", "remaining")}
            for side in (made.train, made.valid)
        ]

        assert all(logs)
        assert not logs[0] & logs[1]

    def test_a_goal_is_told_as_truth_has_it(self, tmp_path: Path) -> None:
        """A text of the task goes before the goal's name, and what has no goal is passed over."""
        said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes?"}]
        told = {"goal": "ride_book", "goal_text": "You want to change your ride."}
        truths = [told, {"goal": "ride_book"}, {"complete": True}]
        path = tmp_path / "rides.jsonl"
        path.write_text(
            "".join(
                json.dumps({"id": str(at), "messages": said, "truth": truth}) + "\n"
                for at, truth in enumerate(truths)
            )
        )

        assert [one.wish for one in known_of(str(path), 0)] == ["change their ride", "book a ride"]


def test_samples_that_are_cut_name_what_is_left() -> None:
    """What is left is what the script does after the cut, and never nothing."""
    scripted = sample_tasks(60, seed=5)
    cut = [cut_short(conversation, tasks, 1) for conversation, tasks in scripted]

    assert all(one.tasks for one in cut)
    assert any(len(one.tasks) < len(tasks) for one, (_, tasks) in zip(cut, scripted, strict=True))
    for one, (conversation, tasks) in zip(cut, scripted, strict=True):
        assert len(one.texts) < len(conversation.messages)
        assert len(one.tasks) == sum(task.done > len(one.texts) for task in tasks)
