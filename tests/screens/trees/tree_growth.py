"""What grows trees on in tests: the real stage and runner, with the toy model in place of the model process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.base.errors import Cancelled, UsageError
from engine.base.events import Event, Listener
from engine.completeness.records import Mode
from engine.completeness.service.runs import ScoringRuns
from engine.goals.tables.groups import goals_of
from engine.jobs.contract import OnProgress
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog, LoadableModel, ModelEntry
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.protocol import Request
from engine.model.process.requests import ModelClient
from engine.opener.jobs import JobService
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.trees.model_requests import Grow, GrowOn, grow_on, grow_trees
from engine.trees.service import TreeService
from tests.screens.real_store import services as stored_services
from tests.screens.trees.fake_trees import tree_setup
from tests.screens.trees.tree_project import WordModel

T = TypeVar("T")

MODELS = {
    name: LoadableModel(
        name, Path(f"{name}.gguf"), LoadOptions(), None, {"model": name, "model_sha256": sha256}
    )
    for name, sha256 in (("toy", "00"),)
}


class ToyProcess(ModelClient):
    """Answers as the model process does; `hold` keeps it from answering, `cancel` ends what it is at, `reading` says
    that it has read something."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.cancelled = threading.Event()
        self.reading = threading.Event()
        self._model = WordModel()

    parallel = 1

    def client_for(self, model: LoadableModel) -> ToyProcess:
        return self

    def spent(self) -> str:
        return ""

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> dict[str, Any]:
        return {"context": 4096}

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        read = 0

        def report(nodes: int) -> None:
            nonlocal read
            read += nodes
            if not read:  # the prompt, of which nothing is worth waiting for
                return
            self.reading.set()
            if progress is not None:
                progress(read, "")
            while not self.hold.wait(0.01):
                if self.cancelled.is_set():
                    raise Cancelled("The request was cancelled.")

        if isinstance(request, GrowOn):
            return cast(T, grow_on(self._model, request, report))
        assert isinstance(request, Grow)
        return cast(T, grow_trees(self._model, request, report))

    def cancel(self) -> None:
        self.cancelled.set()


class TwoModels:
    """A catalog that holds the models of the tests."""

    def entries(self) -> list[ModelEntry]:
        return [ModelEntry(name, model.path, "added") for name, model in MODELS.items()]

    def loadable(self, entry: ModelEntry, adapter: Path | None = None) -> LoadableModel:
        return MODELS[entry.name]


class NoScoring(JobService):
    """Jobs of a project whose model cannot score; the overview says why in the place of a cost."""

    def scoring_mode(self) -> Mode:
        """Refused."""
        raise UsageError("This model cannot score.")


class GrowableProject:
    """A project whose trees can be grown on; `subscribe` is for the app."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.process = ToyProcess()
        self.listeners: list[Listener] = []
        self.runner = JobRunner(
            project,
            self._emit,
            tables_by_stage={name: frozenset({"tree"}) for name in ("grow", "trees")},
        )
        process = cast(ModelProcess, self.process)
        setup = tree_setup(project, process, cast(Catalog, TwoModels()))
        self.trees = TreeService(setup, self.runner, lambda: None, goals_of)

    def services(self) -> OpenProject:
        """The real stores, with jobs and trees that work."""
        made = stored_services(self.project)
        made.name = "trees.wb"
        made.jobs = NoScoring(self.project, self.runner, lambda: cast(ScoringRuns, None))
        made.trees = self.trees
        return made

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As `OpenProject.subscribe`."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def _emit(self, event: Event) -> None:
        for listener in list(self.listeners):
            listener(event)
