"""A small real project for the tests of screens: its file is made once a test process and copied for each test."""

from __future__ import annotations

import atexit
import itertools
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from engine import folders
from engine.conversation import Conversation, Message, Role, ToolCall
from engine.errors import WorkbenchError
from engine.events import DataChanged, Event, JobEnded, JobProgress, Listener
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog
from engine.records.conversations import ConversationRow
from engine.records.imports import Leak, Parsed
from engine.records.runs import Estimate, RunRow
from engine.records.scores import Mode
from engine.records.triage import VerdictRow
from engine.services.exports import ExportFiles
from engine.services.goals.service import GoalService
from engine.services.jobs import JobService
from engine.services.models.endpoints import Endpoints
from engine.services.models.run_setup import RunSetup
from engine.services.models.service import ModelService
from engine.services.network import NetworkService
from engine.services.scoring.runs import ScoringRuns
from engine.services.scoring.sets import ScoreSets
from engine.services.services import ProjectInfo, Services
from engine.services.training.base import Machine
from engine.services.training.run_files import runs_folder
from engine.services.training.service import TrainingService
from engine.services.triage.calibration import CalibrationService
from engine.services.triage.teaching import TeachingService
from engine.services.validation.service import ValidationService
from engine.store import imports, runs, scores, settings
from engine.store.conversations import ConversationStore
from engine.store.project import Project
from engine.store.saved import SavedStore
from engine.store.scores import BoundaryEntry, RemainingEntry, ScoreConfig, ScoreEntry
from engine.store.triage import TriageStore
from engine.worker.client import ModelProcess
from tests.engine.services.goals.goal_project import stages_of
from tests.engine.services.models.test_service import TunedOnly
from tests.screens.simulation.played import ScriptedSimulations
from tests.screens.training.training_runs import HeldTrainers
from tests.screens.trees.fake_trees import RecordedTrees

M = TypeVar("M", bound=ModelService)

NAME = "support-october.wb"
CONFIG = "5f0c1d"
SCORED = ScoreConfig(CONFIG, "base", "SmolLM2-135M-Instruct", noise=0.006)
GOALS = (
    ("I want to exchange the desk lamp in order #W6390527 for a cheaper one.", "lamp"),
    ("Please move my flight to Boston to Thursday morning.", "flight"),
    ("How many files under /testbed end in .sh? Write the count to out.txt.", "files"),
    ("My policy covers three locations, can you add the one in Leeds?", "policy"),
    ("Book a table for four, vegetarian, tonight at eight.", "table"),
    ("Which customers ordered twice in March? I need the SQL too.", "SQL query"),
)
SCORES = (0.93, 0.07, 0.52, None, 0.88, 0.31, 0.97, 0.44, 0.12, 0.9, 0.99, 0.02)
"""Scores of the conversations, which repeat; None is unscored."""


@dataclass
class Sample:
    """One conversation of a project that a test is about to make.

    Attributes:
        curve: Index of the last message before each boundary, and the normalised score there; empty when unscored.
        reason: Why it is unscored, or what is special about its score.
    """

    name: str
    messages: list[Message]
    curve: list[tuple[int, float]] = field(default_factory=list)
    source: str = "support.jsonl"
    reason: str | None = None
    remaining: str | None = None
    leaks: list[Leak] = field(default_factory=list)
    original: bytes | None = None
    created_at: str | None = None


def conversation(number: int, p_end: float | None, turns: int = 4) -> Sample:
    """A conversation of `turns` user turns about one of the goals, scored `p_end` at its end."""
    goal, word = GOALS[number % len(GOALS)]
    messages: list[Message] = []

    def say(role: Role, text: str, calls: tuple[ToolCall, ...] = ()) -> None:
        messages.append(Message(role, text, tool_calls=calls))

    say("system", "\n".join(f"Rule {line}: be helpful, ask before changing." for line in range(9)))
    sample = Sample(f"support/{number:04d}", messages)
    for turn in range(2, turns + 2):
        say("user", goal if turn == 2 else f"Yes, the {word}, please go on ({turn}).")
        call = ToolCall("get_details", f'{{"what": "{word}", "case": {number}}}')
        say("assistant", "", (call,))
        say("tool", "\n".join(f'{{"line": {line}, "about": "{word}"}}' for line in range(42)))
        say(
            "assistant",
            f"I looked at the {word}. There are two possibilities, and I would like your decision "
            "before anything is changed: the first one costs less, the second one is ready today.",
        )
        if p_end is not None:
            last = turn == turns + 1
            p = p_end if last else min(0.95, 0.08 * ((turn * 7 + number) % 6))
            sample.curve.append((len(messages) - 1, p))
    if p_end is None:
        sample.reason = "longer than the context"
    elif p_end < 0.55:
        sample.remaining = (
            f"· confirm the change of the {word}\n· tell the customer when it takes effect"
        )
    return sample


