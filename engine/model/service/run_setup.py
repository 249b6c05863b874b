"""What the runs of one project are made with."""

from __future__ import annotations

from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.service.endpoints import Endpoints
from engine.model.service.in_use import ModelsInUse
from engine.model.service.prompts import ProjectPrompts
from engine.model.service.tuning import ModelTuning
from engine.project.project import Project


class RunSetup:
    """A project with the models and prompts that its runs take.

    Attributes:
        project: Where stages read and write.
        process: Runs the models of this machine, and passes requests on to endpoints.
        catalog: The models of this machine.
        endpoints: The endpoints that were added, and what each can do.
        prompts: The prompts as the project has them.
        models: The model of a request.
        tuning: The stages that tune a model before its first run.
    """

    def __init__(
        self, project: Project, process: ModelProcess, catalog: Catalog, endpoints: Endpoints
    ) -> None:
        self.project, self.process = project, process
        self.catalog, self.endpoints = catalog, endpoints
        self.prompts = ProjectPrompts(project)
        self.models = ModelsInUse(project, catalog, endpoints)
        self.tuning = ModelTuning(project, process, catalog)
