"""What a reader of one format is, and the draft of a conversation that it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.opening.framing import Frame

COMPANIONS = "files beside it"
"""Key under which a record gets the values of the files that are read with it, by their names."""


@dataclass(slots=True)
class ParsedRecord:
    """A conversation as its reader returns it, before the leak guard.

    Attributes:
        fields: The other fields of the record; the leak guard divides them into meta and truth.
        truth_fields: Names in `fields` that are truth in this format, even if not in others.
        left_out: What the reader left in the original record on purpose: the `id()` of a list or an object of the
            record, and the key or position in it.
        unknown: Items of the log that the format does not know; they were kept as metadata.
    """

    conversation: Conversation
    fields: dict[str, Any] = field(default_factory=dict)
    truth_fields: frozenset[str] = frozenset()
    left_out: frozenset[tuple[int, str | int]] = frozenset()
    unknown: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one format.

    Attributes:
        recognise: Returns in words why a record looks like this format; None if it does not.
        read: Returns the draft of a conversation; the arguments are the record, the id for a record without one, and
            the object from which the record was split. Raises BadRecord.
        left_out: Keys whose values are left in the original record on purpose.
        arrange: Splits records that are several conversations and groups those of which several are one; the flag asks
            for all branches of a tree of messages. None if each record is one conversation.
        thread_of: Returns the id of the thread of a record, "" for none. None if no thread runs over several files.
        companions: Names of files that belong to a file of this format if they lie beside it; they are read with it.
        conditions: How much it asks of a record; of readers that recognise the same, the one that asks most is taken.
    """

    name: str
    recognise: Callable[[Any], str | None]
    read: Callable[[Any, str, Any], ParsedRecord]
    left_out: frozenset[str] = frozenset()
    arrange: Callable[[Iterable[Frame], bool], Iterator[Frame]] | None = None
    conditions: int = 0
    title: str = ""
    sample: str = ""
    thread_of: Callable[[Any], str] | None = None
    companions: frozenset[str] = frozenset()
