"""Reads the answers of people in files of Label Studio and Argilla, and in what this program exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import FormatError
from engine.questions.question_names import (
    ALLOWED_RATINGS,
    EXPORT_OBJECT,
    HUMAN_TAG_PREFIX,
    NOTE,
    RATING_BY_QUESTION,
    VERDICT,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one person said of one conversation.

    Attributes:
        key: Stands for the text that was judged; None in the program's own exports.
        verdict: As written; None where the task has no answer.
        annotator: Name of the person; empty without one.
        repeats: What the same person said again, blind.
        in_force: Whether this verdict was in force in the project that it comes from, whatever others said.
        disputed: Whether others disagreed with it there, and nobody had decided.
        duplicates: Other ids of the conversation there, by which it may be known here.
    """

    key: str | None
    conversation: str
    source: str | None
    verdict: str | None
    note: str = ""
    annotator: str = ""
    tags: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    in_force: bool = False
    disputed: bool = False
    duplicates: tuple[str, ...] = ()


def records_of(path: Path) -> list[Any]:
    """The records of a file of JSON or of JSON Lines.

    Raises:
        FormatError: It cannot be read, or is neither.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}.", "Choose a JSON file.") from error
    try:
        try:
            whole = json.loads(text)
        except json.JSONDecodeError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(
            f"{path} is neither JSON nor JSON Lines: {error}.",
            "Export JSON from Label Studio, or records with to_json from Argilla.",
        ) from error
    return whole if isinstance(whole, list) else [whole]


def answers_of(record: Any) -> list[Answer] | None:
    """The answers in a record of one of the forms; None if it is of none."""
    if not isinstance(record, dict):
        return None
    data, fields = record.get("data"), record.get("fields")
    if isinstance(data, dict) and "key" in data and isinstance(record.get("annotations"), list):
        return _label_studio(data, record["annotations"])
    if isinstance(fields, dict) and isinstance(record.get("metadata"), dict):
        return _argilla(record)
    if "key" in record and "conversation" in record:  # JSON-MIN of Label Studio
        verdict, note = record.get(VERDICT), record.get(NOTE)
        said = _Said(
            verdict if isinstance(verdict, str) else None,
            _joined(note),
            _person(record.get("annotator")),
            _rated({name: str(record.get(name)) for name in RATING_BY_QUESTION}),
        )
        return [_answer(record, said)]
    return _own(record)


@dataclass(frozen=True, slots=True)
class _Said:
    verdict: str | None = None
    note: str = ""
    annotator: str = ""
    tags: tuple[str, ...] = ()


def _rated(answers: Mapping[str, str]) -> tuple[str, ...]:
    """The tags of a person's ratings, such as `people.Diversity.2`; answers outside the values are none."""
    return tuple(
        f"{HUMAN_TAG_PREFIX}.{name}.{answers[question]}"
        for question, name in RATING_BY_QUESTION.items()
        if answers.get(question, "") in {str(grade) for grade in ALLOWED_RATINGS[name]}
    )


def _answer(names: Mapping[str, Any], said: _Said) -> Answer:
    source = names.get("source")
    return Answer(
        str(names["key"]) if names.get("key") else None,
        str(names.get("conversation") or names.get("key") or ""),
        source if isinstance(source, str) else None,
        said.verdict,
        said.note,
        said.annotator,
        said.tags,
    )


def _label_studio(data: Mapping[str, Any], annotations: Sequence[Any]) -> list[Answer]:
    """The answers to a task of Label Studio; those that were skipped are none."""
    said = []
    for one in annotations:
        if not isinstance(one, dict) or one.get("was_cancelled"):
            continue
        values: dict[str, Any] = {}
        for result in _list(one.get("result")):
            if isinstance(result, dict) and isinstance(result.get("value"), dict):
                values[str(result.get("from_name"))] = result["value"]
        chosen = {
            name: str(value["choices"][0]) for name, value in values.items() if value.get("choices")
        }
        tags = _rated(chosen)
        if VERDICT in chosen or tags:
            note = _joined(values.get(NOTE, {}).get("text"))
            person = _person(one.get("completed_by"))
            said.append(_Said(chosen.get(VERDICT), note, person, tags))
    return [_answer(data, one) for one in said or [_Said()]]


def _argilla(record: Mapping[str, Any]) -> list[Answer]:
    """The answers to a record of Argilla, by person; drafts and discarded ones are none."""
    people: dict[str, dict[str, str]] = {}
    responses = record.get("responses")
    for question, given in responses.items() if isinstance(responses, dict) else ():
        for one in given if isinstance(given, list) else ():
            if isinstance(one, dict) and one.get("status") not in ("draft", "discarded"):
                people.setdefault(_person(one.get("user_id")), {})[question] = _joined(
                    one.get("value")
                )
    names = {**record["metadata"], "key": record.get("id")}
    said = [
        _Said(answers.get(VERDICT) or None, answers.get(NOTE, ""), person, _rated(answers))
        for person, answers in people.items()
        if answers.get(VERDICT) or _rated(answers)
    ]
    return [_answer(names, one) for one in said or [_Said()]]


def _own(record: Mapping[str, Any]) -> list[Answer] | None:
    """The verdicts in a line of `export verdicts`, or of conversations `--with verdicts`."""
    known = record.get(EXPORT_OBJECT)
    given = known if isinstance(known, dict) else record
    name = record.get("id")
    if not isinstance(name, str) or VERDICT not in given:
        return None
    verdict, person = given[VERDICT], _person(given.get("annotator"))
    ids = [one.get("id") for one in _list(given.get("duplicates")) if isinstance(one, dict)]
    duplicates = _texts(ids)
    own = Answer(
        None,
        name,
        None,
        verdict if isinstance(verdict, str) else None,
        _joined(given.get(NOTE)),
        person,
        _texts(given.get("tags")),
        _texts(given.get("repeats")),
        in_force=isinstance(verdict, str),
        disputed=bool(given.get("disagreement")),
        duplicates=duplicates,
    )
    others = [
        Answer(
            None,
            name,
            None,
            one[VERDICT],
            annotator=_person(one.get("annotator")),
            duplicates=duplicates,
        )
        for one in _list(given.get("others"))
        if isinstance(one, dict) and isinstance(one.get(VERDICT), str)
    ]
    empty = own.verdict is None and not own.note and not own.tags
    return others if empty and others else [own, *others]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _list(value) if isinstance(one, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _joined(value: Any) -> str:
    texts = value if isinstance(value, list) else [value]
    return "; ".join(" ".join(one.split()) for one in texts if isinstance(one, str) and one.strip())


def _person(value: Any) -> str:
    """The name of a person: Label Studio gives a number, or an object with the e-mail address."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    return "" if value is None else str(value)
