"""Takes the answers of a file to one question: those of a judge elsewhere, a rating, another tool."""

from __future__ import annotations

import contextlib
import csv
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.base import folders
from engine.base.conversation import without_surrogates
from engine.base.errors import FormatError, NameTaken, UsageError
from engine.base.number_format import counted
from engine.conversations.tables import conversations
from engine.jobs.contract import config_hash
from engine.project import runs
from engine.project.idset import IdSet
from engine.project.project import Project
from engine.questions.question import NO, YES, Question
from engine.questions.records import Answerer, MachineAnswer
from engine.questions.service.intake import (
    MAX_EXAMPLE_CHARACTERS,
    Outcomes,
    json_records,
    read_text,
)
from engine.questions.tables import machine_answers

Outcome = Literal["taken", "empty", "unknown", "ambiguous", "not_understood", "repeated"]
"""What became of a line of the file; the words of each are those of `_OUTCOME_WORDS`."""

_OUTCOME_WORDS: Mapping[Outcome, tuple[str, str]] = {
    "taken": ("answer was taken", "answers were taken"),
    "empty": ("line has no answer", "lines have no answer"),
    "unknown": ("id is not in this project", "ids are not in this project"),
    "ambiguous": ("id is that of several conversations here", "ids are those of several conversations here"),
    "not_understood": ("answer was not understood", "answers were not understood"),
    "repeated": ("id came again; its first answer counts", "ids came again; their first answers count"),
}  # fmt: skip
"""How a sentence about lines goes on behind their number: for one, and for several."""

_GAPS: tuple[Outcome, ...] = ("unknown", "ambiguous", "not_understood", "repeated")
"""What becomes of lines that have an answer which was not taken."""

MAX_FIELDS_SHOWN = 12
"""Number of fields of the file that an error names."""

DIALECT_SAMPLE_CHARACTERS = 4096
"""Number of first characters of a CSV file by which its separator is guessed."""

_YES_OR_NO = {
    **dict.fromkeys(("true", "1", "1.0", "pass", "passed", "success", "complete"), YES),
    **dict.fromkeys(("false", "0", "0.0", "fail", "failed", "failure", "incomplete"), NO),
}
"""Words for the answers to yes-no questions; compared in lower case."""

MIN_YES = 0.5
"""Probability of yes from which on the answer is yes."""

IDS = ("id", "conversation", "conversation_id")
"""Usual names of the field of ids."""

VALUES = ("value", "answer", "label", "score", "rating", "verdict", "passed")
"""Usual names of the field of answers, behind the name of the question."""


@dataclass(slots=True)
class FileAnswersReport:
    """What an import of the answers of a file did, or would do.

    Attributes:
        name: Under which the file answers.
        fields: The fields of the file that hold the ids and the answers.
        outcomes: What became of the lines.
        without: Number of conversations of the project without an answer of the file.
    """

    name: str
    fields: tuple[str, str] = ("", "")
    outcomes: Outcomes[Outcome] = field(default_factory=lambda: Outcomes(_OUTCOME_WORDS, _GAPS))
    without: int = 0

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return {
            "name": self.name,
            "fields": list(self.fields),
            **self.outcomes.as_json(),
            "without": self.without,
            "examples": self.outcomes.examples,
        }

    def sentences(self) -> list[str]:
        """Returns the report in sentences, that about the fields first."""
        id_field, value_field = self.fields
        sentences = [
            f"Ids are in the field {id_field!r}, answers in {value_field!r}.",
            *self.outcomes.sentences(),
        ]
        if self.without:
            sentences.append(
                f"{counted(self.without, 'conversation')} of the project without an answer of it."
            )
        return sentences


