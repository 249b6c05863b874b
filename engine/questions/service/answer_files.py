"""Reads the answers of people in files of Label Studio and Argilla, and in what this program exports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.conversation import EXPORT_OBJECT, SUCCEEDED
from engine.questions.question import NOTE, YES
from engine.questions.service.intake import json_records, read_text


@dataclass(frozen=True, slots=True)
class Answer:
    """What one person said of one conversation.

    Attributes:
        key: Stands for the text that was judged; None in the program's own exports.
        verdict: As written; None where the task has no answer.
        answers: The answers to other questions, by name.
        annotator: Name of the person; empty without one.
        repeats: What the same person said again, blind.
        in_force: Whether this verdict was in force in the project that it comes from, whatever others said.
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


def answers_of(record: Any, questions: Collection[str]) -> list[Answer] | None:
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
        values = {name: _value(value) for name, value in record.items() if name in questions}
        return [_answered(_task(record), values, record.get("annotator"))]
    return _own_answers(record)


def _answered(task: Answer, values: Mapping[str, str], person: Any) -> Answer:
    """Returns a task with what a person answered, by question."""
    others = {name: text for name, text in values.items() if text and name not in (SUCCEEDED, NOTE)}
    return replace(
        task,
        verdict=values.get(SUCCEEDED) or None,
        note=values.get(NOTE, ""),
        annotator=_person_name(person),
        answers=others,
    )


def _value(value: Any) -> str:
    """Returns an answer as text: of Label Studio `{"choices": [...]}` and the like; several answers with commas."""
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("choices", "text", "number", "rating") if key in value), ""
        )
    if isinstance(value, list):
        return ",".join(" ".join(str(each).split()) for each in value)
    return "" if value is None else " ".join(str(value).split())


def _task(names: Mapping[str, Any]) -> Answer:
    """Returns the conversation that a task names, without an answer yet."""
    source = names.get("source")
    return Answer(
        str(names["key"]) if names.get("key") else None,
        str(names.get("conversation") or names.get("key") or ""),
        source if isinstance(source, str) else None,
    )


def _label_studio(data: Mapping[str, Any], annotations: Sequence[Any]) -> list[Answer]:
    """Returns the answers to a task of Label Studio, one without a verdict if there are none; skipped ones are none."""
    task = _task(data)
    answers = []
    for annotation in annotations:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        values = {
            str(result.get("from_name")): _value(result["value"])
            for result in _as_list(annotation.get("result"))
            if isinstance(result, dict) and isinstance(result.get("value"), dict)
        }
        answer = _answered(task, values, annotation.get("completed_by"))
        if answer.verdict or answer.answers:
            answers.append(answer)
    return answers or [task]


def _argilla(record: Mapping[str, Any]) -> list[Answer]:
    """Returns the answers to a record of Argilla, one for each person, one without a verdict if there are none; drafts
    and discarded ones are none."""
    people: dict[str, dict[str, str]] = {}
    responses = record.get("responses")
    for question, question_responses in responses.items() if isinstance(responses, dict) else ():
        for response in _as_list(question_responses):
            if isinstance(response, dict) and response.get("status") not in ("draft", "discarded"):
                answers = people.setdefault(_person_name(response.get("user_id")), {})
                answers[question] = _value(response.get("value"))
    task = _task({**record["metadata"], "key": record.get("id")})
    answered = [_answered(task, values, person) for person, values in people.items()]
    return [answer for answer in answered if answer.verdict or answer.answers] or [task]


def _own_answers(record: Mapping[str, Any]) -> list[Answer] | None:
    """Returns the answers in a line of `export answers`, or of conversations `--with answers`; None if it is
    neither."""
    export_object = record.get(EXPORT_OBJECT)
    values = export_object if isinstance(export_object, dict) else record
    name = record.get("id")
    if not isinstance(name, str) or SUCCEEDED not in values:
        return None
    duplicates = _texts(
        [each.get("id") for each in _as_list(values.get("duplicates")) if isinstance(each, dict)]
    )
    task = Answer(None, name, None, duplicates=duplicates)
    verdict = values[SUCCEEDED]
    answer = replace(
        task,
        verdict=verdict if isinstance(verdict, str) else None,
        note=_join_texts(values.get(NOTE)),
        annotator=_person_name(values.get("annotator")),
        answers={
            **dict.fromkeys(_texts(values.get("tags")), YES),
            **{
                str(name): value
                for name, value in _as_dict(values.get("answers")).items()
                if isinstance(value, str)
            },
        },
        repeats=_texts(values.get("repeats")),
        in_force=isinstance(verdict, str),
        disputed=bool(values.get("disagreement")),
    )
    others = [
        replace(task, verdict=other[SUCCEEDED], annotator=_person_name(other.get("annotator")))
        for other in _as_list(values.get("others"))
        if isinstance(other, dict) and isinstance(other.get(SUCCEEDED), str)
    ]
    is_empty = answer.verdict is None and not answer.note and not answer.answers
    return others if is_empty and others else [answer, *others]


def _texts(value: Any) -> tuple[str, ...]:
    """Returns the texts of a list; what is no text, or no list, is left out."""
    return tuple(each for each in _as_list(value) if isinstance(each, str))


def _as_list(value: Any) -> list[Any]:
    """Returns a list as it is, and an empty one for any other value."""
    return value if isinstance(value, list) else []


def _as_dict(value: Any) -> Mapping[Any, Any]:
    """Returns an object as it is, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


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
