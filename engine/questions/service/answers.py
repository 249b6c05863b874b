"""Takes verdicts that people gave elsewhere into a project, and says what became of each answer."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from engine.base.conversation import Verdict, without_surrogates
from engine.base.errors import FormatError
from engine.base.number_format import counted
from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.questions.records.triage import VerdictRow
from engine.questions.service.answer_files import Answer, answers_of, records_of
from engine.questions.tables import second_verdicts, verdicts
from engine.questions.tables.verdicts import Act

Outcome = Literal[
    "given", "replaced", "same", "conflicts", "disagreements", "unanswered", "changed", "unknown", "ambiguous",
    "not_understood",
]  # fmt: skip
"""What became of an answer."""

_WORDS: dict[Outcome, tuple[str, str]] = {
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
_GAPS: tuple[Outcome, ...] = (
    *("conflicts", "disagreements", "changed", "unknown", "ambiguous", "not_understood"),
)


_VERDICTS = frozenset(verdict.value for verdict in Verdict)


@dataclass(slots=True)
class AnswerReport:
    """What an import of answers did, or would do.

    Attributes:
        outcomes: By conversation, but for `unanswered`, `unknown` and `not understood`, which are by answer.
        annotators: How many answers were read of each person.
        tags: Number of tags that were given.
        examples: Some ids for each kind of gap.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    tags: int = 0
    examples: dict[Outcome, list[str]] = field(default_factory=dict)

    @property
    def has_gaps(self) -> bool:
        """Whether some answer was not taken."""
        return any(self.outcomes[outcome] for outcome in _GAPS)

    def count(self, outcome: Outcome, name: str) -> None:
        """Counts an outcome of a conversation, with its id as an example of a gap."""
        self.outcomes[outcome] += 1
        if outcome in _GAPS and len(found := self.examples.setdefault(outcome, [])) < 3:
            found.append(name)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            **{name: self.outcomes[name] for name in get_args(Outcome)},
            "tags": self.tags,
            "annotators": dict(self.annotators),
            "examples": self.examples,
        }

    def sentences(self) -> list[str]:
        """The report in sentences, one for each thing that happened."""
        said = []
        for outcome, (one, many) in _WORDS.items():
            if count := self.outcomes[outcome]:
                such = f" ({', '.join(self.examples[outcome])})" if outcome in self.examples else ""
                said.append(f"{count:,} {one if count == 1 else many}{such}.")
        if self.tags:
            said.append(f"{counted(self.tags, 'tag')} given.")
        if self.annotators:
            people = (f"{name} {count:,}" for name, count in self.annotators.most_common())
            said.append(f"Answers by person: {', '.join(people)}.")
        return said or ["The file has no tasks."]


def import_answers(
    project: Project,
    path: Path,
    *,
    replace: bool = False,
    annotator: str = "",
    dry_run: bool = False,
) -> AnswerReport:
    """Takes the verdicts, notes and tags of a file, as one act that triage can undo.

    Each person's verdict is kept under their name. Where the conversation has no verdict, the one that most people
    gave comes into force; none does where as many said something else.

    Args:
        replace: Also where the conversation has another verdict.
        annotator: Name of the person whose answers have no name.
        dry_run: Only reports what would happen.

    Raises:
        FormatError: The file cannot be read, or has nothing that looks like an answer.
    """
    report = AnswerReport()
    answers = [_storable(answer, annotator.strip()) for answer in _read(path, report)]
    with project.reading() as conn:
        acts = _plan(conn, answers, replace, report)
    if acts and not dry_run:
        project.write(lambda conn: verdicts.give_all(conn, acts))
    return report


def _storable(answer: Answer, annotator: str) -> Answer:
    """The answer with a name where it has none, and without lone surrogates, which cannot be stored."""
    return dataclasses.replace(
        answer,
        conversation=without_surrogates(answer.conversation),
        source=None if answer.source is None else without_surrogates(answer.source),
        note=without_surrogates(answer.note),
        annotator=without_surrogates(answer.annotator) or annotator,
        tags=tuple(map(without_surrogates, answer.tags)),
        duplicates=tuple(map(without_surrogates, answer.duplicates)),
    )


def _plan(
    conn: sqlite3.Connection, answers: Sequence[Answer], replace: bool, report: AnswerReport
) -> list[Act]:
    """What to append to the log of verdicts."""
    found: dict[int, list[Answer]] = {}
    for answer in answers:
        if answer.verdict is None and not answer.note and not answer.tags:
            report.count("unanswered", answer.conversation)
            continue
        if answer.verdict is not None:
            report.annotators.update([answer.annotator] if answer.annotator else [])
            if _verdict(answer.verdict) is None:
                report.count("not_understood", f"{answer.conversation}: {answer.verdict[:40]}")
                continue
        place = _place(conn, answer)
        if isinstance(place, int):
            found.setdefault(place, []).append(answer)
        else:
            report.count(place, answer.conversation)
    acts: list[Act] = []
    for key, said in found.items():
        now = verdicts.current(conn, key)
        given = _verdict_acts(conn, key, said, now, replace, report)
        acts += given
        acts += [] if any(act.text for act in given) else _note_act(key, said, now)
        new = {tag for one in said for tag in one.tags} - set(() if now is None else now.tags)
        report.tags += len(new)
        acts += [Act(key, "tag", None, tag, said[0].annotator) for tag in sorted(new)]
    return acts


