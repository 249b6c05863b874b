"""Takes answers that people gave elsewhere into a project, and says what became of each answer."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine.base.conversation import EXPORT_OBJECT, SUCCEEDED, Verdict, without_surrogates
from engine.base.errors import FormatError, UsageError
from engine.base.number_format import counted
from engine.conversations.tables import conversations
from engine.formats.json_values import list_or_empty, object_or_empty, objects_in
from engine.project.project import Project
from engine.questions.question import NOTE, YES, Question, make_slug
from engine.questions.records import AnswerRow, NewAnswer
from engine.questions.service.answer_tables import (
    MAX_EXAMPLE_CHARACTERS,
    YES_OR_NO,
    Outcomes,
    find_fields,
    json_records,
    read_lines,
    read_text,
)
from engine.questions.tables import answers as stored_answers
from engine.questions.tables import opinions, questions

Outcome = Literal[
    "given", "replaced", "same", "conflicts", "disagreements", "unanswered", "changed", "unknown", "ambiguous",
    "not_understood",
]  # fmt: skip
"""What became of an answer."""

_OUTCOME_WORDS: dict[Outcome, tuple[str, str]] = {
    "given": ("verdict was given", "verdicts were given"),
    "replaced": ("verdict replaced another one", "verdicts replaced others"),
    "same": ("verdict was there already", "verdicts were there already"),
    "conflicts": (
        "conversation has another verdict, which stays in force; --replace gives the new one",
        "conversations have other verdicts, which stay in force; --replace gives the new ones",
    ),
    "disagreements": (
        "conversation got different verdicts from as many people; all are kept, none came into force",
        "conversations got different verdicts from as many people; all are kept, none came into force",
    ),
    "unanswered": ("task has no answer", "tasks have no answer"),
    "changed": (
        "conversation has another text since it was exported; no verdict was given",
        "conversations have another text since they were exported; no verdict was given",
    ),
    "unknown": ("id is not in this project", "ids are not in this project"),
    "ambiguous": (
        "id is that of several conversations here; no verdict was given",
        "ids are those of several conversations here; no verdict was given",
    ),
    "not_understood": ("answer was not understood", "answers were not understood"),
}
"""Words for one and for several answers with each outcome."""

_GAPS: tuple[Outcome, ...] = (
    "conflicts", "disagreements", "changed", "unknown", "ambiguous", "not_understood",
)  # fmt: skip
"""Outcomes of answers that were not taken as they are."""

_VERDICTS = frozenset(verdict.value for verdict in Verdict)
"""The names of the verdicts, as answers write them."""


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """The answers of one person on one conversation, as a file has them.

    Attributes:
        key: Key of the text that was judged; None in the program's own exports.
        conversation: Id of the conversation in its source.
        source: Label of the source.
        verdict: The answer to the question whether it succeeded, as written; None where there is none.
        note: The note that came with it.
        annotator: Name of the person; empty without one.
        answers: The answers to other questions, by name.
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


@dataclass(slots=True)
class AnswerReport:
    """What an import of answers did, or would do.

    Attributes:
        outcomes: By conversation, but for `unanswered`, `unknown` and `not_understood`, which are by answer.
        annotators: How many answers were read of each person.
        others: Number of answers to other questions than `SUCCEEDED`.
    """

    outcomes: Outcomes[Outcome] = field(default_factory=lambda: Outcomes(_OUTCOME_WORDS, _GAPS))
    annotators: Counter[str] = field(default_factory=Counter)
    others: int = 0

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return {
            **self.outcomes.as_json(),
            "others": self.others,
            "annotators": dict(self.annotators),
            "examples": self.outcomes.examples,
        }

    def sentences(self) -> list[str]:
        """Returns the report in sentences, one for each thing that happened."""
        sentences = self.outcomes.sentences()
        if self.others:
            sentences.append(f"{counted(self.others, 'answer')} to other questions given.")
        if self.annotators:
            people = (f"{name} {count:,}" for name, count in self.annotators.most_common())
            sentences.append(f"Answers by person: {', '.join(people)}.")
        return sentences or ["The file has no tasks."]


