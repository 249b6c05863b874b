"""The model that a run takes: the one it names, else the one the project chose for the work, else the built-in one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.errors import UsageError
from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.model.interface import LoadOptions
from engine.records.models import WORKS, Work
from engine.services.models.endpoints import Endpoints
from engine.services.run_requests import ModelRequest
from engine.services.training import adapter_in_use
from engine.services.training.adapter_in_use import ChosenAdapter
from engine.stages.model_work import RunModel
from engine.store import settings
from engine.store.project import Project

SETTING = "models"
"""The setting: names of models by work."""


class ModelsInUse:
    """The models of one project's runs."""

    def __init__(self, project: Project, catalog: Catalog, endpoints: Endpoints) -> None:
        self._project, self._catalog, self._endpoints = project, catalog, endpoints

    # What the project chose

    def chosen(self) -> dict[Work, str]:
        """The models that this project chose, by work; work without one is done by the built-in model."""
        with self._project.reading() as conn:
            found = settings.get(conn, SETTING, {})
        return {work: str(found[work]) for work in WORKS if work in found}

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Chooses a model, or endpoints as `NAME,NAME2`, for some work; the built-in one forgets the choice.

        Raises:
            ProjectReadOnly: The project cannot be written.
            UsageError: There is no such model, or the endpoints do not serve the same model alike.
        """
        if self._endpoints.model(name, LoadOptions()) is None:
            entry = self._catalog.entry(name)
            name = str(entry.path) if entry.origin == "file" else entry.name
        chosen = self.chosen()
        for work in works:
            chosen.pop(work, None)
            if name != DEFAULT_MODEL:
                chosen[work] = name
        self._project.write(lambda conn: settings.put(conn, SETTING, chosen))

    def for_work(self, asked: str | None, work: Work) -> str:
        """The name of the model for some work: the one asked for, else the project's, else the built-in one.

        Raises:
            UsageError: The project's is gone.
        """
        if asked is not None:
            return asked
        name = self.chosen().get(work, DEFAULT_MODEL)
        if not self._is_here(name):
            path = shlex.quote(self._project.path)
            raise UsageError(
                f"This project uses the model {name!r} for {work}, and it is not here.",
                f"Name one with --model, or choose another: `workbench models use {path} NAME --for {work}`.",
            )
        return name

    def _is_here(self, name: str) -> bool:
        known = {entry.name for entry in self._catalog.entries()}
        return name in known or self._endpoints.serves(name) or Path(name).is_file()

    # What a run loads

    def resolve(self, request: ModelRequest) -> RunModel:
        """The model of a run: the one asked for, else the one that its adapter was made for, else the project's, else
        the built-in one.

        Raises:
            ModelFileError: Its weights or its adapter cannot be read.
            UsageError: There is no such model or adapter, the project's model is gone, or an endpoint is to take an
                adapter.
        """
        adapter = self._adapter(request)
        name = request.model or (adapter and adapter.model) or self.for_work(None, request.work)
        options = LoadOptions(context=request.context)
        if self._endpoints.serves(name, request.adapter):
            served = self._endpoints.model(name, options)
            assert served is not None
            return RunModel(served)
        entry = self._catalog.entry(name)
        found = self._catalog.runnable(entry, adapter.path if adapter else None)
        found = replace(found, options=replace(options, threads=found.options.threads))
        return RunModel(found, entry, adapter.name if adapter else None)

    def _adapter(self, request: ModelRequest) -> ChosenAdapter | None:
        """The adapter of a run: the one asked for; for a tuned model otherwise the one in use, else the one that comes
        with the program for the model.

        Raises:
            UsageError: It is not there, or an endpoint is to take it.
        """
        if self._endpoints.serves(request.model, request.adapter):
            return None
        if request.adapter is not None:
            return adapter_in_use.find(self._project, self._catalog, str(request.adapter))
        if not request.tuned:
            return None
        name = request.model
        if name is None and adapter_in_use.get(self._project) is None:
            name = self.for_work(None, request.work)
        return adapter_in_use.chosen(self._project, self._catalog, name)