def _verdict_acts(
    conn: sqlite3.Connection,
    key: int,
    said: Sequence[Answer],
    now: VerdictRow | None,
    replace: bool,
    report: AnswerReport,
) -> list[Act]:
    """The verdicts to append on one conversation, whose state is `now`: one may come into force, others are kept."""
    people = {one.annotator: one for one in said if one.verdict is not None}
    new = {name: verdict for name, one in people.items() if (verdict := _verdict(one.verdict))}
    if not new:
        return []
    known = {one.annotator: one.verdict for one in second_verdicts.opinions_on(conn, key)}
    in_force = None if now is None else now.verdict
    first = next((name for name, one in people.items() if one.in_force), None)
    if first is not None:
        wanted: Verdict | None = new[first]
    else:
        wanted = _most({**known, **new} if in_force is None else new)
    giver = None
    outcome: Outcome
    if wanted is None or wanted not in new.values():
        outcome = "disagreements"
    elif in_force == wanted:
        outcome = "same"
    elif in_force is not None and not replace:
        outcome = "conflicts"
    else:
        outcome = "given" if in_force is None else "replaced"
        giver = first or next(name for name, verdict in new.items() if verdict == wanted)
    report.count(outcome, said[0].conversation)
    owner = None if now is None or in_force is None else now.annotator
    kept = [
        Act(key, "repeat", verdict, annotator=name)
        for name, verdict in new.items()
        if name not in (giver, owner) and known.get(name) != verdict
    ]
    if giver is None:
        return kept
    given = Act(key, "give", new[giver], _note(said), giver)
    again = [
        Act(key, "repeat", verdict, annotator=giver)
        for verdict in map(_verdict, people[giver].repeats)
        if verdict is not None
    ]
    # who decides comes after those who are overruled: see `engine.questions.tables.second_verdicts`
    decided = first is not None and not people[first].disputed
    return [*kept, *again, given] if decided else [given, *again, *kept]


def _note_act(key: int, said: Sequence[Answer], now: VerdictRow | None) -> list[Act]:
    """The notes that the conversation does not have yet, after the one that it has."""
    old = "" if now is None else now.note
    new = [one for one in said if one.note and one.note not in old]
    if not new:
        return []
    text = "; ".join(filter(None, (old, _note(new, named=bool(old)))))
    return [Act(key, "note", None, text, new[0].annotator)]


def _verdict(text: str | None) -> Verdict | None:
    """The verdict that a text names; None if it names none."""
    name = (text or "").strip().lower()
    return Verdict(name) if name in _VERDICTS else None


def _most(by_name: Mapping[str, Verdict]) -> Verdict | None:
    """The verdict that most people gave; None where as many gave another."""
    first, *others = Counter(by_name.values()).most_common()
    return None if others and others[0][1] == first[1] else first[0]


def _place(
    conn: sqlite3.Connection, answer: Answer
) -> int | Literal["changed", "unknown", "ambiguous"]:
    """The conversation that an answer is about, or why there is none."""
    if answer.key is not None:
        exact = conversations.by_text_key(conn, answer.key)
        if exact is not None:
            return exact
    names = (answer.conversation, *answer.duplicates)
    every = (conversations.by_name(conn, name, answer.source) for name in names)
    named = next(filter(None, every), [])
    if not named:
        return "unknown"
    if answer.key is not None:
        return "changed"
    return named[0] if len(named) == 1 else "ambiguous"


def _note(said: Sequence[Answer], *, named: bool = False) -> str:
    """The notes; where several people wrote one, and if `named`, each with the name of the person."""
    written = [one for one in said if one.note]
    named = named or len({one.annotator for one in written}) > 1
    notes = (
        f"{one.annotator}: {one.note}" if named and one.annotator else one.note for one in written
    )
    return "; ".join(dict.fromkeys(notes))


def _read(path: Path, report: AnswerReport) -> Iterator[Answer]:
    """Yields the answers of a file.

    Raises:
        FormatError: As `import_answers`.
    """
    known = 0
    for record in records_of(path):
        found = answers_of(record)
        known += found is not None
        if found is None:
            report.count("not_understood", json.dumps(record)[:40])
        else:
            yield from found
    if not known:
        raise FormatError(
            f"{path} has no answers of Label Studio or Argilla and no exported verdicts.",
            "Export tasks with `workbench export PROJECT conversations --as label-studio`, or `--as argilla`.",
        )
