"""What a field of filters is. Each subject declares its fields beside its tables; `engine.opener.filter_fields` hands
all of them to the filter language. docs/filters.md has the same fields, for users."""

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

ANY, NONE = "any", "none"
"""Values that ask whether there is anything at all."""

NOVEL = "novel"
"""The value of `goal` for conversations that came after the clustering and belong to no group."""

DOTTED = ("meta", "truth")
"""Fields that go on with a dot and a key."""

Condition = Callable[[sqlite3.Connection, "Term", IdSet], IdSet]
"""Returns those of a set of conversations for which a term holds, whether or not the term is negated."""

Order = Callable[[sqlite3.Connection, IdSet], "array[int]"]
"""Returns the ids of those of a set that have a value, by value, equal values by id."""

Values = Sequence[tuple[str, int | None]]
"""Values of a field, each with a number of conversations; None where they were not counted."""

ValueCounts = Callable[[sqlite3.Connection, str, IdSet, int], Values]
"""Returns at most so many values of a field (named as in `Term.field`) that occur in a set of conversations."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that can be filtered by.

    Attributes:
        choices: The only values it can have; empty where any will do.
        help: What it is, for completion and documentation.
        example: Terms that say how it is used; empty where those of its kind do.
        optional: Whether a conversation may have none, so that `any` and `none` are values.
        least: The least number it can be.
        condition: Answers a term; None for a field that stands for a term on another one.
        order: Orders conversations by it; None where lists are not ordered by it.
        values: Counts its values for completion; None where they are not counted.
        few: Whether its terms match few conversations, so that they are answered first.
    """

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    example: str = ""
    optional: bool = False
    least: float = 0
    condition: Condition | None = None
    order: Order | None = None
    values: ValueCounts | None = None
    few: bool = False


FIELDS: dict[str, Field] = {}
"""The fields that filters can name, by name, in the order in which they are offered."""


def set_fields(fields: Iterable[Field]) -> None:
    """Hands the filter language its fields, in place of those that it had."""
    FIELDS.clear()
    FIELDS.update((field.name, field) for field in fields)


COUNTED = (
    "state", "verdict", "annotator", "disagreement", "goal", "also", "tool", "model", "source", "date",
    "tag",
)  # fmt: skip
"""Fields by whose values conversations can be counted, beside those of `DOTTED`; dates by month."""

TEXT = "text"
"""Field of terms that name none: words of the messages."""

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
"""What a list can be ordered by; `id` is the order of import, the others are fields."""