def samples(count: int = 36) -> list[Sample]:
    """The conversations of a project in all states, by id from 1."""
    return [
        conversation(number, SCORES[number % len(SCORES)], 3 + number % 7)
        for number in range(1, count + 1)
    ]


def project(
    count: int = 36,
    *,
    read_only: str | None = None,
) -> ScreenProject:
    """A few dozen conversations in all states."""
    return open_copy(_file_of(count), read_only)


def project_of(
    found: Sequence[Sample], *, read_only: str | None = None, config: ScoreConfig = SCORED
) -> ScreenProject:
    """A project of these conversations, with ids from 1."""
    path = _new_path()
    with Project.open(path, create=True) as file:
        _fill(file, found, config)
    made = open_copy(path, read_only)
    path.unlink()
    return made


def open_copy(template: Path, read_only: str | None = None) -> ScreenProject:
    """A project whose file is a copy; with a reason in `read_only` it is opened for reading only."""
    path = _new_path()
    shutil.copyfile(template, path)
    return ScreenProject(Project.open(path, read_only=read_only is not None), NAME, read_only)


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
        self.conversations = ConversationStore(self.file)
        self.teaching = TeachingService(self.file, lambda: self.emit(_changed("taught")))
        self.triage = TriageStore(self.file, self._judged)
        self.saved = SavedStore(self.file)
        self.calibration = CalibrationService(self.file, lambda: self.emit(_changed("rule")))
        self.network = NetworkService(self.file)
        self.trees = RecordedTrees(self.file)
        self.goals = self.goal_service(GoalService)
        self.trainers = HeldTrainers()
        self.training = TrainingService(
            self.file, self.catalog, self.trainers, lambda: Machine("CPU", 24_000_000_000)
        )
        self.tuned: list[str] = []
        self.models: ModelService = self.model_service(ModelService)
        self.validation = ValidationService(self.file, self.catalog)
        self.simulations = ScriptedSimulations(self.file)
        _OPEN.append(self)

    def goal_service(self, kind: type[GoalService]) -> GoalService:
        """The goals of the file, served by this class."""
        return kind(
            self.file,
            stages_of(self.file),
            RecordedRunner(self.file, self.jobs),
            lambda: self.emit(_changed("goal_decision")),
        )

    def model_service(self, kind: type[M]) -> M:
        """The models of the catalogue, served by this class; tuning is noted, not run."""
        setup = RunSetup(
            self.file,
            cast(ModelProcess, None),
            self.catalog,
            Endpoints(folders.data_dir(), folders.cache_dir()),
        )
        runner = TunedOnly(self.file, self.tuned)
        return kind(setup, runner, folders.config_dir(), lambda: self.emit(_changed("model")))

    def close(self) -> None:
        """Closes the file."""
        self.teaching.close()
        self.jobs.runner.close()
        self.models.close()
        self.network.close()
        self.file.close()
        self.trainers.end_all()
        shutil.rmtree(runs_folder(Path(self.file.path)), ignore_errors=True)

    def _judged(self) -> None:
        self.emit(_changed("verdict"))
        self.teaching.noticed()

    def services(self) -> Services:
        """What the app is given."""
        return Services(
            project=ProjectInfo(self.name, self.name, self.read_only),
            conversations=self.conversations,
            triage=self.triage,
            jobs=self.jobs,
            score_sets=self.score_sets,
            saved=self.saved,
            exports=ExportFiles(self.file),
            calibration=self.calibration,
            teaching=self.teaching,
            trees=self.trees,
            goals=self.goals,
            training=self.training,
            network=self.network,
            models=self.models,
            validation=self.validation,
            simulations=self.simulations,
        )

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
            entry = ScoreEntry(conversation_id, (_boundary(4, 2, p_end),), None, 10)
            scores.add(conn, CONFIG, 1, [entry])

        self.file.write(work)

    def add(self, sample: Sample) -> None:
        """Imports one more conversation and scores it."""
        _fill(self.file, [sample])

    def acts(self) -> list[VerdictRow]:
        """Verdicts, notes and tags that stand, in the order given; one of many conversations once, with its count."""
        with self.file.reading() as conn:
            rows = conn.execute(
                "SELECT v.id, v.conversation_id, v.verdict, v.note, v.given_at, v.kind FROM verdict AS v"
                " WHERE v.kind NOT IN ('undo', 'redo') AND coalesce((SELECT act.kind FROM verdict AS act"
                " WHERE act.target = v.id ORDER BY act.id DESC LIMIT 1), 'redo') = 'redo' ORDER BY v.id"
            ).fetchall()
        found = []
        for _, group in itertools.groupby(
            rows, lambda row: (*row[4:], row[3]) if row[5] in ("tag", "untag") else row
        ):
            (key, number, verdict, text, given_at, kind), *more = group
            tags = (text,) if kind in ("tag", "untag") else ()
            note = "" if tags else text
            found.append(
                VerdictRow(key, number, verdict, note, given_at, tags, kind, 1 + len(more))
            )
        return found


