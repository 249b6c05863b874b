"""Completes the term of a filter that is being written: names of fields, keys of metadata, and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.errors import FilterError
from engine.conversations.filter_fields import (
    ANY_VALUE,
    FIELDS,
    FIELDS_WITH_KEYS,
    NO_VALUE,
    NOVEL,
    QUESTION_FIELD,
    CountedValues,
    Field,
)
from engine.conversations.filters import (
    FIELD_WITH_KEY,
    find_field,
    quote_key,
    quote_value,
    split_field_and_sign,
)

KnownValues = Mapping[str, CountedValues]
"""Values that occur in the project, by field, each with the number of conversations that have it; None if it was not
counted. Under `meta` and `truth` are their keys, under `answer` the questions."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A proposal to complete the term at the cursor.

    Attributes:
        start: Position from which the text up to the cursor is replaced.
        text: What replaces it.
        help: Explains the field.
        is_partial: Whether the term is still incomplete after the replacement.
        count: Number of conversations with this value; None where it is not known.
    """

    start: int
    text: str
    help: str
    is_partial: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True)
class TermAtCursor:
    """The term that is being written.

    Attributes:
        field: Its field as in `Term.field`, or `meta` or `truth` while the key is written; None while it is a word.
        start: Position of the text that a completion replaces.
        typed: That text up to the cursor, without quotation marks.
    """

    field: str | None
    start: int
    typed: str

    @property
    def field_to_count(self) -> str:
        """The field whose values complete the term.

        While it is a word, that is `answer`, whose values are the questions; behind `refused@` it is `answer.refused@`,
        whose values are those who answered.
        """
        question, separator, _ = self.typed.lower().partition("@")
        of_question = f"{QUESTION_FIELD}.{question}@" if separator else QUESTION_FIELD
        return of_question if self.field is None else self.field


def term_at_cursor(text: str, cursor: int) -> TermAtCursor | None:
    """Returns the term that is being written at the cursor.

    Returns None inside of a quoted search word, and where there is no such field.
    """
    term_start, in_quotes = 0, False
    for position, char in enumerate(text[:cursor]):
        if char == '"':
            in_quotes = not in_quotes
        elif char.isspace() and not in_quotes:
            term_start = position + 1
    if text[term_start:cursor].startswith("-"):
        term_start += 1
    # `typed` has no quotation marks, so its indices differ from positions in `text`; `positions` leads back to these
    positions = [i for i in range(term_start, cursor) if text[i] != '"']
    typed = "".join(text[position] for position in positions)
    quoted = [text[term_start:position].count('"') % 2 == 1 for position in positions]
    head = split_field_and_sign(typed, quoted)
    if head is None:
        if '"' in text[term_start:cursor]:
            return None
        with_key = FIELD_WITH_KEY.match(typed)
        meta_or_truth = with_key[1].lower() if with_key else None
        return TermAtCursor(meta_or_truth, term_start, typed)
    try:
        _, name = find_field(head.field, typed, term_start)
    except FilterError:
        return None
    value_index = head.end
    for index in range(head.end, len(typed)):
        if typed[index] == "," and not quoted[index]:
            value_index = index + 1
    # after the sign or comma, so that a quotation mark that opens the value is replaced too
    value_position = positions[value_index - 1] + 1
    return TermAtCursor(name, value_position, typed[value_index:])


def completions(text: str, cursor: int, known: KnownValues) -> list[Completion]:
    """Returns the completions at the cursor: names of fields, or values of the field that is being written.

    Args:
        text: The filter as far as it is written.
        cursor: Position of the cursor in it.
        known: Values that occur in the project.
    """
    term = term_at_cursor(text, cursor)
    if term is None:
        return []
    if term.field is None:
        return _name_completions(term, known)
    if term.field in FIELDS_WITH_KEYS:
        return _key_completions(term.field, term, known)
    return _value_completions(term.field, term, known)


def _name_completions(term: TermAtCursor, known: KnownValues) -> list[Completion]:
    """Returns the names of fields, and those of questions, that begin with what was typed."""
    typed = term.typed.lower()
    names = [
        Completion(term.start, _completion_text(field), field.help, is_partial=True)
        for field in FIELDS.values()
    ]
    question = typed[: typed.find("@") + 1]  # `refused@`, after which those who answered come
    names += [
        Completion(
            term.start,
            f"{question}{name}:",
            FIELDS[QUESTION_FIELD].help,
            is_partial=True,
            count=count,
        )
        for name, count in known.get(term.field_to_count, ())
    ]
    return [name for name in names if name.text.startswith(typed) and name.text != typed]


def _key_completions(name: str, term: TermAtCursor, known: KnownValues) -> list[Completion]:
    """Returns the keys of a field with keys, such as `meta.channel`, that begin with what was typed."""
    keys = [(f"{name}.{key}", count) for key, count in known.get(name, ())]
    return [
        Completion(
            term.start, f"{quote_key(key)}:", FIELDS[name].help, is_partial=True, count=count
        )
        for key, count in keys
        if key.lower().startswith(term.typed.lower())
    ]


def _value_completions(name: str, term: TermAtCursor, known: KnownValues) -> list[Completion]:
    """Returns the values of a field, of which a word begins with what was typed."""
    typed = term.typed.lower()
    field = FIELDS[name.partition(".")[0]]
    counts = dict(known.get(name, ()))
    values = [*field.choices, *(value for value in counts if value not in field.choices)]
    if name == "goal":  # those that came after the clustering and belong to no group
        values.append(NOVEL)
    if field.optional and not field.choices:
        values += [ANY_VALUE, NO_VALUE]
    return [
        Completion(term.start, quote_value(written), field.help, count=counts.get(value))
        for value in dict.fromkeys(values)
        if (written := field.written(value)).lower() != typed
        and _has_word_beginning(written.lower(), typed)
    ]


def _completion_text(field: Field) -> str:
    """Returns what completes the name of a field: the name, with the sign after it where only one is usual."""
    if field.name in FIELDS_WITH_KEYS:
        return f"{field.name}."
    return field.name if field.kind == "number" else f"{field.name}:"


def _has_word_beginning(value: str, typed: str) -> bool:
    """Returns whether a word of the value begins with what was typed."""
    return value.startswith(typed) or f" {typed}" in value
