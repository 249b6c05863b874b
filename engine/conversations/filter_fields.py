"""Defines what a field of the filter language is, such as `turns` in the filter `turns>5`.

A *term* is one condition of a filter: a field, a sign and values (`engine.conversations.filters.Term`). Each subject
declares its fields beside its tables; `engine.opener.filter_fields` registers all of them here when a project is first
opened. docs/filters.md lists the same fields for users.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.project.idset import IdSet

if TYPE_CHECKING:
    from engine.conversations.filters import Term

Kind = Literal["choice", "text", "number", "date", "anything"]
"""What the values of a field are; `anything` is compared as numbers where both sides are numbers."""

ANY_VALUE = "any"
"""The value that matches each conversation that has a value of the field, whichever it is: `tag:any`."""

NO_VALUE = "none"
"""The value that matches each conversation that has no value of the field: `tag:none`."""

NOVEL = "novel"
"""The value of `goal` for conversations that came after the clustering and belong to no group."""

FIELDS_WITH_KEYS = ("meta", "truth")
"""Fields whose name goes on with a dot and a key, as in `meta.channel`."""

WORD_FIELD = "text"
"""The field of terms that name none, which are words to search for in the messages."""

COUNTABLE_FIELDS = (
    "state", "verdict", "annotator", "disagreement", "goal", "also", "tool", "model", "source", "date",
    "tag",
)  # fmt: skip
"""Fields by whose values conversations can be counted, beside `FIELDS_WITH_KEYS`; dates are counted by month."""

MatchTerm = Callable[[sqlite3.Connection, "Term", IdSet], IdSet]
"""Takes a term and the ids of some conversations, and returns those of them that the term matches. It ignores
`Term.negated`: the caller inverts the result."""

OrderConversations = Callable[[sqlite3.Connection, IdSet], "array[int]"]
"""Takes the ids of some conversations, and returns those that have a value of the field, in the order of that value.
Conversations with equal values are in the order of their ids."""

CountedValues = Sequence[tuple[str, int | None]]
"""Values of a field, each with the number of conversations that have it; None where they were not counted."""

CountValues = Callable[[sqlite3.Connection, str, IdSet, int], CountedValues]
"""Takes the name of a field (as in `Term.field`), the ids of some conversations, and a limit. Returns the values that
occur in those conversations, at most as many as the limit."""


@dataclass(frozen=True, slots=True)
class Field:
    """A property of conversations by which a filter can select them.

    Attributes:
        name: What is written before the sign, in lower case: `turns`.
        kind: What its values are.
        choices: The only values that it can have; empty where any value will do.
        help: Explains the field, in completion and documentation.
        example: Terms that show how it is used; empty where the usual example of its kind does.
        optional: Whether a conversation may have no value, so that `any` and `none` can be asked for.
        minimum: The smallest number that it can be.
        condition: Finds the conversations that a term matches. None for a field that is short for a term on another
            field, as `has:tag` is for `tag:any` and `since:2026` for `date>=2026`.
        order: Orders conversations by the field; None where lists cannot be ordered by it.
        values: Counts its values for completion; None where they are not counted.
        is_selective: Whether its terms match few conversations, so that they are answered before the other terms.
    """

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    example: str = ""
    optional: bool = False
    minimum: float = 0
    condition: MatchTerm | None = None
    order: OrderConversations | None = None
    values: CountValues | None = None
    is_selective: bool = False


FIELDS: dict[str, Field] = {}
"""The fields that filters can name, by name, in the order in which completion offers them. It is empty until
`register_fields` is called."""


def register_fields(fields: Iterable[Field]) -> None:
    """Makes these fields the ones that filters can name, in place of those registered before."""
    FIELDS.clear()
    FIELDS.update((field.name, field) for field in fields)


SortKey = Literal[
    "id",
    "name",
    "source",
    "date",
    "p",
    "success",
    "turns",
    "messages",
    "length",
    "verdict",
    "tag",
]
"""What a list can be ordered by: `id` is the order of import, each other one is the `Field` of that name.

`p` is the probability that the conversation is complete, `success` that you would call it a success (fitted to your
verdicts), and `length` the number of characters of its messages."""
