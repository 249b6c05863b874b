"""The filter language of the list, of triage and of the command line.

A filter is a line of terms that must all hold: `state:incomplete turns>5 -tag:spam "refund please"`.

    word, "some words"      occurs in a message (a word also as the beginning of one), with its signs
    field:a,b               is a or b; for a number or a date, equals it or begins with it
    field:3..7              lies in the range, ends included
    field>5  >=  <  <=      compares
    -term                   does not hold
    meta.KEY:a, truth.KEY>5 the same for any field of the metadata or the truth
    has:field               short for field:any; since: and until: are short for date>= and date<=

docs/filters.md explains it to users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from engine.base.conversation import without_surrogates
from engine.base.errors import FilterError
from engine.base.request_options import Option
from engine.conversations.filter_fields import (
    ANY,
    DOTTED,
    FIELDS,
    NONE,
    NOVEL,
    TEXT,
    Field,
    SortKey,
)

Op = Literal[":", "<", "<=", ">", ">="]

_OPS = re.compile(r"(?P<field>[A-Za-z_]+)(?P<op>:|>=|<=|>|<|=)")
_OP = re.compile(r":|>=|<=|>|<|=")
_DOTTED = re.compile(rf"({'|'.join(DOTTED)})\.", re.IGNORECASE)
_SHORT: Mapping[str, Op] = {"since": ">=", "until": "<="}
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?$")
_PLAIN = re.compile(r"[^\s\",]+$")
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_PLAIN_KEY = re.compile(r"[^\s:<>=\",]+$")


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
        return f"{sign}{_quoted_field(self.field)}{self.op}{values}"

    @property
    def key(self) -> str:
        """Of a term on the metadata or the truth, the name of the field there; else empty."""
        return self.field.partition(".")[2]


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
    for at, (letter, stored) in enumerate(zip(text, without_surrogates(text), strict=True)):
        if letter != stored:
            raise FilterError(
                "This letter is not in the encoding of the terminal.",
                "Use UTF-8, for instance with LC_ALL=C.UTF-8.",
                at,
            )
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
    negated = text.startswith("-") and not quoted[0]
    if negated:
        text, quoted, at = text[1:], quoted[1:], at + 1
        if not text or (text.startswith("-") and not quoted[0]):
            raise FilterError(
                "A - stands before the term that does not hold, without a space.",
                f'Like -tag:spam. To search for the text itself, quote it: "-{text}".',
                at - 1,
            )
    head = _head(text, quoted)
    if head is None:
        if not text.replace("\0", " ").strip():
            raise FilterError("Nothing is between the quotation marks.", "Write a word there.", at)
        return Term(TEXT, ":", (text,), negated, whole=any(quoted))
    written, sign, end = head
    field, name = _field(written, text, at)
    op: Op = ":" if sign == "=" else sign  # type: ignore[assignment]
    at += end
    raw = _split(text[end:], quoted[end:])
    if not raw or not all(raw):
        raise FilterError(f"“{name}{sign}” needs a value.", _expects(field), at)
    short = field.name in ("has", *_SHORT)
    no_comparison = field.kind in ("choice", "text") or short
    if (op != ":" and (no_comparison or len(raw) != 1)) or (short and len(raw) != 1):
        raise FilterError(f"“{name}” cannot be compared so.", _expects(field), at - len(sign))
    if field.name == "has":
        return _has(raw[0], at, negated)
    if field.name in _SHORT:
        return Term("date", _SHORT[field.name], (_value(field, raw[0], at),), negated)
    ends = tuple(raw[0].split("..")) if len(raw) == 1 and op == ":" else ()
    is_literal = field.kind == "anything" and any(quoted[end:])
    if len(ends) == 2 and all(ends) and _has_ranges(field, ends) and not is_literal:
        return Term(name, op, tuple(_value(field, v, at) for v in ends), negated, span=True)
    if field.name == "draw" and op == ":":
        raise FilterError("“draw” is never just that number.", _expects(field), at)
    return Term(name, op, tuple(_value(field, v, at) for v in raw), negated)


def _head(text: str, quoted: Sequence[bool]) -> tuple[str, str, int] | None:
    """(field as written, sign, where the values begin); None for words to search for."""
    dotted = _DOTTED.match(text)
    if dotted is not None and not any(quoted[: dotted.end()]):
        for sign in _OP.finditer(text, dotted.end()):
            if not any(quoted[sign.start() : sign.end()]):
                return text[: sign.start()], sign[0], sign.end()
        return None
    match = _OPS.match(text)
    if match is None or any(quoted[: match.end()]):
        return None
    return match["field"], match["op"], match.end()


def _field(written: str, text: str, at: int) -> tuple[Field, str]:
    """The field of a name, and the name in the form of `Term.field`."""
    name, dot, key = written.partition(".")
    name = name.lower()
    field = FIELDS.get("p" if name == "p_end" else name)
    if field is None:
        near = get_close_matches(name, FIELDS, 3)
        raise FilterError(
            f"There is no field “{written}”.",
            (f"Do you mean {' or '.join(near)}? " if near else "")
            + f'Fields are {", ".join(FIELDS)}. To search for the text itself, quote it: "{text}".',
            at,
        )
    if field.name in DOTTED:
        if not key:
            raise FilterError(f"“{field.name}” needs the name of a field.", _expects(field), at)
        return field, f"{field.name}{dot}{key}"
    return field, field.name


def _has(name: str, at: int, negated: bool) -> Term:
    """`has:tag` is `tag:any`."""
    field, name = _field(name, name, at)
    if not field.optional:
        raise FilterError(f"Every conversation has “{name}”, or it is no field to ask for.",
                          _expects(FIELDS["has"]), at)  # fmt: skip
    return Term(name, ":", (ANY,), negated)


def _has_ranges(field: Field, ends: Sequence[str]) -> bool:
    if field.kind == "anything":
        return all(map(is_number, ends)) or all(map(_DATE.match, ends))
    return field.kind in ("number", "date")


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    return _NUMBER.fullmatch(text) is not None


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
            if not float(value) >= field.least:
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
        "date": f"Like {field.name}:2026-03, {field.name}{'>=' if field.name == 'date' else ':'}2026-03-14",
        "text": f"Like {field.name}:web, or quoted when it has spaces",
        "choice": f"One of {', '.join(field.choices)}",
    }
    return example[field.kind] + "."


def _quoted(value: str) -> str:
    plain = _PLAIN.match(value) and not value.startswith("-") and not _OPS.match(value)
    return value if (plain and ".." not in value) or is_number(value) else f'"{value}"'


def _quoted_field(name: str) -> str:
    before, dot, key = name.partition(".")
    return f"{before}{dot}{key if _PLAIN_KEY.match(key) else _wrapped(key)}" if dot else name


def _wrapped(text: str) -> str:
    return f'"{text}"'


Known = Mapping[str, Sequence[tuple[str, int | None]]]
"""Values that occur, by field, each with the number of conversations, None if it was not counted. Those of `meta` and
`truth` are the keys."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A replacement for the text from `start` to the cursor; `help` explains it.

    Attributes:
        goes_on: Whether the term is not at its end with it.
        count: Number of conversations with this value; None where it is not known.
    """

    start: int
    text: str
    help: str
    goes_on: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The term that is being written.

    Attributes:
        field: Its field as `Term.field`, or `meta` or `truth` while the key is written; None while it is a word.
        start: Where the text begins that a completion replaces.
        typed: That text, without quotation marks.
        rest: The other terms; without the ones that cannot be understood.
    """

    field: str | None
    start: int
    typed: str
    rest: Filter


