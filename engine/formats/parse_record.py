"""Reads one record as a conversation and hides its leaks, or rejects it with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.conversation import MAX_MESSAGES
from engine.formats.accounting import account
from engine.formats.json_values import BadRecord
from engine.formats.leaks import guard
from engine.formats.messages.times import dated
from engine.formats.opening.framing import Frame
from engine.formats.records import Parsed, Reader, Rejected
from engine.formats.registry import reader_named


def parse_record(reader: Reader, frame: Frame, fallback_id: str) -> Parsed | Rejected:
    """Reads a record with the reader of its format.

    Args:
        fallback_id: The id for a record without one.
    """
    outer = frame.outer
    try:
        draft = reader.read(frame.value, frame.name or fallback_id, outer and outer.value)
    except BadRecord as bad:
        return Rejected(frame.number, frame.raw, bad.reason)
    count = len(draft.conversation.messages)
    if count > MAX_MESSAGES:
        reason = f"{count:,} messages, more than the {MAX_MESSAGES:,} of one conversation"
        return Rejected(frame.number, frame.raw, reason)
    conversation, leaks = guard(draft.conversation, draft.fields, draft.truth_fields)
    counted = account(frame.value, conversation, draft, reader.left_out, outer)
    for leak in leaks:
        counted.hide(leak)
    conversation, field = dated(conversation)
    if field:
        counted.date(field, str(conversation.created_at))
    return Parsed(frame.number, frame.raw, conversation, leaks, counted)


def parse_made(
    record: Mapping[str, Any] | Sequence[Any], format: str, fallback_id: str
) -> Parsed | Rejected:
    """Reads a record that this program made, as if it came from a file of that format.

    Raises:
        FormatError: There is no such format.
    """
    raw = json.dumps(record).encode("ascii")
    return parse_record(reader_named(format), Frame(None, raw, json.loads(raw)), fallback_id)