def import_answers(
    project: Project,
    path: Path,
    *,
    replace: bool = False,
    annotator: str = "",
    dry_run: bool = False,
    question: Question | None = None,
    id_field: str = "",
    value_field: str = "",
) -> AnswerReport:
    """Takes the verdicts, notes and tags of a file, as one act that triage can undo.

    Each person's verdict is kept under their name. Where the conversation has no verdict, the one that most people
    gave comes into force; none does where as many said something else.

    Args:
        replace: Also where the conversation has another verdict.
        annotator: Name of the person whose answers have no name.
        dry_run: Only reports what would happen.
        question: The question that each line of the file answers, which is no export then; None for an export of this
            program or of Label Studio.
        id_field, value_field: Fields of such lines; empty looks for usual names.

    Raises:
        FormatError: The file cannot be read, or has nothing that looks like an answer of a person.
    """
    report = AnswerReport()
    with project.reading() as conn:
        definitions = {name: questions.get(conn, name) for name in questions.names(conn)}
        if question is None:
            answers = _read_answers(path, definitions, report)
        else:
            answers = _read_lines(path, question, annotator, id_field, value_field)
        given = [_make_storable(answer, annotator.strip()) for answer in answers]
        acts = _plan(conn, given, definitions, replace, report)
    if acts and not dry_run:
        project.write(lambda conn: stored_answers.give_all(conn, acts))
    return report


# Reading a file


def _read_answers(
    path: Path, names: Collection[str], report: AnswerReport
) -> Iterator[ImportedAnswer]:
    """Yields the answers of a file.

    Args:
        names: Names of the questions here.

    Raises:
        FormatError: As `import_answers`.
    """
    understood = 0
    text = read_text(path, "Choose a JSON file.")
    for record in json_records(path, text, "Export JSON from Label Studio."):
        answers = answers_of(record, names)
        understood += answers is not None
        if answers is None:
            report.outcomes.count("not_understood", json.dumps(record)[:MAX_EXAMPLE_CHARACTERS])
        else:
            yield from answers
    if not understood:
        raise FormatError(
            f"{path} has no answers of Label Studio and no exported answers.",
            "Export tasks with `workbench export PROJECT conversations --as label-studio`.",
        )


def _read_lines(
    path: Path, question: Question, annotator: str, id_field: str, value_field: str
) -> Iterator[ImportedAnswer]:
    """Yields the answers of a file with one answer to a question a line, as JSON Lines, JSON or CSV.

    Args:
        annotator: Name of the person whose answers have no name; empty if each has one in the field `annotator`.
        id_field, value_field: As in `import_answers`.

    Raises:
        FormatError: The file cannot be read, has no such fields, or names nobody.
        UsageError: It names who gave some of the answers.
    """
    lines = list(read_lines(path))
    nameless = [] if annotator else [line for line in lines if not line.get("annotator")]
    if nameless:
        names_nobody = len(nameless) == len(lines)
        raise (FormatError if names_nobody else UsageError)(
            f"{path} does not say who gave {len(nameless):,} of {counted(len(lines), 'answer')}.",
            "Say it with --annotator NAME.",
        )
    id_field, value_field = find_fields(lines, question.name, id_field, value_field, path)
    for line in lines:
        text = _answer_text(line.get(value_field))
        if question.kind == "yes-no":
            text = YES_OR_NO.get(text.casefold(), text)
        values = {NOTE: _join_texts(line.get(NOTE)), question.name: text}
        task = ImportedAnswer(None, str(line.get(id_field) or ""), None)
        yield _with_values(task, values, line.get("annotator"))


def answers_of(record: Any, questions: Collection[str]) -> list[ImportedAnswer] | None:
    """Returns the answers in a record of Label Studio or of this program; None if it is of none of them.

    Args:
        questions: Names of the questions here. A record of JSON-MIN has its answers among other fields.
    """
    if not isinstance(record, dict):
        return None
    data = record.get("data")
    if isinstance(data, dict) and "key" in data and isinstance(record.get("annotations"), list):
        return _answers_of_label_studio(data, record["annotations"])
    if "key" in record and "conversation" in record:  # JSON-MIN of Label Studio
        values = {name: _answer_text(value) for name, value in record.items() if name in questions}
        return [_with_values(_without_answer(record), values, record.get("annotator"))]
    return _answers_of_export(record)


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


def _without_answer(names: Mapping[str, Any]) -> ImportedAnswer:
    """Returns the conversation that a task names, without an answer yet."""
    source = names.get("source")
    return ImportedAnswer(
        str(names["key"]) if names.get("key") else None,
        str(names.get("conversation") or names.get("key") or ""),
        source if isinstance(source, str) else None,
    )


def _answers_of_label_studio(
    data: Mapping[str, Any], annotations: Sequence[Any]
) -> list[ImportedAnswer]:
    """Returns the answers to a task of Label Studio, or one without a verdict; skipped ones do not count."""
    task = _without_answer(data)
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


