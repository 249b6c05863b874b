"""Records about conversations: messages, leaks, rejected records, the counts of the text checks, and how to import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from engine.base.conversation import Message
from engine.base.number_format import counted
from engine.base.request_options import Option, declare_option, switch
from engine.conversations.personal_data import KIND_NAMES, KINDS

MAX_LANGUAGES_NAMED = 4
"""Number of languages that `CheckCounts.in_words` names; the conversations in others are counted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(Message):
    """One message of a conversation.

    Attributes:
        index: Its position in the conversation, from 0.
        turn: The number of its turn, from 1.
    """

    index: int
    turn: int


class Origin(NamedTuple):
    """Where a conversation is from: the label of its source, and the format in which it was read."""

    source: str
    format: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A record that could not be imported.

    Attributes:
        source: Label of the file that it came from.
        line: Its line there, from 1; None where records are no lines.
        reason: Why it could not be imported, a few words.
        raw: Its bytes.
    """

    source: str
    line: int | None
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How many conversations the text checks found something in.

    Attributes:
        languages: Number of conversations by the code of their language; "" where it is not clear.
        personal: Number of conversations by the kind of personal data in them.
    """

    languages: Mapping[str, int]
    personal: Mapping[str, int]

    def in_words(self) -> str:
        """Returns the counts in one sentence."""
        languages = sorted(self.languages.items(), key=lambda entry: -entry[1])
        parts = [
            f"{code or 'language not clear'} {count:,}"
            for code, count in languages[:MAX_LANGUAGES_NAMED]
        ]
        if len(languages) > MAX_LANGUAGES_NAMED:
            others = sum(count for _, count in languages[MAX_LANGUAGES_NAMED:])
            parts.append(f"other languages {others:,}")
        parts += [
            f"{KIND_NAMES[kind]} in {self.personal[kind]:,}"
            for kind in KINDS
            if self.personal.get(kind)
        ]
        # each conversation has one language, if only ""
        conversations_text = counted(sum(self.languages.values()), "conversation")
        return f"Looked at {conversations_text}: {', '.join(parts) or 'nothing new'}."


def _read_gibibytes(text: str) -> int:
    """Returns a number of GiB as bytes, at least one.

    Raises:
        ValueError: It is no number above 0.
    """
    size = float(text) * (1 << 30)
    if not 0 < size < math.inf:
        raise ValueError(text)
    return max(1, round(size))


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """How files and folders are imported.

    Attributes:
        format: Name of a format; None detects it for each file.
        replace: Conversations that changed take the place of the stored ones; otherwise both are kept.
        most_unpacked: Number of bytes to which any file may unpack; None for the usual limit.
    """

    format: str | None = declare_option(None, Option("format of the input", default="detected"))
    replace: bool = switch(
        "a conversation that changed replaces the stored one of its id, whose text is kept as an earlier one"
        " (default: keep both)"
    )
    most_unpacked: int | None = declare_option(
        None,
        Option(
            "GiB to which a file may unpack, whatever its size; memory and processor time for it grow too",
            default=".25, and 1,000 times its size",
            metavar="GIB",
            convert=_read_gibibytes,
            must="above 0",
        ),
    )


DEFAULT_IMPORT = ImportRequest()
"""An import of which nothing is said: formats are detected, and changed conversations are kept beside the old ones."""