class RecordedJobs(JobService):
    """Starts nothing, since no model is here; remembers what was to be started.

    Attributes:
        running: What runs or waits.
        left: Runs that were interrupted.
        started: A mode for scoring, paths for an import, names of stages for goals.
        cancelled: Ids of jobs.
    """

    def __init__(self, file: Project) -> None:
        self.runner = JobRunner(file, lambda event: None, tables_by_stage={})
        super().__init__(file, self.runner, cast(ScoringRuns, None))
        self.running: list[JobProgress] = []
        self.left: list[RunRow] = []
        self.started: list[object] = []
        self.cancelled: list[int] = []

    def estimate_scoring(self, mode: Mode) -> Estimate:
        if mode == "tuned":
            raise WorkbenchError("There is no adapter.", "Train one, or name one with --adapter.")
        return Estimate(812, 1_240_000, 3_450.0, 359.4, "SmolLM2-135M-Instruct (BF16)")

    def start_scoring(self, mode: Mode) -> int:
        self.started.append(mode)
        return len(self.started)

    def start_import(
        self, paths: Sequence[str], format: str | None = None, all_branches: bool = False
    ) -> int:
        asked = [format] if format else []
        self.started.append([*paths, *asked])
        return len(self.started)

    def begin(self, stages: Sequence[Stage]) -> int:
        self.started.append([stage.name for stage in stages])
        return len(self.started)

    def cancel(self, job_id: int) -> None:
        self.cancelled.append(job_id)

    def active(self) -> list[JobProgress]:
        return self.running

    def interrupted(self) -> list[RunRow]:
        return self.left


class RecordedRunner(JobRunner):
    """Passes what is started on to the recorded jobs."""

    def __init__(self, file: Project, jobs: RecordedJobs) -> None:
        super().__init__(file, lambda event: None)
        self._recorded = jobs

    def start(self, stages: Sequence[Stage]) -> int:
        return self._recorded.begin(stages)

    def active(self) -> list[JobProgress]:
        return self._recorded.active()


def raising(error: Exception) -> Callable[..., NoReturn]:
    """A function that fails, in place of a method of a service."""

    def fail(*args: object, **named: object) -> NoReturn:
        raise error

    return fail


class HeldConversations(ConversationStore):
    """Gives no rows while `hold` is cleared."""

    def __init__(self, file: Project) -> None:
        super().__init__(file)
        self.hold = threading.Event()
        self.hold.set()

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        self.hold.wait()
        return super().rows(ids)


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
        _fill(file, samples(count))
    return path


def _changed(table: str) -> DataChanged:
    return DataChanged(frozenset({table}))


def _boundary(message: int, turn: int, p_end: float) -> BoundaryEntry:
    return BoundaryEntry(message, message + 1, turn, p_end * 0.8, (1 - p_end) * 0.8)


def _fill(file: Project, found: Sequence[Sample], config: ScoreConfig = SCORED) -> None:
    """Imports conversations and stores the run that scored them."""

    def work(conn: sqlite3.Connection) -> None:
        (before,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
        for label, group in itertools.groupby(found, lambda sample: sample.source):
            source = imports.source(conn, label, label, "uniform", "it looked like it")
            imports.add(conn, source, [_parsed(sample) for sample in group])
        if not before:
            _register(conn, config)
        numbered = list(enumerate(found, before + 1))
        entries = [_entry(key, sample) for key, sample in numbered if sample.curve or sample.reason]
        scores.add(conn, CONFIG, 1, entries)
        left = [
            RemainingEntry(key, sample.remaining) for key, sample in numbered if sample.remaining
        ]
        scores.add_remaining(conn, CONFIG, CONFIG, 1, left)

    file.write(work)


def _register(conn: sqlite3.Connection, config: ScoreConfig) -> None:
    """Stores the run that the scores are of, as of one day."""
    prompt = {"name": "base", "question": "What remains to be done?"}
    run = runs.create(
        conn,
        stage="complete",
        config_hash=CONFIG,
        params={"mode": "base", "prompt": prompt, "context": 8192},
        fingerprints={"model_sha256": "ab" * 32, "engine": "llama.cpp 0.3.35"},
        code_version="0.3.0",
    )
    runs.count(conn, run, 812, 812)
    runs.finish(conn, run, "done", "scored")
    conn.execute(
        "UPDATE run SET started_at = '2026-10-01T10:00:00Z', finished_at = '2026-10-01T10:12:00Z'"
    )
    scores.register(conn, config)
    settings.put_score_config(conn, CONFIG)


def _parsed(sample: Sample) -> Parsed:
    content = Conversation(sample.name, tuple(sample.messages), created_at=sample.created_at)
    original = sample.original if sample.original is not None else sample.name.encode()
    return Parsed(None, original, content, tuple(sample.leaks))


def _entry(key: int, sample: Sample) -> ScoreEntry:
    boundaries = tuple(
        _boundary(message, nth, p) for nth, (message, p) in enumerate(sample.curve, 2)
    )
    return ScoreEntry(key, boundaries, sample.reason, 10)
