"""Run directories: what is written into a new one, and what must not be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, Message
from engine.base.errors import NameTaken, NotFound, UsageError
from engine.completeness.training_data import split, usable
from engine.formats.records import Parsed
from engine.project.project import Project
from engine.training.config import TrainConfig
from engine.training.run_directory import RunDirectory, lock_run
from engine.training.run_files import (
    DataPlan,
    all_runs,
    check_name,
    create_run,
    delete,
    free_name,
    manifest_of,
    manifest_summary,
    part_to_test,
    run_named,
    runs_folder,
)
from tests.engine.project.support import fill, talk
from tests.engine.training.training_project import bare_run, fill_with_talks

CONFIG = TrainConfig(base="base.gguf", base_name="tiny")


@pytest.fixture
def project(project: Project) -> Project:
    """Forty conversations of three turns."""
    fill_with_talks(project)
    return project


def made(path: Path, name: str) -> RunDirectory:
    """A run of a project that is made if it is not there."""
    there = path.exists()
    with Project.open(path, create=True) as opened:
        if not there:
            fill_with_talks(opened)
        return create_run(opened, name, CONFIG, plan(opened))


def plan(project: Project, **asked: Any) -> DataPlan:
    """A plan over all conversations of the project."""
    wanted = {"seed": 0, "held_out": 0.5, "limit": None, **asked}
    with project.reading() as conn:
        ids = [row[0] for row in conn.execute("SELECT id FROM conversation ORDER BY id")]
        found = [one for page in usable(conn, ids) for one in page]
    drawn = split(found, seed=wanted["seed"], held_out=wanted["held_out"], limit=wanted["limit"])
    return DataPlan(drawn, "", len(ids), wanted["seed"], wanted["held_out"], wanted["limit"])


def lines(path: Path) -> list[dict[str, Any]]:
    """The conversations in a data file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


