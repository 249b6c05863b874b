"""The plan of a training run: settings, counts, and the sources of the estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.model.catalog import Catalog
from engine.model.interface import CHARS_PER_TOKEN
from engine.project.project import Project
from engine.training import plan as planning
from engine.training.base import GIB, Machine
from engine.training.events import EventLog
from engine.training.plan import TrainingPlanner
from engine.training.run_files import create_run
from engine.training.service import RunDirectories, TrainingService
from engine.training.training_request import TrainingRequest
from tests.engine.project.support import fill, talk
from tests.engine.training.training_project import fill_with_talks

CPU = Machine("CPU", 16 * GIB)


@pytest.fixture
def project(project: Project) -> Project:
    """Forty conversations of three turns."""
    fill_with_talks(project)
    return project


@pytest.fixture
def planner(project: Project, tmp_path: Path) -> TrainingPlanner:
    """A planner for a machine without a GPU."""
    return TrainingPlanner(
        project,
        Catalog(tmp_path / "data", tmp_path / "cache"),
        RunDirectories(Path(project.path)).histories,
        machine=lambda: CPU,
    )


class TestCounts:
    def test_sides_tokens_and_steps(self, planner: TrainingPlanner) -> None:
        """The estimate has the conversations to train on, their tokens, and the steps that follow from the settings."""
        plan = planner.plan(TrainingRequest(settings=(("epochs", "2"), ("batch", "4"))))
        found = plan.estimate

        assert found.matched == 40 == found.train + found.held_out
        assert found.steps == 2 * -(-found.train // 4)
        chars = sum(one.chars for one in plan.data.split.train)
        assert found.tokens == pytest.approx(chars / CHARS_PER_TOKEN, rel=0.02)

    def test_what_cannot_be_used_is_said(self, project: Project, planner: TrainingPlanner) -> None:
        """Conversations without an answer, duplicates and too long logs are counted apart from the rest."""
        fill(
            project, [talk("alone", "Anybody?"), talk("long", "Go.", "word " * 4000, "On.", "Ok.")]
        )
        found = planner.plan(TrainingRequest(held_out=0.1, settings=(("max_tokens", "500"),)))

        assert any("1 have no answer" in note for note in found.estimate.notes)
        assert any("only the last 500 tokens" in note for note in found.estimate.notes)

    def test_of_many_conversations_some_are_read(
        self, planner: TrainingPlanner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An estimate from a sample of many conversations says so; a plan for a run reads all."""
        monkeypatch.setattr(planning, "MAX_SURVEYED_CONVERSATIONS", 10)
        rough, exact = (planner.plan(TrainingRequest(), whole=whole) for whole in (False, True))

        assert "10 of 40" in rough.estimate.notes[0]
        assert rough.estimate.train + rough.estimate.held_out == pytest.approx(40, abs=4)
        assert len(exact.data.split.train) == exact.estimate.train


class TestFigures:
    def test_earlier_runs_tell_the_speed(self, project: Project, planner: TrainingPlanner) -> None:
        """The speed comes from earlier runs on this machine with the same base and recipe, not from other machines."""
        plan = planner.plan(TrainingRequest(name="first"))
        run = create_run(project, plan.name, plan.config, plan.data)
        log = EventLog(run.events)
        log.write("started", step=0, steps=9, tokens=900, pid=1)
        log.write("step", step=1, loss=1.0, tokens_per_s=50.0)
        log.close()
        found = planner.plan(TrainingRequest(name="second")).estimate

        assert (found.seconds or 0) > 3 * (found.tokens or 0) / 50.0
        other = planner.plan(TrainingRequest(name="other", recipe="paper")).estimate
        assert other.seconds is None

        manifest = json.loads(run.manifest.read_text())
        run.manifest.write_text(json.dumps({**manifest, "machine": "another"}))
        assert planner.plan(TrainingRequest(name="third")).estimate.seconds is None

    def test_a_machine_with_too_little_memory(self, project: Project, tmp_path: Path) -> None:
        """Where the memory does not suffice, the estimate says so and what to change."""
        planner = TrainingPlanner(
            project,
            Catalog(tmp_path / "data", tmp_path / "cache"),
            RunDirectories(Path(project.path)).histories,
            machine=lambda: Machine("CPU", GIB),
        )
        found = planner.plan(TrainingRequest()).estimate

        assert not found.fits
        assert "smaller base" in found.advice

    def test_a_run_that_has_no_room_is_not_started(self, project: Project, tmp_path: Path) -> None:
        """Where less is free than the run needs, nothing is written unless it is forced; the error says how much."""
        machine = Machine("CPU", 16 * GIB, free=GIB // 2)
        catalog = Catalog(tmp_path / "data", tmp_path / "cache")
        service = TrainingService(project, catalog, machine=lambda: machine)
        plan = service.planner.plan(TrainingRequest(), whole=True)
        with pytest.raises(UsageError, match=r"are free \(CPU\)") as caught:
            service.prepare(plan)
        assert "--force" in caught.value.hint
        assert service.runs() == []
        service.prepare(plan, force=True)
        assert len(service.runs()) == 1


class TestRequests:
    @pytest.mark.parametrize(
        "fields",
        [
            {"held_out": 0.0}, {"held_out": 1.0}, {"limit": 0}, {"recipe": "x"},
            {"base": "nowhere"}, {"name": "a/b"}, {"settings": (("recipe", "paper"),)},
            {"settings": (("batch", "-1"),)}, {"settings": (("batch", "x"),)},
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_refused(
        self, fields: dict[str, Any], planner: TrainingPlanner
    ) -> None:
        """A request with an impossible value is refused before anything is written."""
        with pytest.raises(UsageError):
            planner.plan(TrainingRequest(**fields))

    def test_folders(self, planner: TrainingPlanner, tmp_path: Path) -> None:
        """A folder of weights is a base under its own name; one without weights is refused."""
        folder = tmp_path / "some-7b"
        folder.mkdir()
        with pytest.raises(UsageError, match="without weights"):
            planner.plan(TrainingRequest(base=str(folder)))
        sizes = {
            "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
            "vocab_size": 259,
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(sizes))
        plan = planner.plan(TrainingRequest(base=str(folder)))

        assert (plan.config.base, plan.config.base_name) == (str(folder), "some-7b")
        assert plan.name == "some-7b-boundary-1"
        assert plan.estimate.memory
