"""Which adapter a name stands for, and which one is used without a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.model.adapter_files import AdapterOrigin
from engine.model.records import ModelRequest
from engine.model.service.run_setup import use_adapter
from engine.opener.open_project import OpenProject
from engine.training.service import find_adapter
from tests.engine.model.small_adapters import adapter_file
from tests.engine.project.support import fill, talk
from tests.engine.training.training_project import bare_run


def write_adapter(path: Path, base: str = "smollm2-135m") -> Path:
    """Writes an adapter for this base."""
    return adapter_file(path, origin=AdapterOrigin(base_name=base, recipe="boundary"))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[OpenProject]:
    """A project with one conversation, and a run with an adapter."""
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        fill(opened.project, [talk("one", "Hello.", "Hello.")])
        write_adapter(bare_run(tmp_path / "p.wb", "mine").adapter_gguf)
        bare_run(tmp_path / "p.wb", "unfinished")
        yield opened


TUNED = ModelRequest("scoring", tuned=True)


class TestNames:
    def test_a_run_its_folder_and_its_file(self, workspace: OpenProject, tmp_path: Path) -> None:
        """The name of a run, its folder and its file stand for the same adapter, for the model it was made for."""
        folder = tmp_path / "p.training" / "mine"
        for name in ("mine", str(folder), str(folder / "adapter.gguf")):
            found = find_adapter(workspace.project, workspace.catalog, name)
            assert found.path == folder / "adapter.gguf"
            assert workspace.catalog.base_of(found) == "smollm2-135m"

    @pytest.mark.parametrize("name", ["nobody", "unfinished"])
    def test_what_is_not_there(self, workspace: OpenProject, name: str) -> None:
        """An unknown name, or a run without an adapter, is refused."""
        with pytest.raises(UsageError, match=name):
            find_adapter(workspace.project, workspace.catalog, name)


class TestInUse:
    def test_the_chosen_one_is_taken(self, workspace: OpenProject) -> None:
        """After `use`, mode tuned loads the adapter with its model, other modes load none, and the run records it."""
        workspace.training.use("mine")
        model = workspace.run_setup.models.resolve(TUNED)

        assert model.adapter is not None
        assert model.adapter.parent.name == "mine"
        assert workspace.run_setup.models.resolve(ModelRequest("scoring")).adapter is None
        assert {run.name: run.in_use for run in workspace.training.runs()} == {
            "mine": True,
            "unfinished": False,
        }

    def test_it_is_not_for_another_model(self, workspace: OpenProject) -> None:
        """A named model that is not the adapter's base is used without the adapter."""
        workspace.training.use("mine")
        workspace.catalog.add(workspace.catalog.entry(None).path, "copy")
        options = ModelRequest("scoring", "copy", tuned=True)

        assert workspace.run_setup.models.resolve(options).adapter is None
        named = ModelRequest("scoring", "copy", "mine", tuned=True)
        assert workspace.run_setup.models.resolve(named).adapter is not None

    def test_it_is_gone(self, workspace: OpenProject, tmp_path: Path) -> None:
        """When the adapter file in use is gone, scoring fails with its name instead of scoring without it."""
        path = write_adapter(tmp_path / "file.gguf")
        use_adapter(workspace.project, str(path))
        assert workspace.run_setup.models.resolve(TUNED).adapter is not None
        path.unlink()

        with pytest.raises(UsageError, match=r"file\.gguf"):
            workspace.run_setup.models.resolve(TUNED)
