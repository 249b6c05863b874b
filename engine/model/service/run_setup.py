"""What the runs of one project are made with: prompts, the model of each kind of work, tuning before a first run.

The model of a run is the one that it names, else the one that the project chose for its kind of work, else the built-in
one. A prompt of a simulation is called after its folder and file, like `sharded/user`; all others are prompt files.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from engine.base.conversation import render_log
from engine.base.errors import NotFound, UsageError
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.catalog import DEFAULT_MODEL, Catalog, ModelEntry
from engine.model.interface import LoadOptions
from engine.model.model_work import RunModel
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import (
    Prompt,
    parse_prompt,
    places,
    prompt_kinds,
    prompt_names,
    prompt_text,
    prompt_texts,
)
from engine.model.service.endpoints import Endpoints
from engine.model.service.records import WORKS, ModelRequest, Work
from engine.model.stages import TuningStage
from engine.project import settings
from engine.project.idset import IdSet
from engine.project.project import Project
from engine.training import adapter_in_use
from engine.training.adapter_in_use import ChosenAdapter

PROMPT_KEY = "prompt."
"""Setting: the prompt of this project in place of the shipped one of that name (`prompts --set`)."""


def names() -> list[str]:
    """Names of all prompts, those of simulations last."""
    return [
        *prompt_names(),
        *(f"{kind}/{name}" for kind in prompt_kinds() for name in prompt_texts(kind)),
    ]


def shipped(name: str) -> str:
    """The text of a prompt as it comes with the program.

    Raises:
        UsageError: There is no such prompt.
    """
    kind, _, of_kind = name.partition("/")
    if not of_kind:
        return prompt_text(name)
    found = prompt_texts(kind).get(of_kind) if kind in prompt_kinds() else None
    if found is None:
        raise NotFound(f"There is no prompt {name!r}.", f"Prompts are: {', '.join(names())}.")
    return found


class ProjectPrompts:
    """The prompts as one project has them."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def prompt(self, name: str) -> Prompt:
        """A prompt file."""
        return parse_prompt(name, self.source(name))

    def source(self, name: str) -> str:
        """The text of a prompt.

        Raises:
            UsageError: There is no such prompt.
        """
        text = shipped(name)
        with self._project.reading() as conn:
            return str(settings.get(conn, PROMPT_KEY + name, text))

    def texts(self, kind: str) -> dict[str, str]:
        """The prompts of one kind of simulation, by name."""
        return {name: self.source(f"{kind}/{name}") for name in prompt_texts(kind)}

    def edit(self, name: str, text: str | None) -> None:
        """Stores a prompt for this project; None restores the one that comes with the program.

        Raises:
            UsageError: There is no such prompt, or the text is none: not a prompt file, or with places that nothing
                fills.
        """
        before = shipped(name)
        if text is not None and "/" not in name:
            parse_prompt(name, text)
        elif text is not None and (unknown := places(text) - places(before)):
            known = ", ".join(f"[[{place}]]" for place in sorted(places(before))) or "none"
            raise UsageError(
                f"The prompt {name} has places that nothing fills: "
                f"{', '.join(f'[[{place}]]' for place in sorted(unknown))}.",
                f"Places are: {known}.",
            )
        self._project.write(
            lambda conn: settings.put(conn, PROMPT_KEY + name, before if text is None else text)
        )


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


TEXT_CHARS = 24_000
"""Length of the text on which formats are compared."""


TEXT_CONVERSATIONS = 64
"""Most conversations of the project that the text is taken from."""


class ModelTuning:
    """Makes the stages that tune the models of one project's runs."""

    def __init__(self, project: Project, process: ModelProcess, catalog: Catalog) -> None:
        self._project, self._process, self._catalog = project, process, catalog

    def before(self, model: RunModel, *others: RunModel) -> list[Stage]:
        """Returns the stages to run before a run of this model; [] for endpoints, and for tuned models whose speed is
        still what it was.

        Args:
            others: The same weights with other adapters, for later stages of the run; they load the tuned file too.
        """
        if model.entry is None:
            return []
        if model.entry.tuning is not None and self._catalog.drift(model.entry) is None:
            return []
        return [self.stage(model.entry, model, *others)]

    def stage(self, entry: ModelEntry, *models: RunModel) -> TuningStage:
        """Returns the stage that tunes a model of the catalogue.

        Args:
            models: Models of the run that follows; they will load the tuned file.
        """
        return TuningStage(self._process, self._catalog, entry, self._text(), models)

    def _text(self) -> str:
        """Returns logs of the project, or sample conversations if it has none."""
        with self._project.reading() as conn:
            ids = IdSet.every(conn).ascending()[:TEXT_CONVERSATIONS]
            found = [messages for _, messages in conversations.conversations_for(conn, ids)]
        if not found:
            return sample_text()
        logs = (piece.text for messages in found for piece in render_log(messages))
        return "".join(logs)[:TEXT_CHARS]


def sample_text() -> str:
    """Returns the logs of some of the demo's conversations, for measuring a model without a project."""
    return (resources.files("engine.model") / "sample_logs.txt").read_text("utf-8")


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