def unfinished(text: str, cursor: int) -> Unfinished | None:
    """What is being written at the cursor; None inside quoted words, and where the field is not known."""
    start, inside = 0, False
    for at, char in enumerate(text[:cursor]):
        if char == '"':
            inside = not inside
        elif char.isspace() and not inside:
            start = at + 1
    end = next((at for at in range(cursor, len(text)) if text[at].isspace()), len(text))
    rest = _understood(f"{text[:start]} {'' if inside else text[end:]}")
    if text[start:cursor].startswith("-"):
        start += 1
    places = [at for at in range(start, cursor) if text[at] != '"']
    chars = "".join(text[at] for at in places)
    quoted = [text[start:at].count('"') % 2 == 1 for at in places]
    head = _head(chars, quoted)
    if head is None:
        if '"' in text[start:cursor]:
            return None
        dotted = _DOTTED.match(chars)
        return Unfinished(dotted[1].lower() if dotted else None, start, chars, rest)
    try:
        _, name = _field(head[0], chars, start)
    except FilterError:
        return None
    value = head[2]
    for index in range(value, len(chars)):
        if chars[index] == "," and not quoted[index]:
            value = index + 1
    last = places[value - 1] + 1
    return Unfinished(name, last, chars[value:], rest)


def _understood(text: str) -> Filter:
    """The terms of a line that can be read."""
    try:
        words = _words(text)
    except FilterError:
        return Filter()
    terms = []
    for word in words:
        try:
            terms.append(_term(word))
        except FilterError:
            continue
    return Filter(tuple(terms))


def completions(text: str, cursor: int, known: Known) -> list[Completion]:
    """Completions at the cursor: field names, or values of the field that is being written.

    Args:
        known: Values that occur in the project.
    """
    wanted = unfinished(text, cursor)
    if wanted is None:
        return []
    start, typed = wanted.start, wanted.typed.lower()
    if wanted.field is None:
        found = [
            Completion(start, _begun(field), field.help, goes_on=True) for field in FIELDS.values()
        ]
        return [c for c in found if c.text.startswith(typed) and c.text != typed]
    name = wanted.field
    field = FIELDS[name.partition(".")[0]]
    if name in DOTTED:
        keys = [(f"{name}.{key}", count) for key, count in known.get(name, ())]
        return [
            Completion(start, f"{_quoted_field(key)}:", field.help, goes_on=True, count=count)
            for key, count in keys
            if key.lower().startswith(typed)
        ]
    counts = dict(known.get(name, ()))
    values = [*field.choices, *(value for value in counts if value not in field.choices)]
    if name == "tag":
        values += [f"{tag}?" for tag in counts]
    if name == "goal":
        values.append(NOVEL)
    if name == "has":
        values = [one.name for one in FIELDS.values() if one.optional and one.name not in DOTTED]
    if field.optional and not field.choices:
        values += [ANY, NONE]
    return [
        Completion(start, _quoted(value), field.help, count=counts.get(value))
        for value in dict.fromkeys(values)
        if _begins(value.lower(), typed) and value.lower() != typed
    ]


def _begun(field: Field) -> str:
    if field.name in DOTTED:
        return f"{field.name}."
    return field.name if field.kind == "number" else f"{field.name}:"


def _begins(value: str, typed: str) -> bool:
    """Whether a word of the value begins with what was typed."""
    return value.startswith(typed) or f" {typed}" in value


FILTER = Option(
    "only conversations that match, like 'state:incomplete turns>5 \"refund\"'",
    metavar="F",
    convert=parse_filter,
)
"""How a request asks which conversations it is about."""
