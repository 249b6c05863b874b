"""The stage that plays simulations: what it writes, and that neither a kill nor a cancel changes it."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from engine.base.errors import RequestRefused
from engine.conversations.tables.conversations import truth_by_conversation
from engine.jobs.contract import OnProgress
from engine.jobs.runner import JobRunner
from engine.model.chat import Call, Completion, Ending, Play
from engine.model.process import requests
from engine.model.process.process import ModelProcess
from engine.model.process.protocol import Request
from engine.opener.conversations import ConversationService
from engine.project import runs
from engine.project.project import Project
from engine.simulate import tables
from engine.simulate.play import StoredPlay
from tests.engine.completeness import scored
from tests.engine.project.support import check_whole, content, kill_amid
from tests.engine.simulate import simulated
from tests.engine.simulate.simulated import Chat

Content = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module", autouse=True)
def weights(shallow_weights: Path) -> Iterator[None]:
    """Plays, also of programs that tests start, run on five layers of the shipped weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(shallow_weights))
        yield


@pytest.fixture(scope="module")
def uninterrupted(process: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was played without an interruption."""
    path = tmp_path_factory.mktemp("whole") / "p.wb"
    with Project.open(path, create=True) as project:
        simulated.run(project, process)
    return path


@pytest.fixture(scope="module")
def expected(uninterrupted: Path) -> Content:
    """What the uninterrupted run wrote."""
    return content(uninterrupted)


T = TypeVar("T")


class ScriptedProcess(ModelProcess):
    """A model process that answers without a model, in the order of calls, and records the calls."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self.batches: list[list[Call]] = []
        self.loads: list[Path] = []
        self.refused = ""

    def load(self, path: Path, *_: Any, **__: Any) -> dict[str, Any]:
        """Records the model that is loaded."""
        self.loads.append(path)
        return {"context": 4096}

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Replies with the seed; refuses batches about a given subject."""
        assert isinstance(request, requests.Chat)
        self.batches.append(list(request.calls))
        for call in request.calls:
            if self.refused and self.refused in call.messages[0].content:
                raise RequestRefused("It is too long.")
        replies = [
            Completion(f"{call.role} {call.seed} {call.messages[0].content[-9:]}", "end")
            for call in request.calls
        ]
        return cast(T, replies)


@pytest.fixture
def scripted(tmp_path: Path) -> ScriptedProcess:
    """A scripted model process."""
    return ScriptedProcess(tmp_path / "log")


def stored(conn: sqlite3.Connection) -> list[StoredPlay]:
    """The plays of all settings."""
    hashes = conn.execute("SELECT config_hash FROM play_config").fetchall()
    return [play for (key,) in hashes for play in tables.plays(conn, key).values()]


def outcome(project: Project, process: ModelProcess, **made: Any) -> Any:
    """Runs the stage to its end; returns its outcome."""
    return JobRunner(project, lambda event: None).run(simulated.stage(project, process, **made))


class TestWhatIsWritten:
    def test_conversations_with_truth(self, uninterrupted: Path) -> None:
        """Each play is imported as a conversation with its truth apart from the messages, and its record is stored."""
        with Project.open(uninterrupted) as project, project.reading() as conn:
            found = stored(conn)
            assert {row.key for row in found} == {f"chat/{one}" for one in simulated.SUBJECTS}
            truths = dict(truth_by_conversation(conn))
            store = ConversationService(project)
            for row in found:
                assert row.reason is None
                assert row.conversation_id is not None
                messages = store.messages(row.conversation_id)
                assert len(messages) == 2 * row.result["turns"]
                assert truths[row.conversation_id] == {"goal": row.key.removeprefix("chat/")}
                assert b'"goal"' in store.original(row.conversation_id)
            (models,) = conn.execute("SELECT models FROM play_config").fetchone()
            assert json.loads(models) == {"user": "shipped", "assistant": "shipped"}

    def test_more_plays_ask_for_themselves_only(
        self, project: Project, scripted: ScriptedProcess
    ) -> None:
        """Plays that are added later are played without calls for those that ended."""
        few = simulated.scenarios()[:3]
        outcome(project, scripted, made=lambda _: few)
        before = sum(map(len, scripted.batches))
        done = outcome(project, scripted)
        assert "Played 6" in done.message
        later = [call for batch in scripted.batches for call in batch][before:]
        assert not any("Bread" in call.messages[0].content for call in later)

    def test_equal_calls_are_asked_once(self, project: Project, scripted: ScriptedProcess) -> None:
        """Equal calls of two plays are made once; the conversation that both give is stored once, with two records."""

        class TwinChat(Chat):
            @property
            def key(self) -> str:
                return f"twin/{self.turns}/{id(self)}"

        twins = [TwinChat("Bread", 2), TwinChat("Bread", 2)]
        done = outcome(project, scripted, made=lambda _: twins)
        assert [len(batch) for batch in scripted.batches] == [1, 1, 1, 1]
        assert "in 4 replies, 4 more were known" in done.message
        with project.reading() as conn:
            first, second = stored(conn)
        assert first.conversation_id == second.conversation_id
        assert ConversationService(project).counts().duplicates == 1


class TestModels:
    def test_two_models(self, project: Project, scripted: ScriptedProcess) -> None:
        """Roles of two models are called apart, and the model is changed only when no play waits for it."""

        other = replace(scored.model(), path=Path("other"), fingerprints={"model": "other"})

        outcome(project, scripted, user=other)
        assert all(len({call.role for call in batch}) == 1 for batch in scripted.batches)
        first = [path.name for path in scripted.loads[:2]]
        assert first == ["other", scored.model().path.name]


class TestBreakingOff:
    def test_a_call_that_is_refused(self, project: Project, scripted: ScriptedProcess) -> None:
        """A play whose call is refused ends with the reason, the others normally; a later run plays it again."""
        scripted.refused = "Tea"
        done = outcome(project, scripted)
        assert done.state == "done"
        assert "1 broke off" in done.message
        with project.reading() as conn:
            (broken,) = [row for row in stored(conn) if row.reason]
        assert (broken.key, broken.reason) == ("chat/Tea", "It is too long.")
        scripted.refused = ""
        assert "Played 1" in outcome(project, scripted).message
        with project.reading() as conn:
            assert not [row for row in stored(conn) if row.reason]

    def test_a_record_that_is_no_conversation(
        self, project: Project, scripted: ScriptedProcess
    ) -> None:
        """A record that the format's reader refuses is in the quarantine, and the play has the reason."""

        class WronglyEndingChat(Chat):
            def play(self) -> Play:
                yield from Chat("Salt", 1).play()
                return Ending({"messages": 3}, "uniform", {})

        outcome(project, scripted, made=lambda _: [WronglyEndingChat("Bread", 1)])
        with project.reading() as conn:
            (row,) = stored(conn)
        assert row.reason is not None
        assert row.reason.startswith("its record is no conversation")
        assert ConversationService(project).counts().quarantined == 1


def test_a_kill_at_any_moment_changes_no_bit(
    tmp_path: Path, expected: Content, process: ModelProcess
) -> None:
    """After kill -9 at a random moment, a last run leaves the content of an undisturbed one, bit for bit."""
    path = tmp_path / "p.wb"
    kill_amid("tests.engine.simulate.simulated", path, random.Random(1).randrange(1, 14))
    with Project.open(path) as project:
        assert {run.state for run in project.read(runs.all_runs)} <= {"interrupted", "done"}
        assert simulated.run(project, process).state == "done"
    check_whole(path)
    assert content(path) == expected
