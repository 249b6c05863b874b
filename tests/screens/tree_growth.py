"""What grows trees on in tests: the real stage and runner, with the toy model in place of the model process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

from engine.errors import Cancelled
from engine.events import Event, JobProgress, Listener
from engine.jobs import JobRunner
from engine.model.catalog import Catalog, ModelEntry, RunnableModel
from engine.model.interface import LoadOptions
from engine.store.project import Project
from engine.trees.growth import Budget
from engine.trees.places import Place
from engine.trees.record import TreeRecord
from engine.worker import protocol
from engine.worker.client import ModelProcess
from engine.worker.growing import grow_trees
from engine.worker.protocol import Frame, GrownTree
from screens.ports import ProjectInfo, Services
from tests.screens.test_real_store import NoJobs
from tests.screens.test_real_store import services as stored_services
from tests.screens.tree_project import Spelled
from workbench.tree_services import ProjectTrees

MODEL = RunnableModel(
    "toy", Path("toy.gguf"), LoadOptions(), None, {"model": "toy", "model_sha256": "00"}
)


class ToyProcess:
    """Answers as the model process does; `hold` keeps it from answering, `cancel` ends what it is at, `reading` says
    that it has read something."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.cancelled = threading.Event()
        self.reading = threading.Event()

    def load(self, path: Path, options: LoadOptions, adapter: Path | None = None) -> Frame:
        return {}

    def grow_on(
        self,
        place: Place,
        tree: TreeRecord,
        budget: Budget,
        progress: Callable[[int, str], None] | None = None,
        *,
        alpha: float | None = None,
        below: int | None = None,
    ) -> tuple[GrownTree, Frame]:
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

        request = {
            "items": [[list(place.texts), place.kept, place.answer]],
            "options": dict(tree.options),
            "budget": asdict(budget),
            "on": {"tree": tree.as_frame(), "alpha": alpha, "below": below},
        }
        answer = grow_trees(Spelled(), request, report)
        return protocol.tree_from(answer["trees"][0]), answer["work"]

    def cancel(self) -> None:
        self.cancelled.set()


class OneModel:
    """A catalogue that holds the model of the tests."""

    def entries(self) -> list[ModelEntry]:
        return [ModelEntry("toy", Path("toy.gguf"), "added")]

    def runnable(self, entry: ModelEntry, adapter: Path | None = None) -> RunnableModel:
        return MODEL


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
        self.runner = JobRunner(project, self._emit, tables_by_stage={"grow": frozenset({"tree"})})
        self.trees = ProjectTrees(
            project,
            cast(ModelProcess, self.process),
            cast(Catalog, OneModel()),
            lambda wish, query: [],
            self.runner.start,
            lambda: None,
        )

    def services(self) -> Services:
        """The real stores, with jobs and trees that work."""
        s = stored_services(self.project)
        info = ProjectInfo("trees.wb", self.project.path, self.project.read_only)
        return Services(
            info, s.conversations, s.triage, RunnerJobs(self.runner), s.saved, s.exports,
            s.calibration, self.trees,
        )  # fmt: skip

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As `Workspace.subscribe`."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def _emit(self, event: Event) -> None:
        for listener in list(self.listeners):
            listener(event)
