"""An open project, the services with which screens and commands read and change it, and a watch for what other programs
do to its file.

A *part*, such as a service, is made when it is first used, and so are the modules imported that take long: a command or
a first screen that needs no model does not wait for one. Methods of services may be called from any thread. Those whose
docstring has the sentence *Quick* read by key and are fit for the thread that draws; the others belong in a thread
worker.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from engine.base import folders, network_guard
from engine.base.errors import Cancelled, ProjectError, ProjectMoved
from engine.base.events import DataChanged, Event, FileChanged, Listener, ModelRestarted
from engine.completeness.tables import fields as completeness_fields
from engine.conversations.service import SavedViews
from engine.conversations.tables import fields as conversation_fields
from engine.conversations.tables import selecting
from engine.goals.tables import groups as goal_groups
from engine.jobs.runner import JobRunner
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.questions.tables import fields as question_fields
from engine.signs import tables as sign_tables
from engine.trees import tables as tree_tables

if TYPE_CHECKING:
    from engine.completeness.service.one_conversation import ConversationScorer
    from engine.completeness.service.runs import ScoringRuns
    from engine.completeness.service.sets import ScoreSets
    from engine.completeness.service.word_reasons import WordReasons
    from engine.goals.service.groups import GoalService
    from engine.goals.service.merge_review import MergeReviewService
    from engine.goals.service.runs import GoalStages
    from engine.goals.views.merge_queue import MergeQueueCache
    from engine.jobs.contract import Stage
    from engine.model.catalog import Catalog
    from engine.model.process.process import RoutedProcess
    from engine.model.service.endpoints import Egress, Endpoints
    from engine.model.service.run_setup import RunSetup
    from engine.model.service.service import ModelService
    from engine.opener.exports import ExportFiles
    from engine.opener.jobs import JobService
    from engine.questions.service.asking import AskingRuns
    from engine.questions.service.calibration import CalibrationService
    from engine.questions.service.example_probes import ExampleProbeService
    from engine.questions.service.questions import QuestionService
    from engine.results.associations.service import AssociationService
    from engine.results.comparison.service import ComparisonService
    from engine.results.watch.service import WatchService
    from engine.simulate.service import SimulationService
    from engine.training.service import TrainingService
    from engine.trees.service import TreeService

T = TypeVar("T")
"""The value of a `cached_once` property."""
_GUARD = threading.RLock()
"""A lock that is held while a part of any open project is made; a part may make others."""
GOAL_STAGES = (
    "summarize", "embed", "cluster", "label", "propose", "decide", "name", "theme", "assign", "stability"
)  # fmt: skip
"""Names of the stages that work on goals, which all change the same tables."""
SAMPLE_CHARACTERS = 24_000
"""Characters of the logs on which formats of a model are compared."""
MAX_SAMPLE_CONVERSATIONS = 64
"""Most conversations of the project from which the logs are taken on which formats of a model are compared."""
TABLES_BY_STAGE = {
    "import": frozenset({"conversation", "message", "source"}),
    "signs": frozenset({"conversation"}),
    "check": frozenset({"conversation"}),
    "complete": frozenset({"score"}),
    "read": frozenset({"score"}),
    "fit": frozenset({"score"}),
    "remaining": frozenset({"remaining"}),
    "trees": frozenset({"tree"}),
    "ask": frozenset({"answer"}),
    "tune": frozenset({"model"}),
    "watch": frozenset({"conversation", "message", "source"}),
    "simulate": frozenset({"conversation", "message", "source"}),
    **dict.fromkeys(GOAL_STAGES, frozenset({"goal"})),
}
"""The topics that a stage changes, by its name: names of tables, and `goal` and `model` for all tables of these
subjects. Screens read again after any change; only those that ask for `DataChanged.tables` tell topics apart."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the file."""


