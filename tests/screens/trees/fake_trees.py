"""The trees of a project file: what was grown is read, costs are estimated, and runs are noted instead of begun."""

from __future__ import annotations

from pathlib import Path

from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import RunSetup
from engine.project.project import Project
from engine.trees.records import TreeRequest
from engine.trees.service import TreeService


class RecordedTrees(TreeService):
    """Starts no run, since no model process is here.

    Attributes:
        started: The requests of the runs that were to be started.
    """

    def __init__(self, project: Project) -> None:
        folder = Path(project.path).parent
        process = ModelProcess(folder / "model.log")
        setup = tree_setup(project, process, Catalog(folder, folder))
        runner = JobRunner(project, lambda _: None)
        super().__init__(setup, runner, lambda: None, lambda conn, ids: {})
        self.started: list[TreeRequest] = []

    def start(self, request: TreeRequest) -> int:
        self.started.append(request)
        return len(self.started)


def tree_setup(project: Project, process: ModelProcess, catalog: Catalog) -> RunSetup:
    """What runs of a project file need, with no endpoints."""
    folder = Path(project.path).parent
    return RunSetup(project, process, catalog, Endpoints(folder, folder))
