"""The questions of one open project: which there are, who answered them, and what."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from engine.base.conversation import SUCCEEDED
from engine.base.errors import NameTaken, NotFound, UsageError
from engine.conversations.filters import ListQuery
from engine.conversations.tables import selecting
from engine.conversations.tables.conversations import imported
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.answer_check import AnswerCheck, draw, extend, is_stale, report
from engine.questions.pattern_matching import PatternMatcher
from engine.questions.question import (
    NOTE,
    PEOPLE,
    Question,
    check_answerable,
    make_slug,
    parse_question,
    read_built_in,
    tag_question,
)
from engine.questions.records import EXAMPLES, Answerer, CheckReport, MachineAnswer
from engine.questions.service.answer_tables import read_text
from engine.questions.tables import answers, machine_answers, questions

NAME_WORDS = 5
"""Number of first words of a question that its name is made of, where only its text is given."""


@dataclass(frozen=True, slots=True)
class QuestionSummary:
    """A question and who answered it.

    Attributes:
        question: The question.
        answers: (who, number of conversations by answer): people first, then the newest.
    """

    question: Question
    answers: tuple[tuple[str, Mapping[str, int]], ...]


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer to a question on one conversation.

    Attributes:
        conversation, source: Id and source of the conversation.
        value: The answer.
        by: Name of the person, empty without one; else of what answered.
        explanation: Why, as a machine says; empty where it says nothing.
        cites: Indices of the messages that show it.
        p: Probability of the answer, where it is known.
        note: How a machine reached it, or why there is none.
    """

    conversation: str
    source: str
    value: str
    by: str
    explanation: str = ""
    cites: tuple[int, ...] = ()
    p: float | None = None
    note: str = ""