class cached_once(functools.cached_property[T]):
    """A `cached_property` that makes its value only once even if several threads read it at the same time."""

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Returns the value, which the first thread that reads the property makes."""
        with _GUARD:
            return super().__get__(instance, owner)


def register_field_queries() -> None:
    """Registers the queries of every subject with the search for conversations, by the fields that they answer."""
    for subject in (
        conversation_fields,
        completeness_fields,
        question_fields,
        goal_groups,
        tree_tables,
        sign_tables,
    ):
        selecting.FIELD_QUERIES.update(subject.FIELD_QUERIES)


class OpenProject:
    """One open project with everything that works on it. Close it, or use it as a context manager.

    Attributes:
        project: The project file, for work that has no service.
        path: The path of the file as the caller gave it.
        name: The last part of the path, for titles.
        read_only: Why the project cannot be written, as screens say it; None while it can be written.
        runner: Runs the stages of this project.
    """

    def __init__(
        self, path: Path, *, create: bool = False, read_only: bool = False, upgrade: bool = True
    ) -> None:
        """Opens a project; see `Project.open`.

        Raises:
            ProjectError: The file cannot be opened.
        """
        register_field_queries()
        self.project = Project.open(path, create=create, read_only=read_only, upgrade=upgrade)
        self.path = self.project.path
        self.name = Path(self.path).name
        self.read_only = self.project.read_only
        self._listeners: list[Listener] = []
        self._guard = threading.Lock()
        self.runner = JobRunner(
            self.project,
            self._emit,
            tables_by_stage=TABLES_BY_STAGE,
            check=self._check_addresses,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops jobs at once, ends the model process and closes the project; what was committed stays."""
        parts = self.__dict__  # those that were made
        if "file" in parts:
            self.file.close()
        if "example_probes" in parts:
            self.example_probes.close()
        self.runner.stop()  # before the process ends, so that the runs count as interrupted
        if "process" in parts:
            self.process.close()
        self.runner.close()
        if "endpoints" in parts:
            self.endpoints.close()
        self.project.close()

    @property
    def offline_by(self) -> str | None:
        """Name of the switch that keeps the program offline; None where named endpoints may be reached."""
        switch = network_guard.off_by()
        return None if switch is None else switch.name

    # Parts: the project file

    @cached_once
    def file(self) -> ProjectFileWatch:
        """Watches what other programs do to the project file."""
        tables = frozenset[str]().union(
            *TABLES_BY_STAGE.values(), {"answer", "goal_decision", "run"}
        )
        return ProjectFileWatch(self.project, self._emit, tables)

    @cached_once
    def conversations(self) -> ConversationService:
        """Lists, counts and reads conversations."""
        return ConversationService(self.project)

    @cached_once
    def saved(self) -> SavedViews:
        """Keeps saved filters and the state of the screens."""
        return SavedViews(self.project)

    @cached_once
    def jobs(self) -> JobService:
        """Starts, watches and cancels long work."""
        from engine.opener.jobs import JobService

        return JobService(self.project, self.runner, lambda: self.scoring_runs)

    @cached_once
    def exports(self) -> ExportFiles:
        """Writes exports of the project to files."""
        from engine.opener.exports import ExportFiles

        return ExportFiles(self.project)

    # Parts: models

    @cached_once
    def catalog(self) -> Catalog:
        """The models of this machine.

        Raises:
            ModelFileError: The catalog cannot be read.
        """
        from engine.model.catalog import Catalog

        return Catalog(folders.data_dir(), folders.cache_dir())

    @cached_once
    def endpoints(self) -> Endpoints:
        """The endpoints that were added."""
        from engine.model.service.endpoints import Endpoints

        return Endpoints(folders.data_dir(), folders.cache_dir(), self.egress)

    @cached_once
    def egress(self) -> Egress:
        """Guards which data of the project leave this machine."""
        from engine.conversations.personal_data import Redactor
        from engine.model.service.endpoints import Egress

        return Egress(self.project, lambda secret: Redactor(secret).text)

    def _check_addresses(self, stages: Sequence[Stage]) -> None:
        """Raises AddressNotAllowed if stages would send texts to an address that nobody allowed."""
        from engine.model.service.endpoints import addresses_in

        for stage in stages:
            self.egress.check(addresses_in(stage.fingerprints))

    @cached_once
    def process(self) -> RoutedProcess:
        """Runs the models of this machine, and passes requests on to endpoints."""
        from engine.model.process.process import RoutedProcess

        return RoutedProcess(
            folders.log_dir() / "model.log",
            self.endpoints.connect,
            lambda reason: self._emit(ModelRestarted(reason)),
        )

    @cached_once
    def run_setup(self) -> RunSetup:
        """The parts that stages of all subjects are made with: project, model process, catalog, endpoints."""
        from engine.model.service.run_setup import RunSetup
        from engine.training.service import find_adapter

        return RunSetup(
            self.project,
            self.process,
            self.catalog,
            self.endpoints,
            find_adapter=functools.partial(find_adapter, self.project, self.catalog),
            sample_logs=functools.partial(_sample_logs, self.project),
        )

    @cached_once
    def models(self) -> ModelService:
        """The models of this machine as a person manages them."""
        from engine.model.service.service import ModelService

        return ModelService(self.run_setup, self.runner, self.change_notifier("model"))

    @cached_once
    def training(self) -> TrainingService:
        """Training runs, which belong to the machine."""
        from engine.training.service import TrainingService

        return TrainingService(self.project, self.catalog)

    # Parts: scores

    @cached_once
    def scoring_runs(self) -> ScoringRuns:
        """Makes scoring runs."""
        from engine.completeness.service.runs import ScoringRuns
        from engine.training.run_files import held_out_by, run_named

        return ScoringRuns(self.run_setup, lambda run: held_out_by(run_named(Path(self.path), run)))

    @cached_once
    def conversation_scorer(self) -> ConversationScorer:
        """Scores one conversation that is in no project."""
        from engine.completeness.service.one_conversation import ConversationScorer

        return ConversationScorer(self.run_setup, self.scoring_runs)

    @cached_once
    def score_sets(self) -> ScoreSets:
        """Lists sets of scores, and puts a set in force."""
        from engine.completeness.service.sets import ScoreSets

        return ScoreSets(self.project, self.change_notifier("score"))

    @cached_once
    def word_reasons(self) -> WordReasons:
        """Takes scores apart into words."""
        from engine.completeness.service.word_reasons import WordReasons

        return WordReasons(self.project)

    @cached_once
    def calibration(self) -> CalibrationService:
        """Fits the decision rule to verdicts."""
        from engine.questions.service.calibration import CalibrationService

        return CalibrationService(self.project, self.change_notifier("rule"))

    # Parts: questions and answers

    @cached_once
    def triage(self) -> TriageService:
        """Stores and reads the answers of people."""
        return TriageService(self.project, self.answer_changed)

    @cached_once
    def questions(self) -> QuestionService:
        """Finds questions and reads the answers."""
        from engine.questions.service.questions import QuestionService

        return QuestionService(self.project, self.answer_changed)

    @cached_once
    def asking(self) -> AskingRuns:
        """Makes runs in which patterns or a model answer a question."""
        from engine.questions.service.asking import AskingRuns

        return AskingRuns(self.project, self.runner, lambda: self.run_setup)

    @cached_once
    def example_probes(self) -> ExampleProbeService:
        """Probes that are fitted to answers of people."""
        from engine.questions.service.example_probes import ExampleProbeService

        return ExampleProbeService(self.project, self.change_notifier("example probes"))

    # Parts: goals

    @cached_once
    def merge_queue_cache(self) -> MergeQueueCache:
        """The views of the clusterings, read once and kept until a clustering changes."""
        from engine.goals.views.decision_log import DecisionLog
        from engine.goals.views.merge_queue import MergeQueueCache

        return MergeQueueCache(self.project, DecisionLog(self.project))

    @cached_once
    def goals(self) -> GoalService:
        """Lists the goals, and their members."""
        from engine.goals.service.groups import GoalService

        return GoalService(
            self.project, self.merge_queue_cache, self.change_notifier("goal_decision")
        )

    @cached_once
    def merge_review(self) -> MergeReviewService:
        """Shows proposals to merge groups, and takes decisions."""
        from engine.goals.service.groups import GoalService
        from engine.goals.service.merge_review import MergeReviewService
        from engine.goals.tables.clusterings import open_id

        changed = self.change_notifier("goal_decision")
        groups = GoalService(self.project, self.merge_queue_cache, changed, open_id)
        return MergeReviewService(self.project, groups, self.goal_stages(), self.runner, changed)

    # Parts: results, and other subjects

    @cached_once
    def comparison(self) -> ComparisonService:
        """Compares parts of the project, and projects."""
        from engine.results.comparison.service import ComparisonService

        return ComparisonService(self.project, self.merge_queue_cache)

    @cached_once
    def associations(self) -> AssociationService:
        """Finds the features that go with one of two sides."""
        from engine.results.associations.service import AssociationService

        return AssociationService(self.project, self.merge_queue_cache)

    @cached_once
    def trees(self) -> TreeService:
        """Lists and grows response trees."""
        from engine.goals.tables.groups import goals_of
        from engine.trees.service import TreeService

        return TreeService(self.run_setup, self.runner, goals_of)

    @cached_once
    def simulations(self) -> SimulationService:
        """Plays conversations with known truth, and reads the results."""
        from engine.simulate.service import SimulationService

        return SimulationService(self.run_setup)

    @cached_once
    def watches(self) -> WatchService:
        """Watches files that grow."""
        from engine.results.watch.service import WatchService

        return WatchService(
            self.project,
            self.runner,
            lambda: self.scoring_runs,
            self.goal_stages,
        )

    # Events

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener, and returns the function that removes it."""
        with self._guard:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            """Removes the listener."""
            with self._guard:
                self._listeners.remove(listener)

        return unsubscribe

    def _emit(self, event: Event) -> None:
        """Passes an event to all listeners."""
        with self._guard:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(event)

    def change_notifier(self, topic: str) -> Callable[[], None]:
        """Returns a function that notifies the listeners that data of a topic changed, such as `rule` or `score`."""
        return lambda: self._emit(DataChanged(frozenset({topic})))

    def answer_changed(self) -> None:
        """Notifies the listeners that a person gave an answer or took one back, and fits the probes on answers anew."""
        self._emit(DataChanged(frozenset({"answer"})))
        self.example_probes.refit_soon()

    # Runs

    def run(self, stages: Sequence[Stage], listener: Listener | None = None) -> None:
        """Runs stages one after another while the caller waits; what was committed stays if one fails.

        Args:
            listener: Called with the events of these stages.

        Raises:
            WorkbenchError: The error of a stage that failed; or one may not run, see `_check_addresses`.
            Cancelled: A stage was cancelled, such as from the keyboard.
        """
        self._check_addresses(stages)
        unsubscribe = self.subscribe(listener) if listener else None
        try:
            for stage in stages:
                outcome = self.runner.run(stage)
                if outcome.error:
                    raise outcome.error
                if outcome.state == "cancelled":
                    raise Cancelled(outcome.message)
        finally:
            if unsubscribe:
                unsubscribe()

    def goal_stages(self) -> GoalStages:
        """Returns what makes the stages of goal runs of this project."""
        from engine.goals.service.runs import GoalStages

        return GoalStages(self.run_setup, self.merge_queue_cache)


def _sample_logs(project: Project) -> str:
    """Returns logs of a project on which formats of a model are compared; if it has none, bundled logs."""
    from engine.base.conversation import render_log
    from engine.conversations.tables import conversations
    from engine.model.service.run_setup import bundled_logs
    from engine.project.sql import IdSet

    with project.reading() as conn:
        ids = IdSet.every(conn).ascending()[:MAX_SAMPLE_CONVERSATIONS]
        logs = [render_log(messages) for _, messages in conversations.conversations_for(conn, ids)]
    if not logs:
        return bundled_logs()
    return "".join(piece.text for log in logs for piece in log)[:SAMPLE_CHARACTERS]


class ProjectFileWatch:
    """Emits events when other programs write the file, move it, or end so that it can be written.

    Attributes:
        moved: What another program did to the file; None until it does.
    """

    def __init__(
        self, project: Project, emit: Callable[[Event], None], tables: frozenset[str]
    ) -> None:
        """Does not look at the file yet; `tables` are the topics that another program may change."""
        self._project = project
        self._emit = emit
        self._tables = tables
        self._version: int | None = None  # counter of SQLite that grows with each change by others
        self._is_free = False  # whether the writer for which the project waits has ended
        self.moved: ProjectMoved | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts a thread that looks at the file every `LOOK_SECONDS` until `close`."""
        self._thread = threading.Thread(target=self._run, name="project-file", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the thread; may be called twice."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LOOK_SECONDS)

    def _run(self) -> None:
        """Looks at the file every `LOOK_SECONDS` until `close`; runs on a thread of its own."""
        while not self._closing.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Looks at the file, and emits events for what has changed since the last look of the same thread."""
        if self.moved is not None:
            return
        try:
            self._project.check()
            if self._project.read_only is not None:  # else only this process changes the data
                self._look_for_changes()
        except ProjectMoved as moved:
            self.moved = moved
            self._emit(FileChanged())
        except ProjectError:
            return  # the project is closed or unreadable; whoever reads it next says so

    def _look_for_changes(self) -> None:
        """Emits events when another process has changed the data, and when it no longer writes the project."""
        with self._project.reading() as conn:
            (version,) = conn.execute("PRAGMA data_version").fetchone()
        if self._version not in (None, version):
            self._emit(DataChanged(self._tables))
        self._version = version
        # `waits_for_writer`: the project was opened read-only because another process was writing it
        is_free = self._project.waits_for_writer and not self._project.is_written()
        if is_free and not self._is_free:
            self._emit(FileChanged())
        self._is_free = is_free
