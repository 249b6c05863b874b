"""Results of reading an input: conversations with their bytes, and records that could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Leak:
    """A leak: something that reveals how the conversation ended. `message` is the index of the message; None for a
    field of the record."""

    message: int | None
    rule: str
    found: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """One conversation as read.

    Attributes:
        line: Line (JSON Lines) or position in the list (JSON array), from 1; None for a single object.
        raw: The bytes of the record in the decompressed input.
    """

    line: int | None
    raw: bytes
    conversation: Conversation
    leaks: tuple[Leak, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """One record that is not a conversation, with the reason in words and its bytes."""

    line: int | None
    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Detection:
    """The format that was detected, and the reason in words."""

    format: str
    why: str


class Input(Protocol):
    """One opened input; a folder or several paths are several inputs."""

    @property
    def label(self) -> str:
        """Path as the person gave it, or `standard input`."""

    @property
    def size(self) -> int | None:
        """Bytes on disk; None when it cannot be known."""

    @property
    def detection(self) -> Detection:
        """The detected format."""

    def position(self) -> int:
        """Bytes of `size` read so far."""

    def records(self) -> Iterator[Parsed | Rejected]:
        """Yields the records in order, as a stream; an unreadable rest is yielded as a `Rejected`."""