class QuestionService:
    """Finds, adds and removes questions, and reads their answers."""

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when a question was added or removed.
        """
        self._project, self._changed = project, changed

    def all(self) -> list[QuestionSummary]:
        """Returns all questions: answered ones, then the project's own, then those that come with the program."""
        with self._project.reading() as conn, snapshot(conn):
            rows = [_summary(conn, name) for name in questions.names(conn)]
        return sorted(rows, key=lambda row: (not row.answers, row.question.name in read_built_in()))

    def answered(self) -> list[str]:
        """Returns the names of the questions that people or machines answered."""
        return self._project.read(questions.answered)

    def summary(self, name: str) -> QuestionSummary:
        """Returns a question with who answered it."""
        with self._project.reading() as conn, snapshot(conn):
            return _summary(conn, name)

    def find(self, text: str, *, keep: bool = False, pattern: str = "") -> Question:
        """Returns the question of a name, of a TOML file, or that the text asks: a yes-no question.

        Args:
            keep: Whether one that is not in the project yet is stored, and a name that is not there is a new tag.
            pattern: Words that answer the question of a text with yes, separated by commas, or a regular expression
                between slashes; empty for none.

        Raises:
            FormatError: The file cannot be read.
            NotFound: There is no question of this name.
            UsageError: A pattern is given for a question that is there already.
        """
        asks = text.rstrip().endswith("?")
        if pattern and not asks:
            raise UsageError(
                f"“{text}” is not a question that you ask in words.",
                "A pattern of yours goes with a question that ends with a question mark.",
            )
        if text.endswith(".toml") and Path(text).is_file():
            return self.add(Path(text)) if keep else _read(Path(text))[0]
        with self._project.reading() as conn:
            names = questions.names(conn)
            if text in names:
                return questions.get(conn, text)
        if keep and not asks:
            return tag_question(make_slug(text))
        if not asks:
            raise NotFound(
                f"There is no question “{text}”.",
                f"Questions are {', '.join(names)}. A new one ends with a question mark, or is a file.",
            )
        name = make_slug(" ".join(text.split()[:NAME_WORDS]))
        definition = f"text = {json.dumps(text, ensure_ascii=False)}\n{_pattern_lines(pattern)}"
        if keep and (pattern or name not in names):
            self._put(name, definition)
        return parse_question(name, definition)

    def file(self, name: str) -> str:
        """Returns the file of a question.

        Raises:
            NotFound: There is none.
        """
        text = self._project.read(questions.definition, name)
        if text is None:
            if name not in read_built_in():
                raise NotFound(
                    f"“{name}” has no file.", "It is a tag, of which only the name is known."
                )
            file = resources.files("engine.questions") / "built_in" / f"{name}.toml"
            text = file.read_text("utf-8")
        return text

    def add(self, path: Path) -> Question:
        """Takes a question from a TOML file, in place of one of its name.

        Raises:
            FormatError: The file cannot be read, or is no question.
            NameTaken: The program's own questions for verdicts and notes have this name, or one that was answered and
                has answers of another kind.
            UsageError: A pattern cannot be read.
        """
        question, text = _read(path)
        if question.name in (SUCCEEDED, NOTE):
            raise NameTaken(
                f"“{question.name}” is a question of every project.", "Give the file another name."
            )
        if question.name in self.answered():
            former = self.summary(question.name).question
            if former.kind != question.kind:
                raise NameTaken(
                    f"“{question.name}” has answers already, of the kind {former.kind} and not {question.kind}.",
                    "Give the file another name.",
                )
        self._put(question.name, text)
        return question

    def remove(self, name: str) -> None:
        """Takes a question out of the project; its answers stay.

        Raises:
            NotFound: The project has no such question of its own.
        """
        if not self._project.write(lambda conn: questions.remove(conn, name)):
            raise NotFound(f"The project has no question “{name}” of its own.", "")
        self._changed()

    def on_conversation(self, conversation_id: int) -> list[tuple[Answerer, MachineAnswer]]:
        """Returns what answered which question how on a conversation, by question, the newest first."""
        return self._project.read(machine_answers.of_conversation, conversation_id)

    def draw_check(self, name: str) -> None:
        """Draws conversations to check what answered last, where all that were drawn before are answered; does nothing
        where no machine has answered, or every conversation is answered or drawn.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        with self._project.reading() as conn, snapshot(conn):
            newest = next(machine_answers.machines(conn, name), None)
            if newest is None or not newest.answers:
                return
            people = answers.of_question(conn, name)
            check = machine_answers.checks(conn, name).get(newest.config_hash)
        if check is None or not _holds(check, newest):
            check = draw(newest.name, newest.answers, people)
        elif all(key in people for key in check.drawn):
            check = extend(check)
        self._project.write(
            lambda conn: machine_answers.put_check(conn, name, newest.config_hash, check)
        )

    def checks(self, name: str) -> list[CheckReport]:
        """Returns what people's answers say of each machine that was checked, the newest check first; nothing of one
        whose check does not hold any more."""
        with self._project.reading() as conn, snapshot(conn):
            people = {key: value for key, (value, _) in answers.of_question(conn, name).items()}
            question, checks = questions.get(conn, name), machine_answers.checks(conn, name)
            machines = machine_answers.machines(conn, name) if checks else ()
            by_config = {machine.config_hash: machine for machine in machines}
        return [
            report(check, question, people)
            for config, check in reversed(checks.items())
            if config in by_config and _holds(check, by_config[config])
        ]

    def answers(self, name: str, query: ListQuery) -> list[GivenAnswer]:
        """Returns the answers in force of people, then those of machines, of the conversations that a query matches,
        in its order."""
        with self._project.reading() as conn, snapshot(conn):
            ids = selecting.ids(conn, query)
            people = answers.of_question(conn, name)
            machines = machine_answers.of_question(conn, name)
            rows: list[GivenAnswer] = []
            answered = [key for key in ids if key in people or key in machines]
            for conversation in imported(conn, answered):
                key = conversation.conversation_id
                where = (conversation.external_id, conversation.source)
                if key in people:
                    rows.append(GivenAnswer(*where, *people[key]))
                rows += [
                    GivenAnswer(
                        *where,
                        answer.value or "",
                        answerer.name,
                        answer.explanation,
                        tuple(cite[0] for cite in answer.cites),
                        answer.p,
                        answer.note,
                    )
                    for answerer, answer in machines.get(key, ())
                ]
        return rows

    def _put(self, name: str, definition: str) -> None:
        """Stores a question, and says that something changed.

        Raises:
            FormatError, UsageError: It cannot be answered, or a pattern cannot be read.
        """
        question = parse_question(name, definition)
        check_answerable(question)
        if question.patterns:
            PatternMatcher(question)
        self._project.write(lambda conn: questions.put(conn, name, definition))
        self._changed()


def _holds(check: AnswerCheck, machine: machine_answers.Machine) -> bool:
    """Returns whether a check still says something of a machine, which must answer as when the check was drawn.

    A probe is fitted anew to every few answers; its check goes on for the fit that it was drawn for, while the
    conversations are as many.
    """
    if machine.config_hash == EXAMPLES:
        return sum(check.counts.values()) == len(machine.answers)
    return not is_stale(check, machine.answers)


def _pattern_lines(pattern: str) -> str:
    """Returns the lines of a question's file for a pattern as `find` takes it; empty for none."""
    if not pattern.strip():
        return ""
    if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
        return f"\n[[patterns]]\nregex = {json.dumps(pattern[1:-1])}\n"
    words = [word.strip() for word in pattern.split(",") if word.strip()]
    return f"\n[[patterns]]\nwords = {json.dumps(words, ensure_ascii=False)}\n"


def _read(path: Path) -> tuple[Question, str]:
    """Returns the question of a file, and its text.

    Raises:
        FormatError: It cannot be read, or is no question.
    """
    text = read_text(path, "Choose a TOML file.")
    return parse_question(path.stem, text), text


def _summary(conn: sqlite3.Connection, name: str) -> QuestionSummary:
    """Returns a question with who answered it."""
    counts = answers.counts(conn, name)
    if name == NOTE and counts:
        counts = {"with a note": sum(counts.values())}
    rows = [(PEOPLE, counts)] if counts else []
    rows += [(answerer.name, counts) for answerer, counts in machine_answers.answerers(conn, name)]
    return QuestionSummary(questions.get(conn, name), tuple(rows))
