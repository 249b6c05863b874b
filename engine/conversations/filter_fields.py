"""What conversations can be filtered, counted and ordered by. docs/filters.md has the same fields, for users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.base.outcomes import (
    State,
    Verdict,
)
from engine.conversations.personal_data import KINDS

Kind = Literal["choice", "text", "number", "date", "anything"]
"""What the values of a field are; `anything` is compared as numbers where both sides are numbers."""

ANY, NONE = "any", "none"
"""Values that ask whether there is anything at all."""

NOVEL = "novel"
"""The value of `goal` for conversations that came after the clustering and belong to no group."""

DOTTED = ("meta", "truth")
"""Fields that go on with a dot and a key."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that can be filtered by.

    Attributes:
        choices: The only values it can have; empty where any will do.
        help: What it is, for completion and documentation.
        example: Terms that say how it is used; empty where those of its kind do.
        optional: Whether a conversation may have none, so that `any` and `none` are values.
        least: The least number it can be.
    """

    name: str
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    example: str = ""
    optional: bool = False
    least: float = 0


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("state", "choice", "what the score says", tuple(State)),
        Field("verdict", "choice", "your verdict", (*Verdict, ANY, NONE), optional=True),
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
            "also",
            "text",
            "a second goal that it may have",
            example='also:"book a hotel" or also:any',
            optional=True,
        ),
        Field(
            "share",
            "number",
            "share of its second goal, 0 to 1",
            example="share>.3 or share:.2...4",
        ),
        Field(
            "remaining",
            "text",
            "what the model says is left to do (part of it)",
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
        Field("turns", "number", "number of turns"),
        Field("messages", "number", "number of messages"),
        Field(
            "requests",
            "number",
            "number of requests that were found or marked in it, else 1",
            example="requests>1",
        ),
        Field("length", "number", "characters of all messages"),
        Field("leaves", "number", "leaves of its response tree, the most of several"),
        Field(
            "max_logprob",
            "number",
            "log-probability of the best answer of its tree, the lowest of several",
            example="max_logprob<-3",
            least=-math.inf,
        ),
        Field("entropy", "number", "entropy of its response tree in bits, the most of several"),
        Field(
            "tool", "text", "name of a tool that was called; name* is a beginning", optional=True
        ),
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
            (*KINDS, ANY, NONE),
            optional=True,
        ),
        Field(
            "copies",
            "text",
            "whether there are near copies of it, or the number of their set",
            example="copies:any or copies:17",
            optional=True,
        ),
        Field(
            "watched",
            "choice",
            "there before the first watch, came or grew since, or has not ended",
            ("past", "new", "running"),
        ),
        Field(
            "ended",
            "number",
            "its place among those that a watch saw end, from 1",
            example="ended:41..60",
        ),
        Field("source", "text", "file it came from (part of the name)"),
        Field("name", "text", "id in its file (part of it)"),
        Field("date", "date", "when it took place, 2026-03 or 2026-03-14"),
        Field("since", "date", "from this day, month or year on"),
        Field("until", "date", "up to the end of this day, month or year"),
        Field(
            "tag",
            "text",
            "your tag, or any or none; rude? is what its probe predicts",
            example="tag:rude, tag:rude? or tag:none",
            optional=True,
        ),
        Field("note", "choice", "whether you left a note", (ANY, NONE), optional=True),
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
            "has",
            "text",
            "whether there is any: has:remaining, has:meta.channel",
            example="has:remaining, has:note or has:meta.channel",
        ),
        Field(
            "draw",
            "number",
            "drawn for each, 0 to 1: draw<.1 is a tenth at random",
            example="draw<.1, draw:0.1..0.2",
        ),
    )
}
COUNTED = (
    "state",
    "verdict",
    "annotator",
    "disagreement",
    "goal",
    "also",
    "tool",
    "model",
    "source",
    "date",
    "tag",
)
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
