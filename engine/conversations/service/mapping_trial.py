"""Tries a mapping on some records: what it reads, and what looks wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.base.conversation import Conversation
from engine.base.number_format import counted
from engine.formats.detect import BYTES_TRIED, RECORDS_TRIED
from engine.formats.mappings.arranging import arranged
from engine.formats.mappings.mapping import Mapping
from engine.formats.mappings.toml_reader import reader_of
from engine.formats.opening.framing import Frame
from engine.formats.parse_record import parse_record
from engine.formats.records import Account, Parsed, Rejected

_SHOWN = 2
_MESSAGES_TRIED = 5_000


@dataclass(frozen=True, slots=True)
class Trial:
    """What a mapping reads from the records: where their text went, two conversations, and why a record was rejected.

    Attributes:
        whole: Whether all of the file was read, and not its beginning only.
        roles: Messages by role.
        unsaid: Of a draft, paths of written text that is in no message, the longest first.
    """

    conversations: int
    messages: int
    rejected: int
    reason: str
    account: Account
    shown: tuple[Conversation, ...]
    whole: bool = True
    roles: Table[str, int] = field(default_factory=dict)
    unsaid: tuple[str, ...] = ()

    @property
    def counts(self) -> str:
        """What was read, in words."""
        start = "Read so" if self.whole else "Read so, of the beginning of the file"
        spoken = ", ".join(f"{count:,} {role}" for role, count in self.roles.items())
        some = counted(self.conversations, "conversation")
        return f"{start}: {some}, {counted(self.messages, 'message')}" + (
            f" ({spoken})" if spoken else ""
        )

    @property
    def doubts(self) -> list[str]:
        """What looks wrong, in words."""
        doubts = []
        if self.rejected:
            doubts.append(f"{self.rejected:,} not read: {self.reason}.")
        silent = [role for role in ("user", "assistant") if not self.roles.get(role)]
        if self.messages:
            doubts += [f"Nothing is said by the {role}." for role in silent]
        if self.account.warns:
            lost = self.account.share("nowhere")
            doubts.append(f"{lost:.1%} of the text goes nowhere.")
        if self.account.out_of_order:
            some = counted(self.account.out_of_order, "conversation")
            doubts.append(f"In {some} a message has an earlier time than one before it.")
        return doubts

    @property
    def remark(self) -> str:
        """Where more text is that may belong to the conversation, in words; empty if there is none."""
        return f"In no message: {', '.join(self.unsaid)}" if self.unsaid else ""


def tried(mapping: Mapping, frames: Sequence[Frame]) -> Trial:
    """Reads records with a mapping, up to some thousand messages."""
    account = Account()
    shown: list[Conversation] = []
    roles: Counter[str] = Counter()
    conversations = rejected = 0
    reason = ""
    size = sum(len(frame.raw) for frame in frames)
    whole = len(frames) < RECORDS_TRIED and size < BYTES_TRIED
    reader = reader_of(mapping)
    for number, frame in enumerate(arranged(mapping, frames), 1):
        if roles.total() >= _MESSAGES_TRIED:
            whole = False
            break
        found = (
            Rejected(frame.number, frame.raw, frame.reason)
            if frame.reason
            else parse_record(reader, frame, str(number))
        )
        if isinstance(found, Parsed):
            conversations += 1
            roles.update(message.role for message in found.conversation.messages)
            account.include(found.account)
            if len(shown) < _SHOWN:
                shown.append(found.conversation)
        else:
            rejected += 1
            reason = reason or found.reason
    return Trial(
        conversations, roles.total(), rejected, reason, account, tuple(shown), whole, roles
    )