def _answers_of_export(record: Mapping[str, Any]) -> list[ImportedAnswer] | None:
    """Returns the answers in a line of `export answers`, or of conversations `--with answers`; None if it is
    neither."""
    export_object = record.get(EXPORT_OBJECT)
    values = export_object if isinstance(export_object, dict) else record
    name = record.get("id")
    if not isinstance(name, str) or SUCCEEDED not in values:
        return None
    duplicates = _texts([entry.get("id") for entry in objects_in(values.get("duplicates"))])
    task = ImportedAnswer(None, name, None, duplicates=duplicates)
    answer = _answer_of_export(task, values)
    others = [
        replace(task, verdict=other[SUCCEEDED], annotator=_person_name(other.get("annotator")))
        for other in objects_in(values.get("others"))
        if isinstance(other.get(SUCCEEDED), str)
    ]
    is_empty = answer.verdict is None and not answer.note and not answer.answers
    return others if is_empty and others else [answer, *others]


def _answer_of_export(task: ImportedAnswer, values: Mapping[str, Any]) -> ImportedAnswer:
    """Returns the answer in force of an export; each of its tags is the answer yes to the question of this name."""
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


# What is stored


def _make_storable(answer: ImportedAnswer, annotator: str) -> ImportedAnswer:
    """Returns the answer with a name where it has none, and without lone surrogates, which cannot be stored."""
    return replace(
        answer,
        conversation=without_surrogates(answer.conversation),
        source=None if answer.source is None else without_surrogates(answer.source),
        note=without_surrogates(answer.note),
        annotator=without_surrogates(answer.annotator) or annotator,
        answers={
            make_slug(without_surrogates(name)): without_surrogates(value)
            for name, value in answer.answers.items()
        },
        duplicates=tuple(map(without_surrogates, answer.duplicates)),
    )


def _plan(
    conn: sqlite3.Connection,
    answers: Sequence[ImportedAnswer],
    definitions: Mapping[str, Question],
    replace: bool,
    report: AnswerReport,
) -> list[NewAnswer]:
    """Returns the acts to be appended to the answers of the project, and counts what becomes of each answer.

    Args:
        definitions: The questions of the project, by name.
    """
    acts: list[NewAnswer] = []
    for key, own_answers in _answers_by_conversation(conn, answers, report).items():
        now = stored_answers.current(conn, key)
        verdict_acts = _verdict_acts(conn, key, own_answers, now, replace, report)
        acts += verdict_acts
        # A verdict that comes into force brings the notes along.
        if not any(act.question == NOTE for act in verdict_acts):
            acts += _note_acts(key, own_answers, now)
        in_force = dict(() if now is None else now.answers)
        others = [
            NewAnswer(key, name, value, answer.annotator)
            for answer in own_answers
            for name, value in _select_valid(answer, definitions, report)
            if in_force.get(name) != value
        ]
        report.others += len(others)
        acts += others
    return acts


def _answers_by_conversation(
    conn: sqlite3.Connection, answers: Sequence[ImportedAnswer], report: AnswerReport
) -> dict[int, list[ImportedAnswer]]:
    """Returns the answers by the id of the conversation that they are about; counts those that are about none, that
    are empty or that are not understood."""
    answers_by_id: dict[int, list[ImportedAnswer]] = {}
    for answer in answers:
        if answer.verdict is None and not answer.note and not answer.answers:
            report.outcomes.count("unanswered", answer.conversation)
            continue
        if answer.verdict is not None:
            report.annotators.update([answer.annotator] if answer.annotator else [])
            if _parse_verdict(answer.verdict) is None:
                report.outcomes.count(
                    "not_understood",
                    f"{answer.conversation}: {answer.verdict[:MAX_EXAMPLE_CHARACTERS]}",
                )
                continue
        conversation = _find_conversation(conn, answer)
        if isinstance(conversation, int):
            answers_by_id.setdefault(conversation, []).append(answer)
        else:
            report.outcomes.count(conversation, answer.conversation)
    return answers_by_id


def _select_valid(
    answer: ImportedAnswer, definitions: Mapping[str, Question], report: AnswerReport
) -> Iterator[tuple[str, str]]:
    """Yields (question, answer) of what somebody said to other questions than `SUCCEEDED`; counts what such a question
    cannot have. A question that is not known here can have any answer."""
    for name, value in sorted(answer.answers.items()):
        try:
            yield name, definitions[name].answer(value) if name in definitions else value
        except UsageError:
            example = f"{answer.conversation}, {name}: {value[:MAX_EXAMPLE_CHARACTERS]}"
            report.outcomes.count("not_understood", example)


