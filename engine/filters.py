"""The filter language of the list, of triage and of the command line.

A filter is a line of terms that must all hold: `state:incomplete turns>5 -tag:spam "refund please"`.

    word, "some words"      occurs in a message (a word also as the beginning of one)
    field:a,b               is a or b; for a number or a date, equals it or begins with it
    field:3..7              lies in the range, ends included
    field>5  >=  <  <=      compares
    -term                   does not hold
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.errors import WorkbenchError
from engine.records.scores import State
from engine.records.triage import Verdict

Op = Literal[":", "<", "<=", ">", ">="]
Kind = Literal["choice", "text", "number", "date"]

ANY, NONE = "any", "none"
"""Values that ask whether there is anything at all, for verdicts, tags and notes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that can be filtered by.

    Attributes:
        choices: The only values it can have; empty where any will do.
        help: What it is, for completion and documentation.
        example: Terms that say how it is used; empty where those of its kind do.
    """

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    example: str = ""


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("state", "choice", "what the score says", tuple(State)),
        Field("verdict", "choice", "your verdict", (*Verdict, ANY, NONE)),
        Field("p", "number", "normalised probability of the end, 0 to 1", example="p<.3"),
        Field(
            "success",
            "number",
            "probability of success, fitted to your verdicts, 0 to 1",
            example="success<.3",
        ),
        Field("turns", "number", "number of turns"),
        Field("messages", "number", "number of messages"),
        Field("length", "number", "characters of all messages"),
        Field("source", "text", "file it came from (part of the name)"),
        Field("name", "text", "id in its file (part of it)"),
        Field("date", "date", "when it took place, 2026-03 or 2026-03-14"),
        Field(
            "tag",
            "text",
            "your tag, or any or none; rude? is what its probe predicts",
            example="tag:rude, tag:rude? or tag:none",
        ),
        Field("note", "choice", "whether you left a note", (ANY, NONE)),
        Field(
            "draw",
            "number",
            "drawn for each, 0 to 1: draw<.1 is a tenth at random",
            example="draw<.1, draw:0.1..0.2",
        ),
    )
}
TEXT = "text"
"""Field of terms that name none: words of the messages."""

SortKey = Literal[
    "id", "name", "source", "date", "p", "success", "turns", "messages", "length", "verdict", "tag"
]
"""What a list can be ordered by; `id` is the order of import, the others are fields."""

_OPS = re.compile(r"(?P<field>[A-Za-z_]+)(?P<op>:|>=|<=|>|<|=)")
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?$")
_PLAIN = re.compile(r"[^\s\",]+$")


class FilterError(WorkbenchError):
    """A filter that cannot be understood; `at` is where in the text, counted from 0."""

    def __init__(self, message: str, hint: str, at: int) -> None:
        super().__init__(message, hint)
        self.at = at


@dataclass(frozen=True, slots=True)
class Term:
    """One condition.

    Attributes:
        field: A name of `FIELDS`, or `TEXT`.
        values: Alternatives; two numbers or dates under `span`; exactly one under a comparison.
        span: The values are the ends of a range.
        whole: A quoted text, found as a phrase and not as the beginning of a word.
    """

    field: str
    op: Op
    values: tuple[str, ...]
    negated: bool = False
    span: bool = False
    whole: bool = False

    def __str__(self) -> str:
        sign = "-" if self.negated else ""
        if self.field == TEXT:
            return sign + (f'"{self.values[0]}"' if self.whole else self.values[0])
        values = "..".join(self.values) if self.span else ",".join(_quoted(v) for v in self.values)
        return f"{sign}{self.field}{self.op}{values}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; without any it matches everything. `str()` gives text that parses to the same."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def of(self, field: str) -> tuple[Term, ...]:
        """The terms on one field."""
        return tuple(term for term in self.terms if term.field == field)

    def without(self, *fields: str) -> Filter:
        """The filter without the terms on these fields."""
        return Filter(tuple(term for term in self.terms if term.field not in fields))

    def with_choice(self, field: str, value: str | None) -> Filter:
        """The filter with `field:value` in place of its terms on that field; None only takes them out."""
        kept = self.without(field).terms
        return Filter(kept if value is None else (*kept, Term(field, ":", (value,))))


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which conversations, in which order; those without a value come last in either direction."""

    filter: Filter = Filter()
    sort: SortKey = "id"
    descending: bool = False


