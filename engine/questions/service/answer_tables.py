"""Takes answers to one question that nobody gave in this project: those of a file, such as of a judge elsewhere or of
another tool, and those that came with the conversations, as a field of their truth or metadata.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from engine.base.conversation import Message, without_surrogates
from engine.base.errors import FormatError, NameTaken, NotFound, UsageError
from engine.base.number_format import counted
from engine.conversations.tables import conversations, facets
from engine.jobs.contract import config_hash
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import IdSet
from engine.questions.question import NO, YES, Question
from engine.questions.records import Answerer, Cite, MachineAnswer
from engine.questions.tables import machine_answers

AnyOutcome = TypeVar("AnyOutcome", bound=str)
"""What can become of an answer, as a literal type."""

MAX_EXAMPLES = 3
"""Most ids that are shown for each kind of gap."""

MAX_EXAMPLE_CHARACTERS = 40
"""Most characters of an answer that was not understood in its example."""


@dataclass(slots=True)
class Outcomes(Generic[AnyOutcome]):
    """What became of the answers of a file, or would become of them.

    Attributes:
        words: How a sentence about an outcome goes on behind its number: for one, and for several.
        gaps: The outcomes of answers that were not taken as they are.
        counts: Number of answers by outcome.
        examples: Some ids for each kind of gap.
    """

    words: Mapping[AnyOutcome, tuple[str, str]]
    gaps: Collection[AnyOutcome]
    counts: Counter[AnyOutcome] = field(default_factory=Counter)
    examples: dict[AnyOutcome, list[str]] = field(default_factory=dict)

    @property
    def has_gaps(self) -> bool:
        """Whether some answer was not taken as it is."""
        return any(self.counts[outcome] for outcome in self.gaps)

    def count(self, outcome: AnyOutcome, name: str) -> None:
        """Counts an outcome, with the id of the conversation as an example of a gap."""
        self.counts[outcome] += 1
        if outcome in self.gaps and len(self.examples.setdefault(outcome, [])) < MAX_EXAMPLES:
            self.examples[outcome].append(name)

    def as_json(self) -> dict[str, int]:
        """Returns the number of answers with each outcome."""
        return {str(outcome): self.counts[outcome] for outcome in self.words}

    def sentences(self) -> list[str]:
        """Returns a sentence for each outcome that there is."""
        sentences = []
        for outcome, (singular, plural) in self.words.items():
            if count := self.counts[outcome]:
                ids = f" ({', '.join(self.examples[outcome])})" if outcome in self.examples else ""
                sentences.append(f"{count:,} {singular if count == 1 else plural}{ids}.")
        return sentences


def read_text(path: Path, hint: str) -> str:
    """Returns the text of a file.

    Raises:
        FormatError: It cannot be read; with the hint.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(f"{path} cannot be read: {reason}.", hint) from error


def json_records(path: Path, text: str, hint: str) -> list[Any]:
    """Returns the records of the text of a file: the elements of an array of JSON, one document, or JSON Lines.

    Raises:
        FormatError: It is none of them; with the hint.
    """
    try:
        try:
            document = json.loads(text)
        except ValueError:  # no JSON, or a number with too many digits
            # `str.splitlines` would also split at characters inside a value
            return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is neither JSON nor JSON Lines: {error}.", hint) from error
    return document if isinstance(document, list) else [document]


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

