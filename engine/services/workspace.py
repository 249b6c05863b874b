"""The composition root: opens a project and puts the services that work on it together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from engine import folders
from engine.errors import Cancelled, WorkbenchError
from engine.events import DataChanged, Event, Listener
from engine.jobs.contract import Stage
from engine.jobs.runner import JobCancelled, JobFailed, JobRunner
from engine.model.catalog import Catalog
from engine.services.comparison.service import ComparisonService
from engine.services.exports import ExportFiles
from engine.services.goals.run_stages import GOAL_STAGES, GoalStages
from engine.services.goals.service import GoalService
from engine.services.jobs import JobService
from engine.services.models.endpoints import Endpoints
from engine.services.models.run_setup import RunSetup
from engine.services.models.service import ModelService
from engine.services.network import NetworkService
from engine.services.scoring.one_conversation import ConversationScorer
from engine.services.scoring.runs import ScoringRuns
from engine.services.scoring.sets import ScoreSets
from engine.services.services import ProjectInfo, Services
from engine.services.simulation.service import SimulationService
from engine.services.simulation.simulations import ProjectSimulations
from engine.services.training.service import TrainingService
from engine.services.trees.runs import TreeRuns
from engine.services.trees.service import TreeService
from engine.services.triage.calibration import CalibrationService
from engine.services.triage.example_probes import ExampleProbeService
from engine.services.validation.service import ValidationService
from engine.store.conversations import ConversationStore
from engine.store.project import Project
from engine.store.saved import SavedStore
from engine.store.triage import TriageStore
from engine.views.decision_log import DecisionLog, complete_goal_index
from engine.views.merge_queue_cache import MergeQueueCache
from engine.worker.routing import RoutedProcess

TABLES = {
    "import": frozenset({"conversation", "message", "source"}),
    "check": frozenset({"conversation"}),
    "complete": frozenset({"score"}),
    "fit": frozenset({"score"}),
    "remaining": frozenset({"remaining"}),
    "trees": frozenset({"tree"}),
    "grow": frozenset({"tree"}),
    "tune": frozenset({"model"}),
    "simulate": frozenset({"conversation", "message", "source", "play"}),
    **dict.fromkeys(GOAL_STAGES, frozenset({"goal"})),
}


class Workspace:
    """One open project with everything that works on it. Close it, or use it as a context manager."""

    def __init__(
        self, path: Path, *, create: bool = False, read_only: bool = False, upgrade: bool = True
    ) -> None:
        """Opens a project; see `Project.open`.

        Raises:
            ModelFileError: The model catalogue cannot be read.
            ProjectError: The file cannot be opened.
        """
        # The catalogue first: when it cannot be read, no project is left open and locked.
        self.catalog = Catalog(folders.data_dir(), folders.cache_dir())
        self.project = Project.open(path, create=create, read_only=read_only, upgrade=upgrade)
        complete_goal_index(self.project)
        self.network = NetworkService(self.project)
        self.endpoints = Endpoints(folders.data_dir(), folders.cache_dir())
        self.process = RoutedProcess(folders.log_dir() / "model.log", self.endpoints.connect)
        self._setup = RunSetup(self.project, self.process, self.catalog, self.endpoints)
        self.prompts, self.models_in_use = self._setup.prompts, self._setup.models
        self.scoring_runs = ScoringRuns(self._setup)
        self.conversation_scorer = ConversationScorer(self._setup, self.scoring_runs)
        self.tree_runs = TreeRuns(self._setup)
        self.merge_queue_cache = MergeQueueCache(
            self.project, DecisionLog(self.project), folders.cache_dir() / "neighbours"
        )
        self.training = TrainingService(self.project, self.catalog)
        self._listeners: list[Listener] = []
        self._guard = threading.Lock()
        self.example_probes = ExampleProbeService(self.project, self._tell("example probes"))
        self.runner = JobRunner(
            self.project, self._emit, tables_by_stage=TABLES, code_version=folders.version()
        )
        self.models = ModelService(
            self._setup, self.runner, folders.config_dir(), self._tell("model")
        )

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops jobs at once, ends the model process and closes the project; what was committed stays."""
        self.models.close()
        self.example_probes.close()
        self.runner.stop()  # before the process ends, so that the runs count as interrupted
        self.process.close()
        self.runner.close()
        self.endpoints.close()
        self.network.close()
        self.project.close()

    # Events

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener; the function that is returned removes it."""
        with self._guard:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._guard:
                self._listeners.remove(listener)

        return unsubscribe

    def _emit(self, event: Event) -> None:
        with self._guard:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(event)

    def _tell(self, table: str) -> Callable[[], None]:
        """Returns a function that notifies the listeners that rows of a table changed."""
        return lambda: self._emit(DataChanged(frozenset({table})))

    def _judged(self) -> None:
        """A person gave a verdict, a note or a tag, or took one back."""
        self._emit(DataChanged(frozenset({"verdict"})))
        self.example_probes.noticed()

    # Runs

    def run(self, stages: Sequence[Stage], listener: Listener | None = None) -> None:
        """Runs stages one after another while the caller waits; what was committed stays if one fails.

        Args:
            listener: Called with the events of these stages.

        Raises:
            WorkbenchError: A stage failed.
            Cancelled: A stage was cancelled, such as from the keyboard.
        """
        unsubscribe = self.subscribe(listener) if listener else None
        try:
            for stage in stages:
                outcome = self.runner.run(stage)
                if isinstance(outcome, JobFailed):
                    raise WorkbenchError(outcome.message, outcome.hint)
                if isinstance(outcome, JobCancelled):
                    raise Cancelled(outcome.message)
        finally:
            if unsubscribe:
                unsubscribe()

    def goal_stages(self) -> GoalStages:
        """The stages of goal runs, made for this project."""
        return GoalStages(self._setup, self.merge_queue_cache)

    def simulations(self) -> ProjectSimulations:
        """The simulations of this project."""
        return ProjectSimulations(self._setup)

    # Screens

    def services(self) -> Services:
        """The services that screens and commands use."""
        info = ProjectInfo(Path(self.project.path).name, self.project.path, self.project.read_only)
        return Services(
            project=info,
            conversations=ConversationStore(self.project),
            triage=TriageStore(self.project, self._judged),
            jobs=JobService(self.project, self.runner, self.scoring_runs),
            score_sets=ScoreSets(self.project, self._tell("score")),
            saved=SavedStore(self.project),
            exports=ExportFiles(self.project),
            calibration=CalibrationService(self.project, self._tell("rule")),
            comparison=ComparisonService(self.project, self.merge_queue_cache),
            example_probes=self.example_probes,
            trees=TreeService(
                self.project, self.process, self.tree_runs, self.runner, self._tell("tree")
            ),
            goals=GoalService(
                self.project, self.goal_stages(), self.runner, self._tell("goal_decision")
            ),
            training=self.training,
            network=self.network,
            models=self.models,
            validation=ValidationService(self.project, self.catalog),
            simulations=SimulationService(self.project, self.simulations(), self.runner),
        )
