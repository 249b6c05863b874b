"""Declares the fields of the filter language, such as `turns` in the filter `turns>5`.

A *term* is one condition of a filter: a field, a sign and values (`engine.conversations.filters.Term`). What a field is
called and which values it takes is declared here, so that a filter can be read without a project. How terms on it are
answered (`FieldQuery`) is with the subject that has the tables. docs/filters.md lists the same fields for users.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from engine.base.conversation import SUCCEEDED, State, Verdict
from engine.base.sign import Sign
from engine.conversations.personal_data import KINDS
from engine.project.sql import IdSet

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

QUESTION_FIELD = "answer"
"""The field of answers to questions, whose key is the name of the question: `answer.refused`, in short `refused`.
Behind an `@` stands who answered."""

FIELDS_WITH_KEYS = ("meta", "truth", QUESTION_FIELD)
"""Fields whose name goes on with a dot and a key, as in `meta.channel`."""

WORD_FIELD = "text"
"""The field of terms that name no field: words to search for in the messages."""

COUNTABLE_FIELDS = (
    "state", SUCCEEDED, "annotator", "disagreement", "goal", "theme", "reason", "tool", "model", "source",
    "date", "tag",
)  # fmt: skip
"""Fields by whose values conversations can be counted, beside `FIELDS_WITH_KEYS`; dates are counted by month."""

MatchTerm = Callable[[sqlite3.Connection, "Term", IdSet], IdSet]
"""Takes a term and the ids of some conversations, and returns those of them that the term matches. It ignores
`Term.negated`: the caller inverts the result."""

OrderConversations = Callable[[sqlite3.Connection, IdSet], "array[int]"]
"""Takes the ids of some conversations, and returns those that have a value of the field, in the order of that value.
Conversations with equal values are in the order of their ids."""

RankConversations = Callable[[sqlite3.Connection, "Term", IdSet], "array[int]"]
"""Takes a term and the ids of some conversations, and returns those of them that the term matches, the best first."""

CountedValues = Sequence[tuple[str, int | None]]
"""Values of a field, each with the number of conversations that have it; None where they were not counted."""

CountValues = Callable[[sqlite3.Connection, str, IdSet, int], CountedValues]
"""Takes the name of a field (as in `Term.field`), the ids of some conversations, and a limit. Returns the values that
occur in those conversations, at most as many as the limit."""


@dataclass(frozen=True, slots=True)
class Field:
    """A property of conversations by which a filter can select them, as far as reading and writing a filter needs it.

    Attributes:
        name: What is written before the sign, in lower case: `turns`.
        kind: What its values are.
        help: Explains the field, in completion and documentation.
        choices: The only values that it can have; empty where any value will do.
        example: Terms that show how it is used; empty where the usual example of its kind does.
        optional: Whether a conversation may have no value, so that `any` and `none` can be asked for.
        minimum: The smallest number that it can be.
        words: What a filter writes in place of a choice, where that differs; it reads both.
        shown: What is shown for a choice outside of filters, where that differs; filters read it too.
    """

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    example: str = ""
    optional: bool = False
    minimum: float = 0
    words: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)

    def written(self, value: str) -> str:
        """Returns a value as filters write it: the word of a choice that has one, others as they are."""
        return self.words.get(value, value)


@dataclass(frozen=True, slots=True)
class FieldQuery:
    """Answers terms on one field from the project file. Each subject has those of its fields beside its tables.

    Attributes:
        matches: Finds the conversations that a term matches.
        order: Orders conversations by the field; None where lists cannot be ordered by it.
        count_values: Counts the values of the field for completion; None where they are not counted.
        is_selective: Whether its terms match few conversations, so that they are answered before the other terms.
        rank: Returns those of a set that a term matches, the best first; None where they are equally good. Such terms
            are answered after the others, of what these match, and order a list that has no other order.
    """

    matches: MatchTerm
    order: OrderConversations | None = None
    count_values: CountValues | None = None
    is_selective: bool = False
    rank: RankConversations | None = None


_FIELDS = (
    Field(
        "state",
        "choice",
        "did it end, by its score",
        tuple(State),
        words={state: state.word.replace(" ", "-") for state in State},
    ),
    Field(
        SUCCEEDED,
        "choice",
        "did the user get what they wanted: your verdict",
        (*Verdict, ANY_VALUE, NO_VALUE),
        optional=True,
    ),
    Field(
        "disagreement",
        "choice",
        "your verdict and the score differ, this and another set of scores, or two people",
        ("verdict", "scores", "people"),
    ),
    Field(
        "annotator",
        "text",
        "person who judged it, by name; any is any name",
        example="annotator:ann or annotator:any",
        optional=True,
    ),
    Field(
        "goal",
        "text",
        "label of its goal, or a part of it; any, none or novel",
        example='goal:"book a restaurant" or goal:novel',
        optional=True,
    ),
    Field(
        "like",
        "text",
        "the 50 conversations of what else matches that are most like these words, by their vectors",
        example='like:"the parcel never came"',
    ),
    Field(
        "theme",
        "text",
        "label of the theme of its goal, or a part of it; any or none",
        example='theme:"travel" or theme:none',
        optional=True,
    ),
    Field(
        "reason",
        "text",
        "label of the reason why it went wrong, or a part of it; any or none",
        example='reason:"no refund" or reason:any',
        optional=True,
    ),
    Field(
        "remaining",
        "text",
        "a part of the remaining tasks that a model wrote",
        example="remaining:refund or remaining:any",
        optional=True,
    ),
    Field("p", "number", "normalized probability of the end, 0 to 1", example="p<.3"),
    Field(
        "success",
        "number",
        "probability of success, fitted to your verdicts, 0 to 1",
        example="success<.3",
    ),
    Field(
        "sign",
        "choice",
        "sign of trouble, such as errors of tools or a complaint",
        (*Sign, ANY_VALUE, NO_VALUE),
        optional=True,
        shown={sign: sign.words for sign in Sign},
    ),
    Field(
        "trouble",
        "number",
        "sum of its signs of trouble, as standard scores; 0 is usual",
        example="trouble>5",
        minimum=-math.inf,
    ),
    Field("turns", "number", "number of turns"),
    Field("messages", "number", "number of messages"),
    Field("length", "number", "characters of all messages"),
    Field("leaves", "number", "leaves of its response tree, the most of several"),
    Field(
        "max_logprob",
        "number",
        "log-probability of the best answer of its tree, the lowest of several",
        example="max_logprob<-3",
        minimum=-math.inf,
    ),
    Field("entropy", "number", "entropy of its response tree in bits, the most of several"),
    Field("tool", "text", "name of a tool that was called; name* is a beginning", optional=True),
    Field(
        "model",
        "text",
        "model that answered; name* is a beginning",
        example="model:gpt-4o or model:gpt-4*",
        optional=True,
    ),
    Field(
        "language",
        "text",
        "language of its text, as a code",
        example="language:de or language:none",
        optional=True,
    ),
    Field(
        "personal",
        "choice",
        "kind of personal data in its text",
        (*KINDS, ANY_VALUE, NO_VALUE),
        optional=True,
    ),
    Field(
        "watched",
        "choice",
        "there before the first watch, came or grew since, or has not ended",
        ("past", "new", "running"),
    ),
    Field("source", "text", "file it came from (part of the name)"),
    Field("name", "text", "id in its file (part of it)"),
    Field("date", "date", "when it took place: 2026-03, 2026-03-14, or a week, 2026-W11"),
    Field("since", "date", "from this day, week, month or year on"),
    Field("until", "date", "up to the end of this day, week, month or year"),
    Field(
        "tag",
        "text",
        "name of a question that you answered with yes, or any or none",
        example="tag:rude or tag:none",
        optional=True,
    ),
    Field(
        QUESTION_FIELD,
        "anything",
        "the answer to a question, and behind @ who gave it",
        example="refused:yes, refused@ana:no, rude@examples>.8 or refused:disagree",
        optional=True,
    ),
    Field("note", "choice", "whether you left a note", (ANY_VALUE, NO_VALUE), optional=True),
    Field(
        "meta",
        "anything",
        "a field of the metadata: meta.channel",
        example="meta.channel:web, meta.cost>0.5 or meta.channel:none",
        optional=True,
    ),
    Field(
        "truth",
        "anything",
        "a field of the truth: truth.reward",
        example="truth.reward<1, truth.goal:cancel*",
        optional=True,
    ),
    Field(
        "draw",
        "number",
        "drawn for each, 0 to 1: draw<.1 is a tenth at random",
        example="draw<.1, draw:0.1..0.2",
    ),
)
"""All fields, in the order in which completion offers them."""

FIELDS: Mapping[str, Field] = {field.name: field for field in _FIELDS}
"""The fields that filters can name, by name, in the order in which completion offers them."""

SortKey = Literal[
    "id",
    "name",
    "source",
    "date",
    "p",
    "success",
    "trouble",
    "turns",
    "messages",
    "length",
    "succeeded",
    "tag",
]
"""What a list can be ordered by: `id` is the order of import, each other one is the `Field` of that name.

`p` is the probability that the conversation has ended, `success` that you would call it a success (fitted to your
verdicts), `trouble` the sum of the signs of trouble, and `length` the number of characters of its messages."""
