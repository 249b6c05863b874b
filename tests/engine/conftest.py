"""Projects and models of the engine's tests: the real model in this process and in a process of its own, expanded to
F32 where results must be exact.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import folders
from engine.completeness import probe
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from engine.model.interface import LoadOptions
from engine.model.llamacpp.files import quantize
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.questions import example_fits
from tests.engine.goals.service.goal_project import cluster, fill_topics, stored_review
from tests.engine.model.tuned import tune
from tests.engine.model.weights import SMALL, write_shallow


@pytest.fixture(scope="package", autouse=True)
def quick_fits() -> Iterator[None]:
    """Fits to conversations divide them into three folds once, and these into two, in place of five folds three times
    and three: an eighth of the regressions, of which each is fitted as ever. Fits to answers stay as they are."""
    assert vars(example_fits)["REPEATS"] == probe.REPEATS  # imported before the change
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "REPEATS", 1)
        patch.setattr(probe, "FOLDS", 3)
        patch.setattr(probe, "INNER_FOLDS", 2)
        yield


@pytest.fixture(scope="session")
def expanded(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The shipped weights in F32, half a gigabyte that is removed after the session."""
    path = tmp_path_factory.mktemp("weights") / "f32.gguf"
    quantize(shipped, path, "f32", 2)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def exact_weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Five layers of the shipped weights in F32: enough for claims that hold at any depth, such as that a batch gives
    what its parts give alone. What it writes makes no sense."""
    path = tmp_path_factory.mktemp("weights") / "exact.gguf"
    write_shallow(shipped, path, exact=True)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def loaded(exact_weights: Path) -> Iterator[LlamaModel]:
    """The five layers in F32 in this process, with a small context."""
    model = LlamaModel(exact_weights, SMALL, lambda: False)
    yield model
    model.close()


@pytest.fixture
def model(loaded: LlamaModel) -> LlamaModel:
    """The F32 model with an empty cache and no adapter."""
    loaded.use_adapter(None)
    loaded.clear()
    return loaded


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """A model process for all tests of a file; the first request starts it, or another one where it ended."""
    client = ModelProcess(tmp_path_factory.mktemp("log") / "worker.log")
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared_process(
    shallow_weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelProcess]:
    """A model process with a quick format of the model loaded, for tests that do not harm it."""
    client = ModelProcess(tmp_path_factory.mktemp("log") / "worker.log")
    client.load(shallow_weights, LoadOptions(context=SMALL.context))
    yield client
    client.close()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project that is closed after the test."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def clustered_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight conversations on each of four topics, in about eight clusters, and one without user text."""
    path = tmp_path_factory.mktemp("clustered") / "p.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project)
    return path


@pytest.fixture
def clustered(clustered_file: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of the clustered project, opened."""
    with Project.open(Path(shutil.copy(clustered_file, tmp_path / "p.wb"))) as opened:
        yield opened


@pytest.fixture
def review(clustered: Project) -> MergeReviewService:
    """The merge review of the clustered project."""
    return stored_review(clustered)


@pytest.fixture
def goals(review: MergeReviewService) -> GoalService:
    """The goals of the clustered project."""
    return review.goals


@pytest.fixture
def tuned(quick_weights: Path) -> None:
    """Records in the catalog that the default model was tuned."""
    tune(quick_weights, folders.data_dir(), folders.cache_dir())


@pytest.fixture
def tuned_shallow(shallow_weights: Path) -> None:
    """The same with the shallow model, for what happens around replies; an adapter does not fit it."""
    tune(shallow_weights, folders.data_dir(), folders.cache_dir())