def parse_filter(text: str) -> Filter:
    """Reads a filter.

    Raises:
        FilterError: With the place in the text and what would be right.
    """
    return Filter(tuple(_term(word) for word in _words(text)))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the line: its text without quotes, where it begins, and which characters were quoted."""

    text: str
    quoted: tuple[bool, ...]
    at: int


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start, inside = at, False
        chars: list[str] = []
        quoted: list[bool] = []
        while at < len(text) and (inside or not text[at].isspace()):
            if text[at] == '"':
                inside = not inside
                opened = at
            else:
                chars.append(text[at])
                quoted.append(inside)
            at += 1
        if inside:
            raise FilterError("A quotation mark is not closed.", 'Add a " at the end.', opened)
        if start + 1 < at or chars:
            words.append(_Word("".join(chars), tuple(quoted), start))
    return words


def _term(word: _Word) -> Term:
    text, quoted, at = word.text, word.quoted, word.at
    negated = text.startswith("-") and len(text) > 1 and not quoted[0]
    if negated:
        text, quoted, at = text[1:], quoted[1:], at + 1
    match = _OPS.match(text)
    if match is None or any(quoted[: match.end()]):
        if not text:
            raise FilterError("Nothing is between the quotation marks.", "Write a word there.", at)
        return Term(TEXT, ":", (text,), negated, whole=any(quoted))
    name = match["field"].lower()
    field = FIELDS.get("p" if name == "p_end" else name)
    if field is None:
        raise FilterError(
            f"There is no field “{match['field']}”.",
            f'Fields are {", ".join(FIELDS)}. To search for the text itself, quote it: "{text}".',
            at,
        )
    op: Op = ":" if match["op"] == "=" else match["op"]  # type: ignore[assignment]
    at += match.end()
    raw = _split(text[match.end() :], quoted[match.end() :])
    if not raw or not all(raw):
        raise FilterError(f"“{field.name}{match['op']}” needs a value.", _expects(field), at)
    if op != ":" and (field.kind in ("choice", "text") or len(raw) != 1):
        raise FilterError(
            f"“{field.name}” cannot be compared so.", _expects(field), at - len(match["op"])
        )
    ends = tuple(raw[0].split("..")) if len(raw) == 1 and op == ":" else ()
    if len(ends) == 2 and all(ends) and field.kind in ("number", "date"):
        return Term(field.name, op, tuple(_value(field, v, at) for v in ends), negated, span=True)
    if field.name == "draw" and op == ":":
        raise FilterError("“draw” is never just that number.", _expects(field), at)
    return Term(field.name, op, tuple(_value(field, v, at) for v in raw), negated)


def _split(text: str, quoted: Sequence[bool]) -> list[str]:
    """The alternatives between commas that are not quoted."""
    parts, start = [], 0
    for index, char in enumerate(text):
        if char == "," and not quoted[index]:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _value(field: Field, value: str, at: int) -> str:
    wrong = FilterError(f"“{value}” is no value of “{field.name}”.", _expects(field), at)
    if field.kind == "choice":
        if value.lower() not in field.choices:
            raise wrong
        return value.lower()
    if field.kind == "number":
        try:
            if not float(value) >= 0:
                raise wrong
        except ValueError:
            raise wrong from None
    if field.kind == "date" and not _DATE.match(value):
        raise wrong
    return value


def _expects(field: Field) -> str:
    if field.example:
        return f"Like {field.example}."
    example = {
        "number": f"Like {field.name}>5, {field.name}:3..7",
        "date": "Like date:2026-03, date>=2026-03-14",
        "text": f"Like {field.name}:web, or quoted when it has spaces",
        "choice": f"One of {', '.join(field.choices)}",
    }
    return example[field.kind] + "."


def _quoted(value: str) -> str:
    plain = _PLAIN.match(value) and not value.startswith("-") and not _OPS.match(value)
    return value if plain else f'"{value}"'


@dataclass(frozen=True, slots=True)
class Completion:
    """A replacement for the text from `start` to the cursor; `help` explains it."""

    start: int
    text: str
    help: str


def completions(text: str, cursor: int, known: Mapping[str, Sequence[str]]) -> list[Completion]:
    """Completions at the cursor: field names, or values of the field that is being written.

    Args:
        known: Values that occur in the project, by field (sources, tags).
    """
    before = text[:cursor]
    if before.count('"') % 2:
        return []
    start = max(before.rfind(" "), before.rfind("\t")) + 1
    if before[start:].startswith("-"):
        start += 1
    word = before[start:]
    match = _OPS.match(word)
    if match is None:
        found = [
            Completion(start, f"{f.name}{'' if f.kind == 'number' else ':'}", f.help)
            for f in FIELDS.values()
        ]
    else:
        field = FIELDS.get(match["field"].lower())
        if field is None:
            return []
        start += max(match.end(), word.rfind(",") + 1)
        values = [*field.choices, *known.get(field.name, ())]
        if field.name == "tag":
            values += [f"{name}?" for name in known.get("tag", ())] + [ANY, NONE]
        found = [Completion(start, _quoted(value), field.help) for value in values]
    typed = before[start:].lower()
    return [c for c in found if c.text.lower().startswith(typed) and c.text.lower() != typed]
