"""Scores that came by file: of a judge elsewhere, a rating, another tool. They become a set of scores like others."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from engine.base import folders
from engine.base.conversation import render_log, without_surrogates
from engine.base.errors import FormatError, NameTaken, UsageError
from engine.base.number_format import counted
from engine.completeness.boundaries import boundaries, no_boundary_reason
from engine.completeness.records import CurvePoint
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.tables import conversations
from engine.project import runs
from engine.project.idset import IdSet
from engine.project.project import Project
from engine.project.sql import id_pages

Outcome = Literal[
    "taken",
    "empty",
    "unknown",
    "ambiguous",
    "not_understood",
    "outside_range",
    "repeated",
    "no_end",
]
"""What became of a line of the file; the words of each are those of `_OUTCOME_WORDS`."""

_OUTCOME_WORDS: Mapping[Outcome, tuple[str, str]] = {
    "taken": ("score was taken", "scores were taken"),
    "empty": ("line has no score", "lines have no score"),
    "unknown": ("id is not in this project", "ids are not in this project"),
    "ambiguous": ("id is that of several conversations here", "ids are those of several conversations here"),
    "not_understood": ("score was not understood", "scores were not understood"),
    "outside_range": ("score is outside the range", "scores are outside the range"),
    "repeated": ("id came again; its first score counts", "ids came again; their first scores count"),
    "no_end": (
        "conversation has no text or no step of the assistant and cannot be scored",
        "conversations have no text or no step of the assistant and cannot be scored",
    ),
}  # fmt: skip
"""How a sentence about lines goes on behind their number: for one, and for several."""

_GAPS: tuple[Outcome, ...] = (
    *("unknown", "ambiguous", "not_understood", "outside_range", "repeated", "no_end"),
)
"""What becomes of lines that have a score which was not taken."""

MAX_EXAMPLES = 3
"""Number of ids that are shown for each kind of gap."""

MAX_VALUE_CHARACTERS = 40
"""Longest value that was not understood, in characters, of which more is cut off."""

MAX_FIELDS_SHOWN = 12
"""Number of fields of the file that an error names."""

DIALECT_SAMPLE_CHARACTERS = 4096
"""Number of first characters of a CSV file by which its separator is guessed."""

_END_BY_WORD = {
    **dict.fromkeys(
        ("complete", "completed", "ended", "true", "yes", "pass", "passed", "success"), 1.0
    ),
    **dict.fromkeys(
        ("incomplete", "broken off", "broken-off", "false", "no", "fail", "failed", "failure"), 0.0
    ),
}
"""Words that stand for the ends of the range, as probabilities of completeness; compared in lower case."""

IDS = ("id", "conversation", "conversation_id")
"""Usual names of the field of ids."""

SCORES = (
    *("score", "p_end_normalised", "p", "rating", "value", "label", "verdict", "state", "passed"),
)
"""Usual names of the field of scores."""


@dataclass(slots=True)
class OutsideReport:
    """What an import of outside scores did, or would do.

    Attributes:
        set_name: Name of the set of scores.
        fields: The fields of the file that hold the ids and the scores.
        outcomes: Number of lines by what became of them.
        without: Number of conversations of the project that have no score in the set.
        in_force: Whether the set is in force now.
        examples: Some ids for each kind of gap.
    """

    set_name: str
    fields: tuple[str, str] = ("", "")
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    without: int = 0
    in_force: bool = False
    examples: dict[Outcome, list[str]] = field(default_factory=dict)

    @property
    def has_gaps(self) -> bool:
        """Whether some line was not taken though it has a score."""
        return any(self.outcomes[outcome] for outcome in _GAPS)

    def count(self, outcome: Outcome, name: str) -> None:
        """Counts what became of a line, with its id as an example of a gap."""
        self.outcomes[outcome] += 1
        if outcome in _GAPS and len(ids := self.examples.setdefault(outcome, [])) < MAX_EXAMPLES:
            ids.append(name)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return {
            "set": self.set_name,
            "fields": list(self.fields),
            **{name: self.outcomes[name] for name in get_args(Outcome)},
            "without": self.without,
            "in_force": self.in_force,
            "examples": self.examples,
        }

    def sentences(self) -> list[str]:
        """Returns the report in sentences, that about the fields first."""
        id_field, score_field = self.fields
        sentences = [f"Ids are in the field {id_field!r}, scores in {score_field!r}."]
        for outcome, (singular, plural) in _OUTCOME_WORDS.items():
            if count := self.outcomes[outcome]:
                ids = f" ({', '.join(self.examples[outcome])})" if outcome in self.examples else ""
                sentences.append(f"{count:,} {singular if count == 1 else plural}{ids}.")
        if self.without:
            sentences.append(
                f"{counted(self.without, 'conversation')} of the project without a score in this set."
            )
        if self.in_force:
            sentences.append(
                f"The set {self.set_name!r} is in force, because there are no other scores."
            )
        elif self.outcomes["taken"]:
            sentences.append("`workbench scores PROJECT --use N` puts the set in force.")
        return sentences


def import_scores(
    project: Project,
    path: Path,
    *,
    name: str = "",
    id_field: str = "",
    score_field: str = "",
    ends: tuple[float, float] = (0.0, 1.0),
    replace: bool = False,
    dry_run: bool = False,
) -> OutsideReport:
    """Makes a set of scores from a file of JSON Lines, JSON or CSV, one conversation a line.

    A score counts as the probability that the conversation is complete.

    Args:
        name: Name of the set; empty takes that of the file.
        id_field, score_field: Fields of the file; empty looks for usual names.
        ends: What stands for 0 and for 1 in the file, e.g. (1, 5) for stars and (5, 1) where less is better.
        replace: Replaces a set of this name.

    Raises:
        FormatError: The file cannot be read, or has no such fields.
        UsageError: There is a set of this name, or both ends are the same.
    """
    report = OutsideReport(" ".join(name.split()) or path.stem)
    if ends[0] == ends[1] or not all(map(math.isfinite, ends)):
        raise UsageError("A range needs two different numbers.", "Stars from 1 to 5: --range 1 5.")
    config_hash = hashlib.sha256(f"outside\n{report.set_name}".encode()).hexdigest()
    lines = list(_lines(path))
    report.fields = _fields(lines, id_field, score_field, path)
    with project.reading() as conn:
        if score_sets.is_stored(conn, config_hash) and not replace:
            raise NameTaken(
                f"There is a set of outside scores with the name {report.set_name!r}.",
                "Choose another with --name, or replace that set with --replace.",
            )
        values = _values(conn, lines, report, ends)
        entries = list(_entries(conn, values, report))
        conversation_count = len(IdSet.every(conn))
    taken_count = sum(bool(entry.curve) for entry in entries)
    report.outcomes["taken"] = taken_count
    report.without = conversation_count - taken_count
    if not taken_count or dry_run:
        return report

    def store(conn: sqlite3.Connection) -> None:
        """Stores the set with a run of its own, and says in the report whether it is in force."""
        score_sets.drop(conn, config_hash)
        run_id = runs.create(
            conn,
            stage="scores import",
            config_hash=config_hash,
            params={
                "file": path.name,
                "name": report.set_name,
                "fields": list(report.fields),
                "range": list(ends),
            },
            fingerprints={},
            code_version=folders.version(),
        )
        score_sets.register(conn, ScoreConfig(config_hash, "outside", report.set_name))
        scores.add(conn, config_hash, run_id, entries)
        runs.count(conn, run_id, len(entries), len(entries))
        runs.finish(conn, run_id, "done", report.sentences()[1])
        score_sets.put_in_force_if_due(conn, config_hash)
        config = score_sets.config_in_force(conn)
        report.in_force = config is not None and config.config_hash == config_hash

    project.write(store)
    return report


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the lines of a file, field -> value: of JSON Lines or JSON if it begins like them, else of CSV.

    Raises:
        FormatError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(
            f"{path} cannot be read: {error}.", "Choose a file of JSON Lines, JSON or CSV."
        ) from error
    if text.lstrip()[:1] in ("{", "["):
        try:
            try:  # the whole file is one document, or each line is one
                document = json.loads(text)
            except json.JSONDecodeError:
                document = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (json.JSONDecodeError, RecursionError) as error:
            raise FormatError(
                f"{path} is neither JSON nor JSON Lines: {error}.", "Choose another file."
            ) from error
        rows = document if isinstance(document, list) else [document]
        yield from (row for row in rows if isinstance(row, dict))
        return
    sample = text[:DIALECT_SAMPLE_CHARACTERS]
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(sample, delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    yield from csv.DictReader(text.splitlines(), dialect=dialect)


def _fields(
    lines: Iterable[Mapping[str, Any]], id_field: str, score_field: str, path: Path
) -> tuple[str, str]:
    """Returns the fields of ids and scores.

    Raises:
        FormatError: No line has them.
    """
    field_names = dict.fromkeys(str(key) for line in lines for key in line)
    chosen = []
    for what, option, chosen_name, usual in (
        ("ids", "--id", id_field, IDS),
        ("scores", "--score", score_field, SCORES),
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


def _values(
    conn: sqlite3.Connection,
    lines: Iterable[Mapping[str, Any]],
    report: OutsideReport,
    ends: tuple[float, float],
) -> dict[int, float]:
    """Returns the score of each conversation that a line names, from 0 to 1, by id; counts in the report the lines that
    give none."""
    score_by_id: dict[int, float] = {}
    id_field, score_field = report.fields
    for line in lines:
        name = without_surrogates(str(line.get(id_field) or ""))
        value_text = line.get(score_field)
        if value_text is None or value_text == "":
            report.count("empty", name)
            continue
        value = _number(value_text, ends)
        if value is None:
            report.count("not_understood", f"{name}: {str(value_text)[:MAX_VALUE_CHARACTERS]}")
            continue
        if not 0 <= value <= 1:
            report.count("outside_range", f"{name}: {value_text}")
            continue
        ids = conversations.by_name(conn, name)
        if len(ids) != 1:
            report.count("ambiguous" if ids else "unknown", name)
        elif ids[0] in score_by_id:
            report.count("repeated", name)
        else:
            score_by_id[ids[0]] = value
    return score_by_id


def _number(value: Any, ends: tuple[float, float]) -> float | None:
    """Returns a score between the ends as a number from 0 to 1; None if it is neither a number nor a word for an
    end."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in _END_BY_WORD:
        return _END_BY_WORD[value.strip().lower()]
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    at_0, at_1 = ends
    return (value - at_0) / (at_1 - at_0) if math.isfinite(value) else None


def _entries(
    conn: sqlite3.Connection, values: Mapping[int, float], report: OutsideReport
) -> Iterator[ScoreEntry]:
    """Yields the scores, each at the last place where its conversation could end, or why it has none."""
    for page in id_pages(conn, sorted(values)):
        for key, messages in conversations.conversations_for(conn, page):
            pieces = render_log(messages)
            ends = boundaries(pieces)
            if not ends:
                report.count("no_end", str(key))
                yield ScoreEntry(key, (), no_boundary_reason(pieces), tokens=0)
                continue
            p_end = values[key]
            point = CurvePoint.at_piece(pieces[ends[-1]], p_end, 1 - p_end)
            yield ScoreEntry(key, (point,), None, tokens=0)