def import_file_answers(
    project: Project,
    path: Path,
    question: Question,
    *,
    name: str = "",
    id_field: str = "",
    value_field: str = "",
    replace: bool = False,
    dry_run: bool = False,
) -> FileAnswersReport:
    """Takes the answers of a file of JSON Lines, JSON or CSV, one conversation a line; a field `explanation` is kept.

    Args:
        name: Under which the file answers; empty takes that of the file.
        id_field, value_field: Fields of the file; empty looks for usual names.
        replace: Replaces what answers under this name.

    Raises:
        FormatError: The file cannot be read, or has no such fields.
        NameTaken: Something answers the question under this name.
    """
    report = FileAnswersReport(" ".join(name.split()) or path.stem)
    lines = list(_lines(path))
    report.fields = _fields(lines, question.name, id_field, value_field, path)
    params = {"question": question.name, "name": report.name}
    answerer = Answerer(config_hash("file", params, {}), question.name, "file", report.name)
    with project.reading() as conn:
        if len(machine_answers.answered(conn, answerer.config_hash)) and not replace:
            raise NameTaken(
                f"{report.name!r} has answered {question.name} already.",
                "Choose another name with --name, or replace its answers with --replace.",
            )
        answers = _answers(conn, lines, question, report)
        report.without = len(IdSet.every(conn)) - len(answers)
    report.outcomes.counts["taken"] = len(answers)
    if not answers or dry_run:
        return report

    def store(conn: sqlite3.Connection) -> None:
        """Stores the answers with a run of their own."""
        machine_answers.drop(conn, answerer.config_hash)
        run_id = runs.create(
            conn,
            stage="answers import",
            config_hash=answerer.config_hash,
            params={**params, "file": path.name, "fields": list(report.fields)},
            fingerprints={},
            code_version=folders.version(),
        )
        machine_answers.register(conn, answerer)
        machine_answers.put(conn, answerer.config_hash, run_id, answers)
        runs.count(conn, run_id, len(answers), len(answers))
        runs.finish(conn, run_id, "done", report.sentences()[1])

    project.write(store)
    return report


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the lines of a file, field -> value: of JSON Lines or JSON if it begins like them, else of CSV.

    Raises:
        FormatError: The file cannot be read.
    """
    text = read_text(path, "Choose a file of JSON Lines, JSON or CSV.")
    if text.lstrip()[:1] in ("{", "["):
        rows = json_records(path, text, "Choose another file.")
        yield from (row for row in rows if isinstance(row, dict))
        return
    sample = text[:DIALECT_SAMPLE_CHARACTERS]
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(sample, delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    yield from csv.DictReader(text.splitlines(), dialect=dialect)


def _fields(
    lines: Iterable[Mapping[str, Any]], question: str, id_field: str, value_field: str, path: Path
) -> tuple[str, str]:
    """Returns the fields of ids and answers.

    Raises:
        FormatError: No line has them.
    """
    field_names = dict.fromkeys(str(key) for line in lines for key in line)
    chosen = []
    for what, option, chosen_name, usual in (
        ("ids", "--id", id_field, IDS),
        ("answers", "--value", value_field, (question, *VALUES)),
    ):
        field_name = next(
            (name for name in ((chosen_name,) if chosen_name else usual) if name in field_names),
            None,
        )
        if field_name is None:
            names = ", ".join(list(field_names)[:MAX_FIELDS_SHOWN]) or "none"
            raise FormatError(
                f"{path} has no field {chosen_name!r}."
                if chosen_name
                else f"{path} has no field with a usual name of {what}.",
                f"Name one with {option}. Fields of the file: {names}.",
            )
        chosen.append(field_name)
    return chosen[0], chosen[1]


def _answers(
    conn: sqlite3.Connection,
    lines: Iterable[Mapping[str, Any]],
    question: Question,
    report: FileAnswersReport,
) -> list[MachineAnswer]:
    """Returns the answer on each conversation that a line names; counts in the report the lines that give none."""
    answer_by_id: dict[int, MachineAnswer] = {}
    id_field, value_field = report.fields
    for line in lines:
        name = without_surrogates(str(line.get(id_field) or ""))
        text = line.get(value_field)
        if text is None or text == "":
            report.outcomes.count("empty", name)
            continue
        try:
            value, p = _value(question, without_surrogates(str(text).strip()))
        except UsageError:
            report.outcomes.count("not_understood", f"{name}: {str(text)[:MAX_EXAMPLE_CHARACTERS]}")
            continue
        ids = conversations.by_name(conn, name)
        if len(ids) != 1:
            report.outcomes.count("ambiguous" if ids else "unknown", name)
        elif ids[0] in answer_by_id:
            report.outcomes.count("repeated", name)
        else:
            explanation = without_surrogates(str(line.get("explanation") or ""))
            answer_by_id[ids[0]] = MachineAnswer(ids[0], value, p, explanation)
    return list(answer_by_id.values())


def _value(question: Question, text: str) -> tuple[str, float | None]:
    """Returns the answer that a text gives, and its probability where it is a number between 0 and 1: the probability
    of yes.

    Raises:
        UsageError: The question cannot have this answer.
    """
    if question.kind == "yes-no":
        text = _YES_OR_NO.get(text.casefold(), text)
        with contextlib.suppress(ValueError):
            p = float(text)
            if 0 < p < 1:
                return (YES, p) if p >= MIN_YES else (NO, 1 - p)
    return question.answer(text), None