YES_OR_NO = {
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
    """What an import of the answers of a file or of a field did, or would do.

    Attributes:
        name: Under which they answer.
        fields: The fields that hold the ids and the answers; of a field of the conversations, `("", field)`.
        outcomes: What became of the lines, or of the values of the field.
        without: Number of conversations of the project without such an answer.
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
        ids = f"Ids are in the field {id_field!r}, answers" if id_field else "Answers are"
        sentences = [f"{ids} in {value_field!r}.", *self.outcomes.sentences()]
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
    lines = list(read_lines(path))
    report.fields = find_fields(lines, question.name, id_field, value_field, path)
    answers = project.read(_answers_of_lines, lines, question, report)
    return _store_answers(
        project, question, answers, report, path.name, replace=replace, dry_run=dry_run
    )


def import_field_answers(
    project: Project,
    field: str,
    question: Question,
    *,
    name: str = "",
    replace: bool = False,
    dry_run: bool = False,
) -> FileAnswersReport:
    """Takes the values of a field of the truth or metadata of conversations as answers.

    A list has a value for each message of one side: see `_answer_of_value`.

    Args:
        field: As in a filter: `truth.rating.Diversity`, `meta.stars`.
        name: Under which they answer; empty takes `truth` or `meta`.
        replace: Replaces what answers under this name.

    Raises:
        NotFound: No conversation has the field.
        NameTaken: Something answers the question under this name.
    """
    part, _, path = field.partition(".")
    report = FileAnswersReport(" ".join(name.split()) or part, ("", field))
    answers: list[MachineAnswer] = []
    has_field = False
    with project.reading() as conn:
        for key, _, conversation in conversations.export_conversations(conn):
            fields = {"truth": conversation.truth, "meta": conversation.meta}.get(part)
            value = _value_of_path(fields or {}, path)
            has_field = has_field or value is not None
            try:
                answer = _answer_of_value(question, key, value, conversation.messages)
            except UsageError:
                example = f"{conversation.external_id}: {value}"[:MAX_EXAMPLE_CHARACTERS]
                report.outcomes.count("not_understood", example)
                continue
            if answer is not None:
                answers.append(answer)
        if not has_field:
            names = [key for start in ("truth.", "meta.") for key in facets.keys(conn, start)]
            fields_text = ", ".join(names[:MAX_FIELDS_SHOWN]) or "none"
            raise NotFound(f"No conversation has a field {field!r}.", f"Fields: {fields_text}.")
    return _store_answers(
        project, question, answers, report, field, replace=replace, dry_run=dry_run
    )


def _value_of_path(fields: Mapping[str, Any], path: str) -> Any:
    """Returns the value of a field whose name may lead into objects with dots; None where there is none."""
    if path in fields:
        return fields[path]
    name, _, rest = path.partition(".")
    inner = fields.get(name)
    return _value_of_path(inner, rest) if rest and isinstance(inner, dict) else None


def _answer_of_value(
    question: Question, key: int, value: Any, messages: Sequence[Message]
) -> MachineAnswer | None:
    """Returns the answer of a value, or of a list of values of messages; None where there is none.

    A list is joined by the kind of the question: yes if any value is yes, else no if any is no; of `several` all that
    occur; the mean of numbers; of other kinds the last one. A list as long as the question has messages (`roles`) cites
    those whose value is the answer.

    Raises:
        UsageError: The question cannot have such an answer.
    """
    if not isinstance(value, list):
        if value in (None, ""):
            return None
        text, p = _parse_value(question, without_surrogates(str(value).strip()))
        return MachineAnswer(key, text, p)
    values = [
        None
        if entry in (None, "")
        else _parse_value(question, without_surrogates(str(entry).strip()))[0]
        for entry in value
    ]
    given = [answer for answer in values if answer is not None]
    if not given:
        return None
    answer = given[-1]
    if question.kind == "yes-no":
        answer = next((label for label in (YES, NO) if label in given), answer)
    elif question.kind == "several":
        answer = question.answer(",".join(given))
    elif question.kind == "number":
        answer = f"{sum(map(float, given)) / len(given):g}"
    indices = [index for index, message in enumerate(messages) if message.role in question.roles]
    cites: tuple[Cite, ...] = ()
    if len(indices) == len(values):
        cites = tuple(
            (index, 0, 0) for index, label in zip(indices, values, strict=True) if label == answer
        )
    return MachineAnswer(key, answer, None, "", cites)


def _store_answers(
    project: Project,
    question: Question,
    answers: Sequence[MachineAnswer],
    report: FileAnswersReport,
    origin: str,
    *,
    replace: bool,
    dry_run: bool,
) -> FileAnswersReport:
    """Stores answers under the name of the report, and completes it.

    Args:
        origin: Name of the file or the field, for the record of the run.

    Raises:
        NameTaken: Something answers the question under this name.
    """
    params = {"question": question.name, "name": report.name}
    answerer = Answerer(config_hash("file", params, {}), question.name, "file", report.name)
    with project.reading() as conn:
        if len(machine_answers.answered(conn, answerer.config_hash)) and not replace:
            raise NameTaken(
                f"{report.name!r} has answered {question.name} already.",
                "Choose another name with --name, or replace its answers with --replace.",
            )
        report.without = len(IdSet.every(conn)) - len(answers)
    report.outcomes.counts["taken"] = len(answers)
    if not answers or dry_run:
        return report

    def store(conn: sqlite3.Connection) -> None:
        """Stores the answers with a run of their own."""
        machine_answers.drop(conn, answerer.config_hash)
        machine_answers.put_check(conn, question.name, answerer.config_hash, None)
        run_id = runs.create(
            conn,
            stage="answers import",
            config_hash=answerer.config_hash,
            params={**params, "file": origin, "fields": list(report.fields)},
            fingerprints={},
        )
        machine_answers.put(conn, answerer, run_id, answers)
        runs.count(conn, run_id, len(answers), len(answers))
        runs.finish(conn, run_id, "done", report.sentences()[1])

    project.write(store)
    return report


def read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the lines of a file, field -> value: of JSON Lines or JSON if it begins like them, else of CSV.

    Raises:
        FormatError: The file cannot be read.
    """
    text = read_text(path, "Choose a file of JSON Lines, JSON or CSV.")
    if text.lstrip()[:1] in ("{", "["):
        rows = json_records(path, text, "Choose another file.")
        yield from (row for row in rows if isinstance(row, dict))
        return
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    yield from csv.DictReader(io.StringIO(text, newline=""))


def find_fields(
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


def _answers_of_lines(
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
            value, p = _parse_value(question, without_surrogates(str(text).strip()))
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


def _parse_value(question: Question, text: str) -> tuple[str, float | None]:
    """Returns the answer that a text gives, and its probability, None where that is not known.

    A number between 0 and 1 is the probability of yes, where the question is of the kind yes-no.

    Raises:
        UsageError: The question cannot have this answer.
    """
    if question.kind == "yes-no":
        text = YES_OR_NO.get(text.casefold(), text)
        with contextlib.suppress(ValueError):
            p = float(text)
            if 0 < p < 1:
                return (YES, p) if p >= MIN_YES else (NO, 1 - p)
    return question.answer(text), None
