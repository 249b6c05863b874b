"""Finds for the runs of one project their prompts, their models, and the tuning before a first run.

The model of a run is the one that it names, else the one that the project chose for its kind of work, else the built-in
one. A prompt of a simulation is called after its folder and file, like `sharded/user`; all others are prompt files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.jobs.contract import Stage
from engine.model.catalog import (
    DEFAULT_MODEL,
    FIRST_LAYERS,
    AdapterEntry,
    Catalog,
    LoadableModel,
    ModelEntry,
)
from engine.model.interface import LoadOptions, Spending
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt, parse_prompt, places, prompt_texts, shipped_prompt
from engine.model.records import WORKS, ModelRequest, Work
from engine.model.service.endpoints import Endpoints
from engine.model.stages import TuningStage
from engine.project import settings
from engine.project.project import Project

PROMPT_KEY = "prompt."
"""Setting: the prompt of this project in place of the shipped one of that name (`prompts --set`)."""

MODELS_KEY = "models"
"""Setting: the model of each kind of work, by name (`models use`); without one the built-in model."""

ADAPTER_KEY = "adapter"
"""Setting: the adapter that scores in mode `tuned`, by name or path (`train use`)."""

FindAdapter = Callable[[str], AdapterEntry]
"""Returns the adapter with a name: of a training run, of the catalog, of a file, or of the folder of a run. Raises
UsageError if there is no such adapter."""


def adapter_in_use(project: Project) -> str | None:
    """Returns the adapter in use: name of a run or in the catalog, or a path; None if none was chosen."""
    name: str | None = project.read(settings.get, ADAPTER_KEY)
    return name


def use_adapter(project: Project, name: str | None) -> None:
    """Stores the adapter in use; None deletes the choice.

    Raises:
        ProjectReadOnly: The project is read-only.
    """
    project.write(lambda conn: settings.put(conn, ADAPTER_KEY, name))


class ProjectPrompts:
    """The prompts as one project has them."""

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        self._project = project

    def prompt(self, name: str) -> Prompt:
        """Returns the prompt of a prompt file as the project has it."""
        return parse_prompt(name, self.source(name))

    def source(self, name: str) -> str:
        """Returns the text of a prompt as the project has it.

        Raises:
            UsageError: There is no such prompt.
        """
        text = shipped_prompt(name)
        return str(self._project.read(settings.get, PROMPT_KEY + name, text))

    def texts(self, kind: str) -> dict[str, str]:
        """Returns the prompts of one kind of simulation, by name."""
        return {name: self.source(f"{kind}/{name}") for name in prompt_texts(kind)}

    def edit(self, name: str, text: str | None) -> None:
        """Stores a prompt for this project; None restores the one that comes with the program.

        Raises:
            UsageError: There is no such prompt, or the text is none: not a prompt file, or with places that nothing
                fills.
        """
        shipped = shipped_prompt(name)
        if text is not None and "/" not in name:
            parse_prompt(name, text)
        elif text is not None and (unknown := places(text) - places(shipped)):
            known = ", ".join(f"[[{place}]]" for place in sorted(places(shipped))) or "none"
            raise UsageError(
                f"The prompt {name} has places that nothing fills: "
                f"{', '.join(f'[[{place}]]' for place in sorted(unknown))}.",
                f"Places are: {known}.",
            )
        self._project.write(
            lambda conn: settings.put(conn, PROMPT_KEY + name, shipped if text is None else text)
        )


class ModelsInUse:
    """Finds the models for the runs of one project."""

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        endpoints: Endpoints,
        find_adapter: FindAdapter | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            find_adapter: Finds the adapter that a run names, or that is in use; by default only those that the catalog
                finds.
        """
        self._project, self._catalog, self._endpoints = project, catalog, endpoints
        self._find_adapter = find_adapter or catalog.find_adapter

    # What the project chose

    def chosen(self) -> dict[Work, str]:
        """Returns kind of work -> model chosen by the project; without a choice the built-in model is used."""
        stored = self._project.read(settings.get, MODELS_KEY, {})
        return {work: str(stored[work]) for work in WORKS if work in stored}

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Stores a model, or an endpoint, for kinds of work; the built-in model deletes the choice.

        Raises:
            ProjectReadOnly: The project cannot be written.
            UsageError: There is no such model.
        """
        if not self._endpoints.is_endpoint(name):
            entry = self._catalog.entry(name)
            name = str(entry.path) if entry.origin == "file" else entry.name
        chosen = self.chosen()
        for work in works:
            chosen.pop(work, None)
            if name != DEFAULT_MODEL:
                chosen[work] = name
        self._project.write(lambda conn: settings.put(conn, MODELS_KEY, chosen))

    def for_work(self, requested: str | None, work: Work) -> str:
        """Returns the name of the model for a kind of work: the requested, else the project's, else the built-in one.

        Raises:
            UsageError: The model of the project is gone.
        """
        if requested is not None:
            return requested
        name = self.chosen().get(work, DEFAULT_MODEL)
        if not self._is_here(name):
            path = shlex.quote(self._project.path)
            raise NotFound(
                f"This project uses the model {name!r} for {work}, and it is not here.",
                f"Name one with --model, or choose another: `workbench models use {path} NAME --for {work}`.",
            )
        return name

    def _is_here(self, name: str) -> bool:
        """Whether there is a model, an endpoint or a file with this name."""
        known = {entry.name for entry in self._catalog.entries()}
        return name in known or self._endpoints.is_endpoint(name) or Path(name).is_file()

    # What a run loads

    def resolve(self, request: ModelRequest) -> LoadableModel:
        """Returns the model of a run: the requested one, else the one that its adapter was trained on, else the
        project's, else the built-in one.

        Raises:
            ModelFileError: Its weights or its adapter cannot be read.
            UsageError: There is no such model or adapter, the project's model is gone, or an adapter was
                requested for an endpoint.
        """
        adapter = self._adapter(request)
        base = None if adapter is None else self._catalog.base_of(adapter)
        name = request.model or base or self.for_work(None, request.work)
        options = LoadOptions(context=request.context)
        if self._endpoints.is_endpoint(name):
            if request.adapter is not None:
                raise UsageError(
                    "An endpoint cannot be sent an adapter.",
                    "Let the endpoint serve it, as a model of its own.",
                )
            endpoint_model = self._endpoints.entry(name).loadable(options)
            endpoint_model.spending = Spending(request.max_cost, request.fresh)
            if request.max_cost is not None:
                self._endpoints.check_prices(endpoint_model)
            return endpoint_model
        entry = self._catalog.entry(name)
        is_shortened = request.first_layers and adapter is None and entry.name == DEFAULT_MODEL
        layers = FIRST_LAYERS if is_shortened else None
        model = self._catalog.loadable(entry, adapter.path if adapter else None, layers)
        model.options = replace(model.options, context=request.context)
        model.spending = Spending(fresh=request.fresh)
        model.adapter_reference = adapter.name if adapter else None
        return model

    def _adapter(self, request: ModelRequest) -> AdapterEntry | None:
        """Returns the adapter of a run: the requested one; else in mode `tuned` the one in use, unless it is for
        another model than the requested; else none.

        Raises:
            UsageError: It does not exist.
        """
        if self._endpoints.is_endpoint(request.model):
            return None
        if request.adapter is not None:
            return self._find_adapter(str(request.adapter))
        if not request.tuned:
            return None
        name = adapter_in_use(self._project)
        if name is None:
            return None
        adapter = self._find_adapter(name)
        fits = request.model is None or self._catalog.base_of(adapter) in (None, request.model)
        return adapter if fits else None


class RunSetup:
    """A project with the models and prompts that its runs take.

    Attributes:
        project: Where stages read and write.
        process: Runs the models of this machine, and gives the clients of endpoints.
        catalog: The models of this machine.
        endpoints: The endpoints that were added, and what each can do.
        prompts: The prompts as the project has them.
        models: Finds the model of a request.
    """

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        catalog: Catalog,
        endpoints: Endpoints,
        find_adapter: FindAdapter | None = None,
        sample_logs: Callable[[], str] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            find_adapter: See `ModelsInUse`.
            sample_logs: Returns logs to compare formats of a model on; by default those of `bundled_logs`.
        """
        self.project, self.process = project, process
        self.catalog, self.endpoints = catalog, endpoints
        self.prompts = ProjectPrompts(project)
        self.models = ModelsInUse(project, catalog, endpoints, find_adapter)
        self._sample_logs = sample_logs or bundled_logs

    def tuning_before(self, model: LoadableModel, *others: LoadableModel) -> list[Stage]:
        """Returns the stages to run before a run of this model; [] for endpoints, and for tuned models.

        Args:
            others: The same weights with other adapters, for later stages of the run; they load the tuned file too.
        """
        entry = model.entry
        if entry is None or entry.tuning is not None:
            return []
        return [self.tuning_of(entry, model, *others)]

    def tuning_of(self, entry: ModelEntry, *models: LoadableModel) -> TuningStage:
        """Returns the stage that tunes a model of the catalog.

        Args:
            models: Models of the run that follows; they will load the tuned file.
        """
        return TuningStage(self.process, self.catalog, entry, self._sample_logs(), models)


def bundled_logs() -> str:
    """Returns the logs of some of the demo's conversations, for measuring a model without a project."""
    return (resources.files("engine.model") / "sample_logs.txt").read_text("utf-8")