def _verdict_acts(
    conn: sqlite3.Connection,
    key: int,
    answers: Sequence[ImportedAnswer],
    now: AnswerRow | None,
    replace: bool,
    report: AnswerReport,
) -> list[NewAnswer]:
    """Returns the verdicts to append on one conversation: one may come into force, others are kept beside it.

    Args:
        key: Id of the conversation.
        answers: The answers on it; at least one.
        now: Its verdict, note and tags in force; None without any.
        replace: Whether a verdict may replace another one that is in force.
    """
    people = {answer.annotator: answer for answer in answers if answer.verdict is not None}
    new = {
        name: verdict
        for name, answer in people.items()
        if (verdict := _parse_verdict(answer.verdict))
    }
    if not new:
        return []
    known_opinions = opinions.on_conversation(conn, key)
    known = {opinion.annotator: Verdict(opinion.value) for opinion in known_opinions}
    in_force = None if now is None else now.verdict
    decider = next((name for name, answer in people.items() if answer.in_force), None)
    if decider is not None:
        winner: Verdict | None = new[decider]
    else:
        # Against a verdict in force only the file's answers count; without one, earlier opinions have their say too.
        winner = _find_majority({**known, **new} if in_force is None else new)
    outcome = _outcome_of(winner, new.values(), in_force, replace)
    report.outcomes.count(outcome, answers[0].conversation)
    giver = None  # whose verdict comes into force
    if outcome in ("given", "replaced"):
        giver = decider or next(name for name, verdict in new.items() if verdict == winner)
    owner = None if now is None or in_force is None else now.annotator
    others = [
        NewAnswer(key, SUCCEEDED, verdict, name, blind=True)
        for name, verdict in new.items()
        if name not in (giver, owner) and known.get(name) != verdict
    ]
    if giver is None:
        return others
    notes = _join_notes(answers)
    give = [NewAnswer(key, NOTE, notes, giver)] if notes else []
    give.append(NewAnswer(key, SUCCEEDED, new[giver], giver))
    repeats = [
        NewAnswer(key, SUCCEEDED, verdict, giver, blind=True)
        for verdict in map(_parse_verdict, people[giver].repeats)
        if verdict is not None
    ]
    # who decides comes after those who are overruled: see `engine.questions.tables.opinions`
    is_decision = decider is not None and not people[decider].disputed
    return [*others, *repeats, *give] if is_decision else [*give, *repeats, *others]


def _outcome_of(
    winner: Verdict | None, new: Collection[Verdict], in_force: Verdict | None, replace: bool
) -> Outcome:
    """Returns what becomes of new verdicts on one conversation.

    Args:
        winner: The verdict that should be in force by the new ones; None where as many people gave another.
        in_force: The verdict in force before; None without one.
        replace: Whether a verdict may replace another one that is in force.
    """
    if winner is None or winner not in new:
        return "disagreements"
    if in_force == winner:
        return "same"
    if in_force is None:
        return "given"
    return "replaced" if replace else "conflicts"


def _note_acts(
    key: int, answers: Sequence[ImportedAnswer], now: AnswerRow | None
) -> list[NewAnswer]:
    """Returns the act that adds the notes which the conversation does not have yet; none if there are none."""
    old = "" if now is None else now.note
    new = [answer for answer in answers if answer.note and answer.note not in old]
    if not new:
        return []
    text = "; ".join(filter(None, (old, _join_notes(new, named=bool(old)))))
    return [NewAnswer(key, NOTE, text, new[0].annotator)]


def _parse_verdict(text: str | None) -> Verdict | None:
    """Returns the verdict that a text names; None if it names none."""
    name = (text or "").strip().lower()
    return Verdict(name) if name in _VERDICTS else None


def _find_majority(verdict_by_name: Mapping[str, Verdict]) -> Verdict | None:
    """Returns the verdict that most people gave; None where as many gave another."""
    first, *others = Counter(verdict_by_name.values()).most_common()
    return None if others and others[0][1] == first[1] else first[0]


def _find_conversation(
    conn: sqlite3.Connection, answer: ImportedAnswer
) -> int | Literal["changed", "unknown", "ambiguous"]:
    """Returns the id of the conversation that an answer is about, or why there is none."""
    if answer.key is not None:
        exact = conversations.by_text_key(conn, answer.key)
        if exact is not None:
            return exact
    names = (answer.conversation, *answer.duplicates)
    ids_by_name = (conversations.by_name(conn, name, answer.source) for name in names)
    named = next(filter(None, ids_by_name), [])
    if not named:
        return "unknown"
    if answer.key is not None:
        return "changed"
    return named[0] if len(named) == 1 else "ambiguous"


def _join_notes(answers: Sequence[ImportedAnswer], *, named: bool = False) -> str:
    """Returns the notes; where several people wrote one, and if `named`, each with the name of the person."""
    with_note = [answer for answer in answers if answer.note]
    named = named or len({answer.annotator for answer in with_note}) > 1
    notes = (
        f"{answer.annotator}: {answer.note}" if named and answer.annotator else answer.note
        for answer in with_note
    )
    return "; ".join(dict.fromkeys(notes))
