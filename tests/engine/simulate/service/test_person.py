"""Plays with a person: the answers are the user's messages, stored as they come, and the person ends the play."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.conversations.tables.conversations import truth_by_conversation
from engine.jobs.runner import JobCancelled, JobDone, JobRunner
from engine.model.catalog import LoadableModel
from engine.model.chat import Role
from engine.model.prompt_files import prompt_texts
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.simulate import tables as plays
from engine.simulate.forms.form import Profile, read_form
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.modules import MODULES
from engine.simulate.forms.run import FormRun
from engine.simulate.live import Person
from engine.simulate.stages import PlayStage
from tests.engine.completeness import scored
from tests.engine.simulate.test_stages import ScriptedProcess

FORM = read_form(
    "trip",
    "a trip",
    {
        "Name": {"answer": None, "type": "text", "required": True},
        "Town": {"answer": None, "type": "text", "required": True},
    },
)
EVERY = frozenset(module.name for module in MODULES)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        yield opened


class PersonAtForm:
    """A person at a form whose modules are all fallbacks, so that no model is needed."""

    def __init__(self, project: Project, log: Path) -> None:
        self.project = project
        self.person = Person()
        texts = prompt_texts("forms")
        run = FormRun(
            FORM, "modular", 1, Rules(dummies=EVERY), texts, (Profile("x", "x", {}),), person=True
        )
        models: dict[Role, LoadableModel] = {"assistant": scored.model()}
        self.stage = PlayStage(
            project,
            ScriptedProcess(log),
            "forms",
            lambda labels: [run],
            {"person": True},
            texts,
            models,
            person=self.person,
        )
        self.on_reply: list[str] = []
        self.stage.on_reply = lambda key, line: self.on_reply.append(line.reply.text)
        self.outcome: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.outcome = JobRunner(self.project, lambda event: None).run(self.stage)

    def question(self) -> str:
        """The next question."""
        for _ in range(500):
            if (found := self.person.question) is not None:
                return found
            self._thread.join(0.02)
            assert self._thread.is_alive(), self.outcome
        raise AssertionError("nothing was asked")

    def end(self) -> Any:
        """The outcome of the run."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.outcome


def test_to_the_end(project: Project, tmp_path: Path) -> None:
    """The person's answers are the user's messages of the conversation; the result is as of any other run."""
    sitting = PersonAtForm(project, tmp_path / "log")
    asked = []
    while sitting.outcome is None:
        try:
            asked.append(sitting.question())
        except AssertionError:
            break
        sitting.person.say(f"answer {len(asked)}")
    assert isinstance(sitting.end(), JobDone)
    assert asked
    with project.reading() as conn:
        (row,) = plays.all_plays(conn, "forms")
        (setting,) = plays.settings_of(conn)
        assert row.conversation_id is not None
        assert [line.text for line in plays.transcript(conn, row.id)] == sitting.on_reply
        assert (
            dict(truth_by_conversation(conn))[row.conversation_id]["ended"] == row.result["ended"]
        )
    assert setting.models == {"assistant": "shipped", "user": "a person"}
    messages = ConversationService(project).messages(row.conversation_id)
    assert [one.content for one in messages if one.role == "user"] == sitting.on_reply
    assert row.result["turns"] == len(asked)


def test_stopping(project: Project, tmp_path: Path) -> None:
    """A person can stop at any question: the dialogue so far is a conversation, without the open question."""
    sitting = PersonAtForm(project, tmp_path / "log")
    sitting.question()
    sitting.person.say("Ann")
    sitting.question()
    sitting.person.stop()
    assert isinstance(sitting.end(), JobDone)
    with project.reading() as conn:
        (row,) = plays.all_plays(conn, "forms")
    assert row.result["ended"] == "person"
    assert row.conversation_id is not None
    assert [m.role for m in ConversationService(project).messages(row.conversation_id)] == [
        "assistant",
        "user",
    ]


def test_stopping_before_anything_was_said(project: Project, tmp_path: Path) -> None:
    """A run that is stopped before the first answer has no conversation."""
    sitting = PersonAtForm(project, tmp_path / "log")
    sitting.question()
    sitting.person.stop()
    sitting.end()
    with project.reading() as conn:
        (row,) = plays.all_plays(conn, "forms")
    assert (row.conversation_id, row.reason) == (None, None)


def test_cut_off(project: Project, tmp_path: Path) -> None:
    """A cancelled play keeps the answers of the person and is resumed after them."""
    sitting = PersonAtForm(project, tmp_path / "log")
    first = sitting.question()
    sitting.person.say("Ann")
    second = sitting.question()
    sitting.stage.interrupt()
    assert isinstance(sitting.end(), JobCancelled)
    with project.reading() as conn:
        assert list(plays.all_plays(conn, "forms")) == []
    again = PersonAtForm(project, tmp_path / "log")
    assert again.question() == second != first
    assert again.on_reply == ["Ann"]
    again.person.stop()
    again.end()


def test_answers_to_nothing(tmp_path: Path) -> None:
    """An answer without an open question is not used for a later question."""
    person = Person()
    person.say("too early")
    answers: list[str | None] = []
    thread = threading.Thread(
        target=lambda: answers.append(person.wait_for_answer("Who?")), daemon=True
    )
    thread.start()
    while person.question is None:
        thread.join(0.01)
    assert answers == []
    person.say("Ann")
    thread.join(5)
    assert answers == ["Ann"]
