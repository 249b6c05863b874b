"""The model of a run: the one it names, else the one that the project chose for its kind of work, else the built-in
one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import NotFound
from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.model.interface import LoadOptions
from engine.model.model_work import RunModel
from engine.model.service.endpoints import Endpoints
from engine.model.service.records import (
    WORKS,
    ModelRequest,
    Work,
)
from engine.project import settings
from engine.project.project import Project
from engine.training import adapter_in_use
from engine.training.adapter_in_use import ChosenAdapter

SETTING = "models"
"""Setting: the model of each kind of work, by name (`models use`); without one the built-in model."""


class ModelsInUse:
    """Finds the models for the runs of one project."""

    def __init__(self, project: Project, catalog: Catalog, endpoints: Endpoints) -> None:
        self._project, self._catalog, self._endpoints = project, catalog, endpoints

    # What the project chose

    def chosen(self) -> dict[Work, str]:
        """Returns kind of work -> model chosen by the project; without a choice the built-in model is used."""
        with self._project.reading() as conn:
            found = settings.get(conn, SETTING, {})
        return {work: str(found[work]) for work in WORKS if work in found}

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Stores a model, or endpoints as `NAME,NAME2`, for kinds of work; the built-in model deletes the choice.

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
        """Returns the name of the model for a kind of work: the requested, else the project's, else the built-in one.

        Raises:
            UsageError: The model of the project is gone.
        """
        if asked is not None:
            return asked
        name = self.chosen().get(work, DEFAULT_MODEL)
        if not self._is_here(name):
            path = shlex.quote(self._project.path)
            raise NotFound(
                f"This project uses the model {name!r} for {work}, and it is not here.",
                f"Name one with --model, or choose another: `workbench models use {path} NAME --for {work}`.",
            )
        return name

    def _is_here(self, name: str) -> bool:
        known = {entry.name for entry in self._catalog.entries()}
        return name in known or self._endpoints.serves(name) or Path(name).is_file()

    # What a run loads

    def resolve(self, request: ModelRequest) -> RunModel:
        """Returns the model of a run: the requested one, else the one that its adapter was trained on, else the
        project's, else the built-in one.

        Raises:
            ModelFileError: Its weights or its adapter cannot be read.
            UsageError: There is no such model or adapter, the project's model is gone, or an adapter was
                requested for an endpoint.
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
        """Returns the adapter of a run: the requested one; else in mode `tuned` the one in use, or the one that comes
        with the program for the model.

        Raises:
            UsageError: It does not exist, or the model is an endpoint.
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
