"""Verdicts of a person, and the queue of conversations that wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

VerdictKind = Literal["give", "repeat", "note", "tag", "untag"]


class Verdict(StrEnum):
    """What a human said in triage."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One act of a person, or what stands after all of them; acts are appended, never changed.

    Attributes:
        tags: All that stand; of one act the tag that it gave or took.
        count: Conversations that the act concerned; more than one for a bulk tag, of which one is named here.
    """

    id: int
    conversation_id: int
    verdict: Verdict | None
    note: str
    given_at: str
    tags: tuple[str, ...] = ()
    kind: VerdictKind = "give"
    count: int = 1


@dataclass(frozen=True, slots=True)
class TriageItem:
    """One conversation in the triage queue and why it stands there, e.g. `borderline: .52 near .50`."""

    conversation_id: int
    why: str


QueueOrder = Literal["threshold", "lowest", "disagreement", "unsure", "sample", "list"]
"""What a verdict is worth: see `engine.store.queue`."""


@dataclass(frozen=True, slots=True)
class TriagePage:
    """The part of a queue that is worked on now, what is worth most first; `total` counts all that waits."""

    items: tuple[TriageItem, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TriagePlace:
    """Where a person was in triage.

    Attributes:
        filter: As text.
        conversation: In front of the person; None where nothing was.
        skipped: To be seen again at the end, in the order they were skipped.
    """

    order: QueueOrder = "threshold"
    filter: str = ""
    conversation: int | None = None
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedId:
    """An imported id with what stands for its conversation, and the verdicts given again without sight of it."""

    external_id: str
    source: str
    verdict: VerdictRow
    repeats: tuple[Verdict, ...] = ()