class TestData:
    def test_logs_as_scoring_reads_them(self, project: Project) -> None:
        """Each line is a log in pieces with its boundaries, with the name of its conversation."""
        run = create_run(project, "first", CONFIG, plan(project))

        for line in lines(run.train):
            n = line["id"].removeprefix("talk/")
            assert "".join(line["texts"]) == (
                f"TURN 1, STEP 1, user chat:\nI want to fly to place {n}.\n\n"
                "TURN 1, STEP 2, assistant chat:\nWhen?\n\n"
                "TURN 2, STEP 3, user chat:\nOn Monday.\n\n"
                "TURN 2, STEP 4, assistant chat:\nBooked. Anything else?\n\n"
                "TURN 3, STEP 5, user chat:\nNo.\n\n"
                "TURN 3, STEP 6, assistant chat:\nHave a nice flight."
            )
            assert (line["boundaries"], line["kept"]) == ([1, 3, 5], 0)

    def test_truth_is_nowhere(self, project: Project) -> None:
        """No file of a run contains the truth."""
        run = create_run(project, "first", CONFIG, plan(project))

        for path in run.path.iterdir():
            assert "SECRET-GOAL" not in path.read_text("utf-8")
            assert "reward" not in path.read_text("utf-8")

    def test_what_the_leak_guard_hides_stays_hidden(self, project: Project) -> None:
        """The trainer's data has hidden messages left out and texts as the leak guard changed them."""
        messages = (
            Message("user", "Solve it."),
            Message("assistant", "It is 4. ###STOP###", model_view="It is 4."),
            Message("user", "REWARD 1", model_view="", hidden=True),
        )
        fill(project, [Parsed(None, str(n).encode(), Conversation(f"guarded/{n}", (
            Message("user", f"No {n}."), *messages[1:]))) for n in range(8)])  # fmt: skip
        run = create_run(project, "first", CONFIG, plan(project))
        text = run.train.read_text("utf-8") + run.valid.read_text("utf-8")

        assert "It is 4." in text
        assert "###STOP###" not in text
        assert "REWARD 1" not in text

    def test_the_manifest_tells_what_is_where(self, project: Project) -> None:
        """The manifest has the hashes of the files and the names of the lines; training and held-out data share
        none.
        """
        run = create_run(project, "first", CONFIG, plan(project, seed=3))
        manifest = manifest_of(run)

        for name, path in (("train", run.train), ("valid", run.valid)):
            assert manifest[f"{name}_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
            assert manifest[name] == [line["id"] for line in lines(path)]
        assert set(manifest["valid"]) <= set(manifest["held_out"])
        assert not set(manifest["train"]) & set(manifest["held_out"])
        assert len(manifest["train"]) + len(manifest["held_out"]) == 40
        assert manifest["seed"] == 3
        assert manifest_summary(run)["counts"] == manifest["counts"]
        assert TrainConfig.load(run.config) == CONFIG

    def test_the_trainer_never_has_the_test_part(self, project: Project) -> None:
        """The texts of the test part are in no file of the run directory; the manifest has their names."""
        run = create_run(project, "first", CONFIG, plan(project))
        manifest = manifest_of(run)
        texts = run.train.read_text("utf-8") + run.valid.read_text("utf-8")

        assert manifest["counts"]["test"] == len(manifest["test"]) > 0
        for name in manifest["test"]:
            assert f"place {name.removeprefix('talk/')}." not in texts
        assert not set(manifest["test"]) & {*manifest["train"], *manifest["valid"]}
        assert part_to_test(run) == frozenset(manifest["test"])

    def test_nobody_answered(self, tmp_path: Path) -> None:
        """A conversation without an answer has no boundary and is not used; a project with no other cannot be trained
        on.
        """
        with Project.open(tmp_path / "none.wb", create=True) as opened:
            fill(opened, [talk(f"alone/{n}", f"Anybody there, {n}?") for n in range(9)])
            with pytest.raises(UsageError, match="none is left to train on"):
                create_run(opened, "first", CONFIG, plan(opened))
            assert all_runs(tmp_path / "none.wb") == []


class TestWhoseRuns:
    def test_a_project_made_anew_has_none(self, tmp_path: Path) -> None:
        """A project in the place of a deleted one, or beside one of the same stem, does not show the other's runs."""
        made(tmp_path / "t.wb", "b1")
        (tmp_path / "t.wb").unlink()
        for path in (tmp_path / "t.wb", tmp_path / "t.db"):
            with Project.open(path, create=True) as opened:
                fill_with_talks(opened)
            assert all_runs(path) == []
            with pytest.raises(NotFound, match="no training run 'b1'"):
                run_named(path, "b1")
            assert free_name(path, "b") == "b-1"
            with pytest.raises(NameTaken):
                check_name(path, "b1")

    def test_a_renamed_project_keeps_its_runs(self, tmp_path: Path) -> None:
        """Renamed, a project shows the runs beside it under its old name, and those under its new one."""
        made(tmp_path / "t.wb", "old")
        (tmp_path / "t.wb").rename(tmp_path / "u.wb")
        made(tmp_path / "u.wb", "new")

        names = sorted(
            f"{run.path.parent.name}/{run.path.name}" for run in all_runs(tmp_path / "u.wb")
        )
        assert names == ["t.training/old", "u.training/new"]
        with pytest.raises(NameTaken), Project.open(tmp_path / "u.wb") as project:
            create_run(project, "old", CONFIG, plan(project))


class TestFolders:
    def test_a_run_is_there_whole_or_not_at_all(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A disk that fills up while data is written leaves no run directory behind."""

        def full(self: TrainConfig, path: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(TrainConfig, "save", full)
        with pytest.raises(Exception, match="The disk is full"):
            create_run(project, "first", CONFIG, plan(project))

        assert list(runs_folder(Path(project.path)).iterdir()) == []

    @pytest.mark.parametrize("name", ["..", "a/b", "x" * 65])
    def test_names_that_are_no_folders(self, project: Project, name: str) -> None:
        """A name that would leave the folder, or be a hidden file, is refused."""
        with pytest.raises(UsageError, match="cannot name a run"):
            create_run(project, name, CONFIG, plan(project))

    def test_deleting(self, tmp_path: Path) -> None:
        """A run is deleted with all its files, unless a process works on it."""
        Project.open(tmp_path / "p.wb", create=True).close()
        run = bare_run(tmp_path / "p.wb")
        (run.checkpoints / "5").mkdir(parents=True)
        with lock_run(run), pytest.raises(UsageError, match="running"):
            delete(run)
        assert all_runs(tmp_path / "p.wb") == [RunDirectory(run.path)]

        delete(run)
        assert list(run.path.parent.iterdir()) == []
