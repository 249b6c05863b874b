"""Verdicts of a person, and the queue of conversations that wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base.conversation import Verdict
from engine.formats.records import Imported

NO_NAME = "(no name)"
"""Shown in the place of an annotator without a name."""

VerdictKind = Literal["give", "repeat", "note", "tag", "untag"]


@dataclass(frozen=True, slots=True)
class EarlierActs:
    """What a person said of a conversation before an import replaced its text, and did not take back or say anew.

    Attributes:
        messages: Number of messages of the text that the newest of it was given to.
        verdict: No verdict on the present text. The note and the tags stay in force.
    """

    messages: int
    verdict: Verdict | None = None
    note: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One act of a person, or the current verdict, note and tags after all acts. Acts are appended, never changed.

    Attributes:
        tags: All current tags; for one act the tag that it added or removed.
        count: Number of conversations of the act; more than one for a bulk tag and for imported verdicts, whose row
            has the id of one of them.
        earlier: What was said of an earlier text; None for one act, and where nothing was.
        annotator: Name of the person who gave the verdict; empty without a name.
    """

    id: int
    conversation_id: int
    verdict: Verdict | None
    note: str
    given_at: str
    tags: tuple[str, ...] = ()
    kind: VerdictKind = "give"
    count: int = 1
    earlier: EarlierActs | None = None
    annotator: str = ""


@dataclass(frozen=True, slots=True)
class TriageItem:
    """One conversation in the triage queue and the reason why it is in it."""

    conversation_id: int
    why: str


QueueOrder = Literal[
    "threshold", "lowest", "informative", "disagreement", "people", "unsure", "sample", "list"
]
"""The orders of the triage queue; see `engine.questions.tables.triage_queue`."""


@dataclass(frozen=True, slots=True)
class TriagePage:
    """The first items of a queue in its order; `total` is the number of all conversations in it."""

    items: tuple[TriageItem, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TriagePlace:
    """The place of a person in triage, stored so that it can be resumed.

    Attributes:
        order: Which conversations come first.
        filter: The filter as text.
        conversation: Id of the current conversation; None if there is none.
        skipped: Ids of skipped conversations, in order; they come again at the end of the queue.
    """

    order: QueueOrder = "threshold"
    filter: str = ""
    conversation: int | None = None
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Opinion:
    """The verdict of one person on a conversation.

    Attributes:
        annotator: Name of the person; empty without a name.
    """

    annotator: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """A conversation with its current verdict, note and tags.

    Attributes:
        repeats: Verdicts that the same person gave blind, oldest first.
        others: Verdicts of other people, by name.
        disagreement: Whether people disagree on it and nobody decided.
    """

    conversation: Imported
    verdict: VerdictRow
    repeats: tuple[Verdict, ...] = ()
    others: tuple[Opinion, ...] = ()
    disagreement: bool = False
