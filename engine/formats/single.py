"""Reads one record as a conversation and hides its leaks, or rejects it with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.conversation import MOST_MESSAGES
from engine.formats.accounting import account
from engine.formats.json_values import BadRecord
from engine.formats.leaks import guard
from engine.formats.readers import READERS, Reader
from engine.records.imports import Parsed, Rejected


def parse(
    reader: Reader, value: Any, raw: bytes, line: int | None, fallback_id: str
) -> Parsed | Rejected:
    """Reads a record with the reader of its format.

    Args:
        fallback_id: The id for a record without one.
    """
    try:
        draft = reader.read(value, fallback_id)
    except BadRecord as bad:
        return Rejected(line, raw, bad.reason)
    count = len(draft.conversation.messages)
    if count > MOST_MESSAGES:
        reason = f"{count:,} messages, more than the {MOST_MESSAGES:,} of one conversation"
        return Rejected(line, raw, reason)
    conversation, leaks = guard(draft.conversation, draft.fields, draft.truth_fields)
    return Parsed(line, raw, conversation, leaks, account(value, conversation, reader.left_out))


def parse_made(record: Mapping[str, Any], format: str, fallback_id: str) -> Parsed | Rejected:
    """Reads a record that this program made, as if it came from a file of that format.

    Raises:
        StopIteration: There is no such format.
    """
    reader = next(reader for reader in READERS if reader.name == format)
    raw = json.dumps(record).encode("ascii")
    return parse(reader, json.loads(raw), raw, None, fallback_id)
