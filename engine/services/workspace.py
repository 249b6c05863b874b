"""The composition root: opens a project and puts the services that work on it together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from engine import folders
from engine.conversation import render_log
from engine.events import DataChanged, Event, Listener
from engine.filters import ListQuery
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog, ModelEntry
from engine.model.prompt_files import Prompt, prompt_names
from engine.records.conversations import Estimate
from engine.services.exports import ExportFiles
from engine.services.goals.run_stages import GOAL_STAGES, GoalModels, GoalStages
from engine.services.goals.service import GoalService
from engine.services.jobs import JobService
from engine.services.models.adding import add_file
from engine.services.models.endpoints import Endpoints
from engine.services.models.in_use import ModelsInUse
from engine.services.models.service import ModelService
from engine.services.network import NetworkService
from engine.services.prompts import ProjectPrompts
from engine.services.run_requests import ModelRequest, ScoringRequest, TreeRunRequest
from engine.services.scoring.estimate import ScoringRun, estimate_scoring
from engine.services.services import ProjectInfo, Services
from engine.services.simulation.service import SimulationService, priced_by
from engine.services.simulation.simulations import ProjectSimulations
from engine.services.training.run_files import held_out_by, run_named
from engine.services.training.service import TrainingService
from engine.services.trees.records import TreeRequest
from engine.services.trees.service import Like, TreeService, tree_options
from engine.services.triage.calibration import CalibrationService
from engine.services.validation.service import ValidationService
from engine.stages.model_work import RunModel
from engine.stages.remaining import RemainingStage
from engine.stages.scoring import ScoringStage, question_for
from engine.stages.trees import TreeStage
from engine.stages.tuning import TuningStage
from engine.store import conversations
from engine.store.conversations import ConversationStore
from engine.store.project import Project
from engine.store.saved import SavedStore
from engine.store.triage import TriageStore
from engine.views.decision_log import DecisionLog
from engine.views.merge_queue_cache import MergeQueueCache
from engine.worker.routing import RoutedProcess

TABLES = {
    "import": frozenset({"conversation", "message", "source"}),
    "complete": frozenset({"score"}),
    "remaining": frozenset({"remaining"}),
    "trees": frozenset({"tree"}),
    "grow": frozenset({"tree"}),
    "tune": frozenset({"model"}),
    "simulate": frozenset({"conversation", "message", "source", "play"}),
    **dict.fromkeys(GOAL_STAGES, frozenset({"goal"})),
}
TUNING_CHARS = 24_000


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
        self.network = NetworkService(self.project)
        self.prompts = ProjectPrompts(self.project)
        self.endpoints = Endpoints(folders.data_dir(), folders.cache_dir())
        self.models_in_use = ModelsInUse(self.project, self.catalog, self.endpoints)
        self.process = RoutedProcess(folders.log_dir() / "model.log", self.endpoints.connect)
        self.merge_queue_cache = MergeQueueCache(
            self.project, DecisionLog(self.project), folders.cache_dir() / "neighbours"
        )
        self.training = TrainingService(self.project, self.catalog)
        self.models = ModelService(
            self.catalog,
            self.models_in_use,
            folders.config_dir(),
            lambda path: add_file(self.catalog, path, None, lambda _: None).name,
            lambda entry: self.runner.start([self._tuning_stage(entry)]),
            self._tell("model"),
        )
        self._listeners: list[Listener] = []
        self._guard = threading.Lock()
        self.runner = JobRunner(
            self.project, self._emit, tables_by_stage=TABLES, code_version=folders.version()
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
        self.process.close()
        self.runner.close()
        self.endpoints.close()
        self.network.close()
        self.project.close()

    # Events

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener and returns what takes it off again."""
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
        """What tells the listeners that rows of a table changed."""
        return lambda: self._emit(DataChanged(frozenset({table})))

    # Prompts

    def prompt(self, name: str) -> Prompt:
        """A prompt as the project has it: edited, or as it comes with the program."""
        return self.prompts.prompt(name)

    # Stages

    def scoring_run(self, request: ScoringRequest) -> ScoringRun:
        """A scoring run: tuning if the model never was tuned, scores, remaining tasks.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot answer what the request asks.
        """
        model = self.models_in_use.resolve(request.model_request)
        prompts = {name: self.prompt(name) for name in prompt_names()}
        question = question_for(request.mode, prompts, request.end_tag)
        self.endpoints.check_curve(model.model, question)
        scoring = ScoringStage(
            self.project,
            self.process,
            model.current,
            request.mode,
            question,
            query=ListQuery(request.filter),
            names=self._held_out(request.held_out_by),
            limit=request.limit,
            measured=self.catalog.record_speed,
        )
        stages = [*(self._tuning(model) if request.tune else []), scoring]
        if request.remaining:
            prompt = prompts["remaining-tuned" if request.mode == "tuned" else "remaining"]
            self.endpoints.check_writing(model.model, prompt)
            remaining = RemainingStage(
                self.project, self.process, model.current, prompt, lambda: scoring.config_hash
            )
            scoring.spell_out(remaining)
            stages.append(remaining)
        return ScoringRun(model, question, scoring, stages)

    def _held_out(self, run: str | None) -> frozenset[str] | None:
        return None if run is None else held_out_by(run_named(Path(self.project.path), run))

    def tree_stages(self, options: TreeRunRequest) -> list[Stage]:
        """The stages of a run that grows trees: tuning if it was never done, then the trees."""
        model = self.models_in_use.resolve(options.model_request)
        self.endpoints.check_trees(model.model, options.tree)
        stages = self._tuning(model)
        stages.append(
            TreeStage(
                self.project,
                self.process,
                model.current,
                options.tree,
                options.at,
                query=ListQuery(options.filter),
                limit=options.limit,
                nodes=options.nodes,
                only=options.only,
            )
        )
        return stages

    def _wished_trees(self, wish: TreeRequest, query: ListQuery, like: Like | None) -> list[Stage]:
        """The stages of a run that was asked for on the screen; one to be compared grows as the tree beside it."""
        adapter = None if wish.adapter is None else Path(wish.adapter)
        options = TreeRunRequest(
            tree_options(wish), wish.where, wish.model, adapter, filter=query.filter
        )
        if like is not None:
            options = replace(
                options,
                tree=replace(like.options, alpha=wish.alpha),
                at=like.at,
                nodes=like.nodes,
                context=like.context,
                only=(like.conversation_id,),
            )
        return self.tree_stages(options)

    def estimate(self, run: ScoringRun) -> Estimate:
        """What a scoring run would cost; see `engine.services.scoring.estimate`."""
        return estimate_scoring(self.project, self.process, run, self.catalog.record_long_speed)

    def goal_stages(self) -> GoalStages:
        """What makes the stages of goal runs."""
        return GoalStages(
            self.project,
            self.process,
            self.catalog,
            self.merge_queue_cache,
            GoalModels(
                prompt=self.prompt,
                resolve=lambda name: self.models_in_use.resolve(ModelRequest("goals", name)),
                tuning=self._tuning,
                check_writing=self.endpoints.check_writing,
                check_reading=self.endpoints.check_reading,
                key_for=self.endpoints.key_for,
            ),
        )

    def simulations(self) -> ProjectSimulations:
        """What plays conversations, and what was played."""
        return ProjectSimulations(
            self.project,
            self.process,
            self.prompts,
            lambda name, context: self.models_in_use.resolve(
                ModelRequest("simulation", name, context=context)
            ),
            self._tuning,
            self.endpoints.check_chat,
            self._for_simulation,
        )

    def _for_simulation(self, name: str | None) -> str:
        return self.models_in_use.for_work(name, "simulation")

    def _models_for_simulation(self) -> list[str]:
        """Names of all models, the one that simulations take first."""
        names = [entry.name for entry in self.catalog.entries()]
        names += [entry.name for entry in self.endpoints.book.entries()]
        return list(dict.fromkeys([self._for_simulation(None), *names]))

    def _tuning(self, model: RunModel) -> list[Stage]:
        """The stage that tunes the model of a run, unless it was tuned on this machine."""
        if model.entry is None or model.entry.tuning is not None:
            return []
        return [self._tuning_stage(model.entry, model)]

    def _tuning_stage(self, entry: ModelEntry, model: RunModel | None = None) -> TuningStage:
        return TuningStage(self.process, self.catalog, entry, self._tuning_text(), model)

    def _tuning_text(self) -> str:
        """The project's own logs when there are any, else sample conversations."""
        with self.project.reading() as conn:
            ids = conversations.ids(conn, ListQuery())[:64]
            found = [messages for _, messages in conversations.conversations_for(conn, ids)]
        if not found:
            return sample_text()
        return "".join(piece.text for messages in found for piece in render_log(messages))[
            :TUNING_CHARS
        ]

    # Screens

    def services(self) -> Services:
        """Everything a screen may use."""
        info = ProjectInfo(Path(self.project.path).name, self.project.path, self.project.read_only)
        return Services(
            info,
            ConversationStore(self.project),
            TriageStore(self.project, self._tell("verdict")),
            JobService(
                self.project,
                self.runner,
                lambda mode: self.scoring_run(ScoringRequest(mode=mode)).stages,
                lambda mode: self.estimate(self.scoring_run(ScoringRequest(mode=mode))),
            ),
            SavedStore(self.project),
            ExportFiles(self.project),
            CalibrationService(self.project, self._tell("rule")),
            TreeService(
                self.project,
                self.process,
                self.catalog,
                self._wished_trees,
                self.runner.start,
                self._tell("tree"),
                self.endpoints.book,
                lambda: self.models_in_use.for_work(None, "trees"),
            ),
            GoalService(
                self.project,
                self.goal_stages(),
                self.runner.start,
                self.runner.active,
                self._tell("goal_decision"),
            ),
            self.training,
            self.network,
            self.models,
            ValidationService(self.project, self.catalog),
            SimulationService(
                self.project,
                self.simulations(),
                self.runner.start,
                self.runner.active,
                self._models_for_simulation,
                priced_by(self._for_simulation, self.endpoints.serves),
            ),
        )


def sample_text() -> str:
    """Sample conversations as logs, to measure a model on without a project."""
    from engine.simulate.samples import sample_conversations

    logs = [render_log(c.messages) for c in sample_conversations(24)]
    return "\n\n".join("".join(piece.text for piece in log) for log in logs)[:TUNING_CHARS]
