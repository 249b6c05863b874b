"""Which model does which work of a project, and which one a run loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.completeness.scoring_request import PROBE_CONTEXT, ScoringRequest
from engine.completeness.stages.scoring import ScoringStage
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.stages.embedding import SummarizeStage
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, FIRST_LAYERS
from engine.model.interface import LoadOptions
from engine.model.process.requests import Tune
from engine.model.records import ModelRequest
from engine.opener.open_project import OpenProject
from engine.trees.records import TreeOptions, TreeRequest
from engine.trees.stages import TreeStage
from tests.command_line import data, workbench
from tests.engine.model.small_adapters import adapter_file
from tests.engine.model.tiny import write_sliding
from tests.engine.project.support import fill, talk
from tests.engine.training.training_project import bare_run

BASE, TUNED = ScoringRequest(mode="base", tune=False), ScoringRequest(mode="tuned", tune=False)
TREES = TreeRequest(TreeOptions(alpha=0.1))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[OpenProject]:
    """A project with one conversation; the catalog has the models `large` and `other` too."""
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        fill(opened.project, [talk("one", "Hello.", "Hello.")])
        for name in ("large", "other"):
            opened.catalog.add(write_sliding(tmp_path / f"{name}.gguf"), name)
        yield opened


def name(workspace: OpenProject, request: ModelRequest) -> str:
    """Name of the model that a request means."""
    entry = workspace.run_setup.models.resolve(request).entry
    assert entry is not None
    return entry.name


def loaded(workspace: OpenProject) -> dict[str, str]:
    """Name of the model that a run of each kind would load."""
    scores = next(
        s for s in workspace.scoring_runs.make_run(BASE).stages if isinstance(s, ScoringStage)
    )
    trees = next(s for s in workspace.trees.stages(TREES) if isinstance(s, TreeStage))
    goals = next(
        s
        for s in workspace.goal_stages().cluster_stages(ClusteringRequest(paper=True))
        if isinstance(s, SummarizeStage)
    )
    return {
        "scoring": scores.fingerprints["model"],
        "goals": goals.fingerprints["model"],
        "trees": trees.fingerprints["model"],
    }


class TestChoice:
    def test_each_work_has_its_own(self, workspace: OpenProject) -> None:
        """A run takes the model that was chosen for its own kind of work."""
        workspace.run_setup.models.use("large", ["scoring"])
        workspace.run_setup.models.use("other", ["goals"])
        assert loaded(workspace) == {"scoring": "large", "goals": "other", "trees": DEFAULT_MODEL}
        workspace.run_setup.models.use("other", ["trees"])
        assert loaded(workspace)["trees"] == "other"

    def test_a_run_loads_what_it_tuned(
        self, workspace: OpenProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After its tuning stage a run loads the tuned file, with the context that was asked for; the next run does not
        tune again."""

        def ask(request: Tune, progress: object) -> dict[str, Any]:
            folder = request.folder
            folder.mkdir(parents=True, exist_ok=True)
            write_sliding(folder / "fast.gguf")
            return {
                "candidates": [], "chosen": "bf16", "file": "fast.gguf", "threads": 2,
                "tokens_per_s": 9.0, "gain": 1.0, "noise": 0.01,
            }  # fmt: skip

        monkeypatch.setattr(workspace.process, "ask", ask)
        run = workspace.scoring_runs.make_run(ScoringRequest(model="large", context=512))
        assert run.reading is not None
        model = run.reading.model
        assert model.label == "large"
        for _ in run.stages[0].run(0):
            pass
        assert run.reading.stage.title == "Scoring with large (bf16)"
        assert model.options == LoadOptions(context=512, threads=2)
        request = ScoringRequest(model="large")
        assert workspace.scoring_runs.make_run(request).stages[0].name != "tune"

    def test_first_layers_of_the_built_in_model(
        self, workspace: OpenProject, tmp_path: Path
    ) -> None:
        """Mode `probe` reads with the first layers of the built-in model and 1,024 tokens, unless the request says
        otherwise; another mode, model or an adapter takes the whole model."""
        adapter = str(adapter_file(tmp_path / "mine.gguf"))

        def options(request: ScoringRequest) -> LoadOptions:
            loads = workspace.run_setup.models.resolve(request.model_request)
            return replace(loads.options, threads=None)

        shortened = LoadOptions(context=PROBE_CONTEXT, layers=FIRST_LAYERS)
        whole = LoadOptions(context=PROBE_CONTEXT)
        assert options(ScoringRequest(mode="probe")) == shortened
        assert options(ScoringRequest(mode="probe", context=300)) == replace(shortened, context=300)
        assert options(ScoringRequest(mode="probe", layers="all")) == whole
        assert options(ScoringRequest(mode="probe", model="large")) == whole
        assert options(ScoringRequest(mode="probe", adapter=adapter)) == whole
        assert options(ScoringRequest(mode="base")) == LoadOptions()
        assert options(ScoringRequest(mode="tuned")) == LoadOptions()

    def test_gone(self, workspace: OpenProject) -> None:
        """A chosen model that left the catalog is an error that says how to choose another; no other model is used
        instead.
        """
        workspace.run_setup.models.use("large", ["scoring"])
        workspace.catalog.forget("large")
        with pytest.raises(UsageError, match="uses the model 'large' for scoring") as caught:
            workspace.scoring_runs.make_run(BASE)
        assert "models use" in caught.value.hint
        assert name(workspace, ModelRequest("scoring", "other")) == "other"


class TestAdapters:
    @pytest.fixture
    def run(self, workspace: OpenProject, tmp_path: Path) -> str:
        """A training run on the model `other`."""
        provenance = AdapterOrigin(base_name="other", recipe="boundary")
        adapter_file(bare_run(tmp_path / "p.wb", "mine").adapter_gguf, origin=provenance)
        return "mine"

    def test_the_one_in_use_brings_its_model(self, workspace: OpenProject, run: str) -> None:
        """In mode `tuned` the adapter in use is loaded with the model it was made for, whatever was chosen for
        scoring.
        """
        workspace.run_setup.models.use("large", ["scoring"])
        workspace.training.use(run)
        assert name(workspace, TUNED.model_request) == "other"
        assert name(workspace, BASE.model_request) == "large"


class TestCommand:
    def test_chosen_and_listed(self, tmp_path: Path) -> None:
        """The command chooses a model for the named work, without a name for all, and lists the choices."""
        project, path = tmp_path / "p.wb", write_sliding(tmp_path / "mine.gguf")
        with OpenProject(project, create=True) as opened:
            opened.catalog.add(path, "mine")
        done = workbench(
            "models", "use", project, "mine", "--for", "goals", "--for", "trees", "--json"
        )
        models = data(done)["models"]
        assert models == {
            "scoring": DEFAULT_MODEL,
            "goals": "mine",
            "trees": "mine",
            "questions": DEFAULT_MODEL,
            "simulation": DEFAULT_MODEL,
        }
        assert workbench("models", "use", project, "mine").returncode == 0
        assert set(data(workbench("models", "use", project, "--json"))["models"].values()) == {
            "mine"
        }
        said = workbench("models", "use", project).stdout.decode()
        assert "scores and remaining tasks" in said
