"""A small real project for the tests of screens: its file is made once a test process and copied for each test."""

from __future__ import annotations

import atexit
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from engine.base import folders
from engine.base.events import DataChanged, Event, JobEnded, JobProgress, Listener
from engine.completeness.service.runs import ScoringRuns
from engine.completeness.service.sets import ScoreSets
from engine.completeness.service.word_reasons import WordReasons
from engine.completeness.tables import scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.service import SavedViews
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import RunSetup
from engine.model.service.service import ModelService
from engine.opener.conversations import ConversationRow, ConversationService
from engine.opener.exports import ExportFiles
from engine.opener.open_project import OpenProject, ProjectFileWatch
from engine.project.project import Project
from engine.project.schema import NOT_UNDONE
from engine.questions.service.calibration import CalibrationService
from engine.questions.service.example_probes import ExampleProbeService
from engine.questions.service.questions import QuestionService
from engine.questions.service.triage import TriageService
from engine.questions.tables.answers import IS_ANSWER
from engine.results.associations.service import AssociationService
from engine.results.comparison.service import ComparisonService
from engine.results.watch.service import WatchService
from engine.training.base import Machine
from engine.training.run_files import runs_folder
from engine.training.service import TrainingService
from tests.engine.goals.service.goal_project import stages_of
from tests.screens.samples import CONFIG, SCORED, Sample, boundary, samples, store
from tests.screens.stand_ins import RecordedJobs, RecordedRunner
from tests.screens.training.training_runs import HeldTrainers
from tests.screens.trees.fake_trees import RecordedTrees

M = TypeVar("M", bound=ModelService)

NAME = "support-october.wb"


def project(
    count: int = 36,
    *,
    read_only: str | None = None,
) -> ScreenProject:
    """A few dozen conversations in all states."""
    return open_copy(_file_of(count), read_only)


def project_of(found: Sequence[Sample], *, config: ScoreConfig = SCORED) -> ScreenProject:
    """A project of these conversations, with ids from 1."""
    path = _new_path()
    with Project.open(path, create=True) as file:
        store(file, found, config)
    made = open_copy(path)
    path.unlink()
    return made


def open_copy(template: Path, read_only: str | None = None) -> ScreenProject:
    """A project whose file is a copy; with a reason in `read_only` it is opened for reading only."""
    path = _new_path()
    shutil.copyfile(template, path)
    return ScreenProject(Project.open(path, read_only=read_only is not None), NAME, read_only)


class StoredAct(NamedTuple):
    """An act of a person: its first conversation, and on how many it answers what."""

    conversation_id: int
    question: str
    value: str | None
    blind: bool
    conversations: int


class TunedOnly(JobRunner):
    """A job service that starts nothing and records the names of models to tune."""

    def __init__(self, project: Project, tuned: list[str]) -> None:
        super().__init__(project, lambda event: None)
        self._tuned = tuned

    def start(self, stages: Sequence[Stage]) -> int:
        self._tuned += [stage.params["model"] for stage in stages]
        return 7


