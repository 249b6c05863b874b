"""What grows trees on in tests: the real stage and runner, with the toy model in place of the model process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.errors import Cancelled
from engine.events import Event, JobProgress, Listener
from engine.filters import ListQuery
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog, ModelEntry, RunnableModel
from engine.model.interface import LoadOptions
from engine.services.services import ProjectInfo, Services
from engine.services.trees.records import TreeRequest
from engine.services.trees.service import Like, TreeService
from engine.stages.trees import TreeStage
from engine.store.project import Project
from engine.worker.client import ModelProcess
from engine.worker.tree_growth import grow_on, grow_trees
from engine.worker.model_client import ModelClient, OnProgress
from engine.worker.requests import Grow, GrowOn, Request
from tests.screens.test_real_store import NoJobs
from tests.screens.test_real_store import services as stored_services
from tests.screens.trees.tree_project import Spelled

T = TypeVar("T")

MODELS = {
    name: RunnableModel(
        name, Path(f"{name}.gguf"), LoadOptions(), None, {"model": name, "model_sha256": sha256}
    )
    for name, sha256 in (("toy", "00"), ("toy-two", "01"))
}


class OtherSpelled(Spelled):
    """Another toy of the same words, which says other things."""

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        return [*super().tokenize(text, special=special, start=start), *([7] if start else [])]


class ToyProcess(ModelClient):
    """Answers as the model process does; `hold` keeps it from answering, `cancel` ends what it is at, `reading` says
    that it has read something."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.cancelled = threading.Event()
        self.reading = threading.Event()
        self._model = Spelled()

    def client_for(self, model: RunnableModel) -> ToyProcess:
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
        self._model = Spelled() if path.stem == "toy" else OtherSpelled()
        return {}

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
    """A catalogue that holds the models of the tests."""

    def entries(self) -> list[ModelEntry]:
        return [ModelEntry(name, model.path, "added") for name, model in MODELS.items()]

    def runnable(self, entry: ModelEntry, adapter: Path | None = None) -> RunnableModel:
        return MODELS[entry.name]


class RunnerJobs(NoJobs):
    """The jobs of a runner."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner = runner

    def active(self) -> list[JobProgress]:
        return self._runner.active()

    def cancel(self, job_id: int) -> None:
        self._runner.cancel(job_id)


class Growing:
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
        self.trees = TreeService(
            project,
            cast(ModelProcess, self.process),
            cast(Catalog, TwoModels()),
            self._plan,
            self.runner.start,
            lambda: None,
        )

    def _plan(self, wish: TreeRequest, query: ListQuery, like: Like | None) -> list[Stage]:
        """As `Workspace` plans a tree that is to be compared with another."""
        assert like is not None
        process, model = cast(ModelProcess, self.process), MODELS[wish.model or "toy"]
        options, only = replace(like.options, alpha=wish.alpha), [like.conversation_id]
        return [TreeStage(self.project, process, lambda: model, options, like.at, only=only)]

    def services(self) -> Services:
        """The real stores, with jobs and trees that work."""
        s = stored_services(self.project)
        info = ProjectInfo("trees.wb", self.project.path, self.project.read_only)
        return Services(
            info, s.conversations, s.triage, RunnerJobs(self.runner), s.saved, s.exports,
            s.calibration, self.trees, s.goals, s.training, s.network, s.models,
            s.validation, s.simulations,
        )  # fmt: skip

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As `Workspace.subscribe`."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def _emit(self, event: Event) -> None:
        for listener in list(self.listeners):
            listener(event)
