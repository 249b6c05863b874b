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
        catalog, endpoints = Catalog(folder, folder), Endpoints(folder, folder)
        setup = RunSetup(project, process, catalog, endpoints)
        runner = JobRunner(project, lambda _: None)
        super().__init__(setup, runner, lambda conn, ids: {})
        self.started: list[TreeRequest] = []

    def start(self, request: TreeRequest) -> int:
        self.started.append(request)
        return len(self.started)
