"""The filter language of the list, of triage and of the command line.

A filter is a line of terms that must all hold: `state:broken-off turns>5 -tag:spam "refund please"`.

    word, "some words"      occurs in a message (a word also as the beginning of one), with its punctuation
    field:a,b               is a or b; a number equals one of them, a date begins with one
    field:3..7              lies in the range, ends included
    field>5  >=  <  <=      compares
    -term                   does not hold
    meta.KEY:a, truth.KEY>5 the same for any field of the metadata or the truth
    question:yes            the answer to a question; question@name:yes that of somebody
    since: and until:       short for date>= and date<=

docs/filters.md explains it to users.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NamedTuple

from engine.base.conversation import without_surrogates
from engine.base.errors import FilterError
from engine.base.request_options import Option
from engine.conversations.filter_fields import (
    ANY_VALUE,
    FIELDS,
    FIELDS_WITH_KEYS,
    NO_VALUE,
    QUESTION_FIELD,
    WORD_FIELD,
    Field,
    SortKey,
)

# Filters and their terms

Op = Literal[":", "<", "<=", ">", ">="]
"""Sign between the field and the values of a term; `=` is read as `:`."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter. `str()` gives text that parses to the same term.

    Attributes:
        field: The name of a field in `FIELDS`, with its key where it has one (`meta.channel`); or `WORD_FIELD`.
        op: The sign between field and values; `:` also for what was written with `=`, and for words.
        values: Alternatives under `:`; the two ends of a range under `span`; exactly one value under a comparison.
        negated: Whether the term is to match the conversations for which its condition does not hold.
        span: Whether `values` are the two ends of a range of numbers or dates.
        whole: Whether the text was quoted, so that it is found as a phrase and not as the beginning of a word.
    """

    field: str
    op: Op
    values: tuple[str, ...]
    negated: bool = False
    span: bool = False
    whole: bool = False

    def __str__(self) -> str:
        sign = "-" if self.negated else ""
        if self.field == WORD_FIELD:
            return sign + (f'"{self.values[0]}"' if self.whole else self.values[0])
        field, name = FIELDS[self.field.partition(".")[0]], quote_key(self.field)
        if field.name == QUESTION_FIELD and is_question(self.key):
            name = self.key  # `question.rude` is written `rude:yes`
        values = (
            "..".join(self.values)
            if self.span
            else ",".join(quote_value(field.written(value)) for value in self.values)
        )
        return f"{sign}{name}{self.op}{values}"

    @property
    def key(self) -> str:
        """The name after the dot in a term on the metadata, the truth or a question; empty for other terms."""
        return self.field.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; no terms match everything. `str()` gives text that parses to the same filter."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def of(self, field: str) -> tuple[Term, ...]:
        """Returns the terms on one field, in their order."""
        return tuple(term for term in self.terms if term.field == field)

    def without(self, *fields: str) -> Filter:
        """Returns the filter without the terms on these fields."""
        return Filter(tuple(term for term in self.terms if term.field not in fields))

    def with_choice(self, field: str, value: str | None) -> Filter:
        """Returns the filter with `field:value` in place of its terms on that field; None only takes those out."""
        choice = () if value is None else (Term(field, ":", (value,)),)
        return Filter((*self.without(field).terms, *choice))


NO_FILTER = Filter()
"""Selects all conversations."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Says which conversations a list shows, and in which order.

    Attributes:
        filter: Selects the conversations.
        sort: What they are ordered by; conversations without a value of it come last in either direction.
        descending: Whether the largest value comes first.
    """

    filter: Filter = NO_FILTER
    sort: SortKey = "id"
    descending: bool = False


# Reading a filter


def parse_filter(text: str) -> Filter:
    """Returns the filter that a text stands for.

    Raises:
        FilterError: The text is no filter. The error has the position of the mistake and says what would be right.
    """
    for position, (letter, stored) in enumerate(zip(text, without_surrogates(text), strict=True)):
        if letter != stored:
            raise FilterError(
                "This letter is not in the encoding of the terminal.",
                "Use UTF-8, for instance with LC_ALL=C.UTF-8.",
                position,
            )
    return Filter(tuple(_parse_term(word) for word in _split_words(text)))


@dataclass(frozen=True, slots=True)
class _Word:
    """A part of a filter between spaces, which is to become a term.

    Attributes:
        text: Its text without quotation marks.
        quoted: Whether each character of `text` was between quotation marks.
        start: Position of its first character, perhaps a quotation mark, in the filter.
    """

    text: str
    quoted: tuple[bool, ...]
    start: int


def _split_words(text: str) -> list[_Word]:
    """Returns the parts of a filter between spaces that are not quoted.

    Raises:
        FilterError: A quotation mark is not closed.
    """
    words: list[_Word] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        start, inside, last_mark = position, False, position
        chars: list[str] = []
        quoted: list[bool] = []
        while position < len(text) and (inside or not text[position].isspace()):
            if text[position] == '"':
                inside = not inside
                last_mark = position
            else:
                chars.append(text[position])
                quoted.append(inside)
            position += 1
        if inside:
            raise FilterError("A quotation mark is not closed.", 'Add a " at the end.', last_mark)
        words.append(_Word("".join(chars), tuple(quoted), start))  # `""` is an empty word
    return words


def _parse_term(word: _Word) -> Term:
    """Returns the term that a word stands for.

    Raises:
        FilterError: The word is no term.
    """
    text, quoted, start = word.text, word.quoted, word.start
    negated = text.startswith("-") and not quoted[0]
    if negated:
        text, quoted, start = text[1:], quoted[1:], start + 1
        if not text or (text.startswith("-") and not quoted[0]):
            raise FilterError(
                "A - stands before the term that does not hold, without a space.",
                f'Like -tag:spam. To search for the text itself, quote it: "-{text}".',
                start - 1,
            )
    head = split_field_and_sign(text, quoted)
    if head is None and (before := _BEFORE_ANSWERER.match(text)) and not quoted[0]:
        raise FilterError(
            "Behind an @ stands who answered: letters and digits, with hyphens between words.",
            f"{before[0]}ana-b:yes stands for the answers of “Ana B”. To search for the text itself, quote it.",
            start + before.end(),
        )
    if head is None:
        # a search takes NUL for a space, because SQLite would end the text there
        if not text.replace("\0", " ").strip():
            raise FilterError(
                "Nothing is between the quotation marks.", "Write a word there.", start
            )
        return Term(WORD_FIELD, ":", (text,), negated, whole=any(quoted))
    field, name = find_field(head.field, text, start)
    values_start = start + head.end
    values = _split_values(text[head.end :], quoted[head.end :])
    if not values or not all(values):
        raise FilterError(
            f"“{head.field}{head.sign}” needs a value.", usage_hint(field), values_start
        )
    return _term_on_field(
        field,
        name,
        head.sign,
        values,
        any_quoted=any(quoted[head.end :]),
        negated=negated,
        values_start=values_start,
    )


def _term_on_field(
    field: Field,
    name: str,
    sign: str,
    values: Sequence[str],
    *,
    any_quoted: bool,
    negated: bool,
    values_start: int,
) -> Term:
    """Returns the term on a field with some values.

    Args:
        name: Name of the field, in the form of `Term.field`.
        sign: The sign after it, as it was written.
        values: The alternatives between commas; at least one, and none empty.
        any_quoted: Whether a part of the values was quoted.
        values_start: Position of the values in the filter.

    Raises:
        FilterError: The field cannot be compared so, or cannot have such a value.
    """
    op: Op = ":" if sign == "=" else sign  # type: ignore[assignment]
    has_sign_of_order = op != ":"
    is_alias = field.name in _DATE_ALIASES
    has_order = field.kind not in ("choice", "text") and not is_alias
    compares = has_sign_of_order or is_alias
    if (has_sign_of_order and not has_order) or (compares and len(values) != 1):
        raise FilterError(
            f"“{name}” cannot be compared so.", usage_hint(field), values_start - len(sign)
        )
    ends = () if compares else _range_ends(field, values, any_quoted)
    # `draw` is a random number from 0 to 1: no conversation has exactly the one that is asked for
    if field.name == "draw" and not compares and not ends:
        raise FilterError("“draw” is never just that number.", usage_hint(field), values_start)
    checked_values = tuple(_check_value(field, value, values_start) for value in ends or values)
    if is_alias:
        return Term("date", _DATE_ALIASES[field.name], checked_values, negated)
    return Term(name, op, checked_values, negated, span=bool(ends))


_FIELD_AND_SIGN = re.compile(
    r"(?P<field>[A-Za-z_]\w*(-\w+)*(@\w+([-.]\w+)*)?)(?P<op>:|>=|<=|>|<|=)"
)
"""Matches the name of a field, or of a question with who answered it, and the sign after it: `turns>`, `rude@ana:`."""

_BEFORE_ANSWERER = re.compile(r"[A-Za-z_]\w*(-\w+)*@(?=[^@]*[:<>=])")
"""Matches the name of a question before who answered it, whatever that is."""

_SIGN = re.compile(r":|>=|<=|>|<|=")
"""Finds the sign after a key."""

FIELD_WITH_KEY = re.compile(rf"({'|'.join(FIELDS_WITH_KEYS)})\.", re.IGNORECASE)
"""Matches the beginning of a term on a field with a key, as in `meta.channel:web`."""


class FieldAndSign(NamedTuple):
    """The beginning of a term before its values.

    Attributes:
        field: Name of the field as it was written, perhaps with a key.
        sign: The sign after it.
        end: Number of characters before the values.
    """

    field: str
    sign: str
    end: int


def split_field_and_sign(text: str, quoted: Sequence[bool]) -> FieldAndSign | None:
    """Returns the field and the sign at the beginning of a term; None where the term is words to search for.

    Args:
        text: The term without quotation marks and without the sign of negation.
        quoted: Whether each character of it was quoted.
    """
    with_key = FIELD_WITH_KEY.match(text)
    if with_key is not None and not any(quoted[: with_key.end()]):
        for sign in _SIGN.finditer(text, with_key.end()):
            if not any(quoted[sign.start() : sign.end()]):
                return FieldAndSign(text[: sign.start()], sign[0], sign.end())
        return None
    match = _FIELD_AND_SIGN.match(text)
    if match is None or any(quoted[: match.end()]):
        return None
    return FieldAndSign(match["field"], match["op"], match.end())


def _split_values(text: str, quoted: Sequence[bool]) -> list[str]:
    """Returns the alternatives between commas that are not quoted."""
    alternatives, value_start = [], 0
    for index, char in enumerate(text):
        if char == "," and not quoted[index]:
            alternatives.append(text[value_start:index])
            value_start = index + 1
    return [*alternatives, text[value_start:]]


FILTER = Option(
    "only conversations that match, like 'state:broken-off turns>5 \"refund\"'",
    metavar="F",
    convert=parse_filter,
)
"""The option by which a request says which conversations it is about."""


# The field of a term

SIMILAR = 0.76
"""Similarity (`difflib`) to the name of a field from which an unknown name counts as that name misspelled, and not as a
question."""


def find_field(written: str, text: str, term_start: int) -> tuple[Field, str]:
    """Returns the field with a name, and the name in the form of `Term.field`.

    Args:
        written: The name as it was written.
        text: The whole term, for the hint of the error.
        term_start: Position of the term in the filter.

    Raises:
        FilterError: There is no such field, or the key that it needs is missing.
    """
    name, dot, key = written.partition(".")
    name = name.lower()
    if is_question(written.lower()):
        return FIELDS[QUESTION_FIELD], f"{QUESTION_FIELD}.{written.lower()}"
    field = FIELDS.get(name)
    if field is None:
        similar_names = get_close_matches(name, FIELDS, 3)
        raise FilterError(
            f"There is no field “{written}”.",
            (f"Do you mean {' or '.join(similar_names)}? " if similar_names else "")
            + f'Fields are {", ".join(FIELDS)}. To search for the text itself, quote it: "{text}".',
            term_start,
        )
    if field.name in FIELDS_WITH_KEYS:
        if not key:
            raise FilterError(
                f"“{field.name}” needs the name of a field.", usage_hint(field), term_start
            )
        return field, f"{field.name}{dot}{key}"
    return field, field.name


def is_question(name: str) -> bool:
    """Returns whether a name before a sign is that of a question, with or without who answered: any name with `@`, and
    else one that is not that of a field, nor like one."""
    head = _FIELD_AND_SIGN.fullmatch(f"{name}:")
    return head is not None and (
        "@" in name or not (name in FIELDS or get_close_matches(name, FIELDS, 1, SIMILAR))
    )


def usage_hint(field: Field) -> str:
    """Returns the sentence that shows how a field is used, for errors."""
    if field.example:
        return f"Like {field.example}."
    example = {
        "number": f"Like {field.name}>5, {field.name}:3..7",
        "date": f"Like {field.name}:2026-03, {field.name}:2026-W11 (a week),"
        f" {field.name}{'>=' if field.name == 'date' else ':'}2026-03-14",
        "text": f"Like {field.name}:web, or quoted when it has spaces",
        "choice": f"One of {', '.join(map(field.written, field.choices))}",
    }
    return example[field.kind] + "."


# The values of a term


_DATE_ALIASES: Mapping[str, Op] = {"since": ">=", "until": "<="}
"""Fields that stand for a comparison of `date`, with its sign."""

_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?|-W\d{2})?$", re.ASCII)
"""Matches a year, a month, a day or a week."""

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
"""Matches a finite number: `5`, `-.5`, `1.5e-3`."""


def _range_ends(field: Field, values: Sequence[str], any_quoted: bool) -> Sequence[str]:
    """Returns the two ends of a range such as `3..7`; () where the values are no range of this field."""
    ends = values[0].split("..")
    if len(values) != 1 or len(ends) != 2 or not all(ends):
        return ()
    if field.kind == "anything":  # meta.version:"1..2" is the text itself
        are_ordered = all(map(is_number, ends)) or all(map(_DATE.match, ends))
        return ends if are_ordered and not any_quoted else ()
    return ends if field.kind in ("number", "date") else ()


def is_number(text: str) -> bool:
    """Returns whether a text is a finite number, with an exponent of at most two digits."""
    return _NUMBER.fullmatch(text) is not None


def first_and_last_day(date: str) -> tuple[str, str]:
    """Returns Monday and Sunday of a week of ISO 8601 such as `2026-W42`; any other date twice, as it is.

    Raises:
        ValueError: The year has no such week.
    """
    year, week, number = date.partition("-W")
    if not week:
        return date, date
    monday = datetime.date.fromisocalendar(int(year), int(number), 1)
    return f"{monday}", f"{monday + datetime.timedelta(days=6)}"


def _check_value(field: Field, value: str, values_start: int) -> str:
    """Returns a value in the form of `Term.values`: a choice in lower case, also for its word, others as they are.

    Raises:
        FilterError: The field cannot have this value.
    """
    wrong = FilterError(
        f"“{value}” is no value of “{field.name}”.", usage_hint(field), values_start
    )
    if field.kind == "choice":
        written = value.lower().replace(" ", "-")  # `state:"broken off"` is `state:broken-off`
        for choice in field.choices:
            shown = field.shown.get(choice, choice).replace(" ", "-")
            if written in (choice, field.written(choice), shown):
                return choice
        raise wrong
    if field.kind == "number":
        try:
            if not float(value) >= field.minimum:  # also true of NaN, which `<` would let pass
                raise wrong
        except ValueError:
            raise wrong from None
    if field.kind == "date":
        if not _DATE.match(value):
            raise wrong
        try:
            first, _ = first_and_last_day(value)
            datetime.date.fromisoformat(f"{first}-01-01"[: len("2026-01-01")])
        except ValueError:
            raise wrong from None
    if field.name == "like" and value in (ANY_VALUE, NO_VALUE):
        raise wrong  # every conversation is more or less like any words
    return value


# Writing a filter


_NEEDS_NO_QUOTES = re.compile(r"[^\s\",]+$")
"""Matches a value that is read back unchanged without quotation marks, unless it looks like a negation, a term or a
range."""

_KEY_NEEDS_NO_QUOTES = re.compile(r"[^\s:<>=\",]+$")
"""Matches a key, as in `meta.KEY`, that is read back unchanged without quotation marks."""


def quote_value(value: str) -> str:
    """Returns a value as it is written in a filter, in quotation marks where it needs them."""
    is_plain_word = (
        _NEEDS_NO_QUOTES.match(value)
        and not value.startswith("-")
        and not _FIELD_AND_SIGN.match(value)
        and ".." not in value
    )
    # a number may begin with `-`: after the sign of a field that is no negation
    return value if is_plain_word or is_number(value) else _in_quotes(value)


def quote_key(name: str) -> str:
    """Returns the name of a field as it is written in a filter, with its key in quotation marks where it needs them."""
    before, dot, key = name.partition(".")
    if not dot:
        return name
    return f"{before}{dot}{key if _KEY_NEEDS_NO_QUOTES.match(key) else _in_quotes(key)}"


def _in_quotes(text: str) -> str:
    """Returns a text between quotation marks; it has none itself."""
    return f'"{text}"'