class ScreenProject:
    """An open project with the services of its screens, where no model is; `close_projects` closes it.

    A test that needs a service to fail or to wait replaces the attribute, or one method of it.

    Attributes:
        file: The open project file.
        catalog: The models of the test's own data folder.
        tuned: The models that tuning was started for.
        name: Name and path that the screens show.
        read_only: Why the screens may not write; None when they may.
    """

    def __init__(self, file: Project, name: str, read_only: str | None = None) -> None:
        self.file, self.name, self.read_only = file, name, read_only
        self.listeners: list[Listener] = []
        self.catalog = Catalog(folders.data_dir(), folders.cache_dir())
        self.jobs = RecordedJobs(self.file)
        self.score_sets = ScoreSets(self.file, lambda: self.emit(_changed("score")))
        self.conversations = ConversationService(self.file)
        self.example_probes = ExampleProbeService(
            self.file, lambda: self.emit(_changed("example probes"))
        )
        self.triage = TriageService(self.file, self._judged)
        self.saved = SavedViews(self.file)
        self.calibration = CalibrationService(self.file, lambda: self.emit(_changed("rule")))
        self.trees = RecordedTrees(self.file)
        self.goals = GoalService(
            self.file,
            stages_of(self.file).queue_cache,
            lambda: self.emit(_changed("goal_decision")),
        )
        self.merge_review = self.review_service(MergeReviewService)
        self.trainers = HeldTrainers()
        self.training = TrainingService(
            self.file, self.catalog, self.trainers, lambda: Machine("CPU", 24_000_000_000)
        )
        self.tuned: list[str] = []
        self.models: ModelService = self.model_service(ModelService)
        self.watches = WatchService(
            self.file,
            RecordedRunner(self.file, self.jobs),
            lambda: cast(ScoringRuns, None),
            lambda: stages_of(self.file),
        )
        _OPEN.append(self)

    def review_service(self, kind: type[MergeReviewService]) -> MergeReviewService:
        """The merge review of the file, served by this class."""
        return kind(
            self.file,
            self.goals,
            stages_of(self.file),
            RecordedRunner(self.file, self.jobs),
            lambda: self.emit(_changed("goal_decision")),
        )

    def model_service(self, kind: type[M]) -> M:
        """The models of the catalog, served by this class; tuning is noted, not run."""
        setup = RunSetup(
            self.file,
            cast(ModelProcess, None),
            self.catalog,
            Endpoints(folders.data_dir(), folders.cache_dir()),
        )
        runner = TunedOnly(self.file, self.tuned)
        return kind(setup, runner, lambda: self.emit(_changed("model")))

    def close(self) -> None:
        """Closes the file."""
        self.example_probes.close()
        self.jobs.runner.close()
        self.file.close()
        self.trainers.end_all()
        shutil.rmtree(runs_folder(Path(self.file.path)), ignore_errors=True)

    def _judged(self) -> None:
        self.emit(_changed("answer"))
        self.example_probes.refit_soon()

    def services(self) -> OpenProject:
        """What the app is given."""
        made = OpenProject.__new__(
            OpenProject
        )  # the parts below, without a project file of its own
        made.name = made.path = self.name
        made.read_only = self.read_only
        made.file = ProjectFileWatch(self.file, self.emit, frozenset({"conversation", "answer"}))
        made.conversations = self.conversations
        made.triage = self.triage
        made.questions = QuestionService(self.file)
        made.jobs = self.jobs
        made.score_sets = self.score_sets
        made.word_reasons = WordReasons(self.file)
        made.saved = self.saved
        made.exports = ExportFiles(self.file)
        made.calibration = self.calibration
        cache = MergeQueueCache(self.file, DecisionLog(self.file))
        made.comparison = ComparisonService(self.file, cache)
        made.associations = AssociationService(self.file, cache)
        made.example_probes = self.example_probes
        made.trees = self.trees
        made.goals = self.goals
        made.merge_review = self.merge_review
        made.runner = RecordedRunner(self.file, self.jobs)
        made.goal_stages = lambda: stages_of(self.file)  # type: ignore[method-assign]
        made.training = self.training
        made.models = self.models
        made.watches = self.watches
        return made

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener and returns what takes it off again."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Tells the listeners; the progress of a job makes it one that runs until its end."""
        if isinstance(event, JobProgress | JobEnded):
            self.jobs.running = [job for job in self.jobs.running if job.job_id != event.job_id]
        if isinstance(event, JobProgress):
            self.jobs.running.append(event)
        for listener in self.listeners:
            listener(event)

    def row(self, conversation_id: int) -> ConversationRow:
        """What the list shows of a conversation."""
        (row,) = self.conversations.rows([conversation_id])
        return row

    def rescore(self, conversation_id: int, p_end: float) -> None:
        """Stores another score of a conversation, as a run would that has just reached it."""

        def work(conn: sqlite3.Connection) -> None:
            for table in ("remaining", "boundary_score", "score"):
                conn.execute(f"DELETE FROM {table} WHERE conversation_id = ?", (conversation_id,))
            entry = ScoreEntry(conversation_id, (boundary(4, 2, p_end),), None, 10)
            scores.add_scores(conn, CONFIG, 1, [entry])

        self.file.write(work)

    def add(self, sample: Sample) -> None:
        """Imports one more conversation and scores it."""
        store(self.file, [sample])

    def acts(self) -> list[StoredAct]:
        """The acts of people that stand, in the order given."""
        with self.file.reading() as conn:
            rows = conn.execute(
                "SELECT v.question, v.value, v.kind, v.given_at, v.conversation_id FROM answer AS v"
                f" WHERE {IS_ANSWER} AND {NOT_UNDONE} ORDER BY v.id"
            ).fetchall()
        acts = []
        for (question, value, kind, _), group in itertools.groupby(rows, lambda row: row[:4]):
            keys = [row[4] for row in group]
            acts.append(StoredAct(keys[0], question, value, kind == "repeat", len(keys)))
        return acts


# Files

_OPEN: list[ScreenProject] = []


def close_projects() -> None:
    """Closes the projects that were opened since the last call."""
    while _OPEN:
        _OPEN.pop().close()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="screens-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_NUMBERS = itertools.count(1)


def _new_path() -> Path:
    return _folder() / f"{next(_NUMBERS)}.wb"


@cache
def _file_of(count: int) -> Path:
    path = _folder() / f"template-{count}.wb"
    with Project.open(path, create=True) as file:
        store(file, samples(count))
    return path


def _changed(table: str) -> DataChanged:
    return DataChanged(frozenset({table}))
