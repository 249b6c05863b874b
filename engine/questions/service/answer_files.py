"""Reads the answers of people in files of Label Studio and Argilla, and in what this program exports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.conversation import EXPORT_OBJECT, SUCCEEDED
from engine.formats.json_values import list_or_empty, object_or_empty, objects_in
from engine.questions.question import NOTE, YES
from engine.questions.service.intake import json_records, read_text


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """The answers of one person on one conversation, as a file has them.

    Attributes:
        key: Key of the text that was judged; None in the program's own exports.
        verdict: The answer to the question whether it succeeded, as written; None where there is none.
        answers: The answers to other questions, by name.
        annotator: Name of the person; empty without one.
        repeats: Later verdicts of the same person, given blind.
        in_force: Whether this verdict was in force in the project that it comes from, whatever the verdicts of others.
        disputed: Whether others disagreed with it there, and nobody had decided.
        duplicates: Other ids of the conversation there, by which it may be known here.
    """

    key: str | None
    conversation: str
    source: str | None
    verdict: str | None = None
    note: str = ""
    annotator: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    repeats: tuple[str, ...] = ()
    in_force: bool = False
    disputed: bool = False
    duplicates: tuple[str, ...] = ()


def records_of(path: Path) -> list[Any]:
    """Returns the records of a file of JSON or of JSON Lines.

    Raises:
        FormatError: It cannot be read, or is neither.
    """
    text = read_text(path, "Choose a JSON file.")
    hint = "Export JSON from Label Studio, or records with to_json from Argilla."
    return json_records(path, text, hint)


def answers_of(record: Any, questions: Collection[str]) -> list[ImportedAnswer] | None:
    """Returns the answers in a record of Label Studio, of Argilla or of this program; None if it is of none of them.

    Args:
        questions: Names of the questions here. A record of JSON-MIN has its answers among other fields.
    """
    if not isinstance(record, dict):
        return None
    data, fields = record.get("data"), record.get("fields")
    if isinstance(data, dict) and "key" in data and isinstance(record.get("annotations"), list):
        return _label_studio(data, record["annotations"])
    if isinstance(fields, dict) and isinstance(record.get("metadata"), dict):
        return _argilla(record)
    if "key" in record and "conversation" in record:  # JSON-MIN of Label Studio
        values = {name: _answer_text(value) for name, value in record.items() if name in questions}
        return [_with_values(_unanswered(record), values, record.get("annotator"))]
    return _own_answers(record)


def _with_values(task: ImportedAnswer, values: Mapping[str, str], person: Any) -> ImportedAnswer:
    """Returns a task with the answers of a person, given by question."""
    others = {name: text for name, text in values.items() if text and name not in (SUCCEEDED, NOTE)}
    return replace(
        task,
        verdict=values.get(SUCCEEDED) or None,
        note=values.get(NOTE, ""),
        annotator=_person_name(person),
        answers=others,
    )


def _answer_text(value: Any) -> str:
    """Returns an answer as text: of Label Studio `{"choices": [...]}` and the like; several answers with commas."""
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("choices", "text", "number", "rating") if key in value), ""
        )
    if isinstance(value, list):
        return ",".join(" ".join(str(item).split()) for item in value)
    return "" if value is None else " ".join(str(value).split())


def _unanswered(names: Mapping[str, Any]) -> ImportedAnswer:
    """Returns the conversation that a task names, without an answer yet."""
    source = names.get("source")
    return ImportedAnswer(
        str(names["key"]) if names.get("key") else None,
        str(names.get("conversation") or names.get("key") or ""),
        source if isinstance(source, str) else None,
    )


def _label_studio(data: Mapping[str, Any], annotations: Sequence[Any]) -> list[ImportedAnswer]:
    """Returns the answers to a task of Label Studio, or one without a verdict; skipped ones do not count."""
    task = _unanswered(data)
    answers = []
    for annotation in annotations:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        values = {
            str(result.get("from_name")): _answer_text(result["value"])
            for result in objects_in(annotation.get("result"))
            if isinstance(result.get("value"), dict)
        }
        answer = _with_values(task, values, annotation.get("completed_by"))
        if answer.verdict or answer.answers:
            answers.append(answer)
    return answers or [task]


def _argilla(record: Mapping[str, Any]) -> list[ImportedAnswer]:
    """Returns the answers to a record of Argilla, one for each person, or one without a verdict; drafts and discarded
    responses do not count."""
    values_by_person: dict[str, dict[str, str]] = {}
    for question, responses in object_or_empty(record.get("responses")).items():
        for response in objects_in(responses):
            if response.get("status") not in ("draft", "discarded"):
                values = values_by_person.setdefault(_person_name(response.get("user_id")), {})
                values[question] = _answer_text(response.get("value"))
    task = _unanswered({**record["metadata"], "key": record.get("id")})
    answered = [_with_values(task, values, person) for person, values in values_by_person.items()]
    return [answer for answer in answered if answer.verdict or answer.answers] or [task]


def _own_answers(record: Mapping[str, Any]) -> list[ImportedAnswer] | None:
    """Returns the answers in a line of `export answers`, or of conversations `--with answers`; None if it is
    neither."""
    export_object = record.get(EXPORT_OBJECT)
    values = export_object if isinstance(export_object, dict) else record
    name = record.get("id")
    if not isinstance(name, str) or SUCCEEDED not in values:
        return None
    duplicates = _texts([entry.get("id") for entry in objects_in(values.get("duplicates"))])
    task = ImportedAnswer(None, name, None, duplicates=duplicates)
    answer = _own_answer(task, values)
    others = [
        replace(task, verdict=other[SUCCEEDED], annotator=_person_name(other.get("annotator")))
        for other in objects_in(values.get("others"))
        if isinstance(other.get(SUCCEEDED), str)
    ]
    is_empty = answer.verdict is None and not answer.note and not answer.answers
    return others if is_empty and others else [answer, *others]


def _own_answer(task: ImportedAnswer, values: Mapping[str, Any]) -> ImportedAnswer:
    """Returns the answer in force of an export. Each of its tags is the answer
    yes to the question of this name."""
    verdict = values[SUCCEEDED]
    answers = dict.fromkeys(_texts(values.get("tags")), YES)
    for question, value in object_or_empty(values.get("answers")).items():
        if isinstance(value, str):
            answers[str(question)] = value
    return replace(
        task,
        verdict=verdict if isinstance(verdict, str) else None,
        note=_join_texts(values.get(NOTE)),
        annotator=_person_name(values.get("annotator")),
        answers=answers,
        repeats=_texts(values.get("repeats")),
        in_force=isinstance(verdict, str),
        disputed=bool(values.get("disagreement")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    """Returns the texts in a list, without its other values; none for any other value."""
    return tuple(item for item in list_or_empty(value) if isinstance(item, str))


def _join_texts(value: Any) -> str:
    """Returns a text, or the texts of a list with semicolons between them, without line breaks."""
    texts = value if isinstance(value, list) else [value]
    return "; ".join(
        " ".join(text.split()) for text in texts if isinstance(text, str) and text.strip()
    )


def _person_name(value: Any) -> str:
    """Returns the name of a person: Label Studio gives a number, or an object with the e-mail address."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    return "" if value is None else str(value)
