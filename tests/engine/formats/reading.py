"""What the tests of the readers share: reading bytes as an input, and normalized records as plain JSON."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import Any

from engine.formats.inputs import open_inputs
from engine.formats.records import Input, Parsed, Rejected


def opened(data: bytes, format: str | None = None) -> Input:
    """The bytes as standard input."""
    (found,) = open_inputs(["-"], format=format, stdin=io.BytesIO(data))
    return found


def read(data: bytes, format: str | None = None) -> list[Parsed | Rejected]:
    """All records of the bytes."""
    return list(opened(data, format).records())


def parsed(data: bytes, format: str | None = None) -> list[Parsed]:
    """All records of the bytes, none of which may be rejected."""
    records = read(data, format)
    assert [record.reason for record in records if isinstance(record, Rejected)] == []
    return [record for record in records if isinstance(record, Parsed)]


def one(data: bytes, format: str | None = None) -> Parsed:
    """The only record of the bytes, which must not be rejected."""
    (record,) = parsed(data, format)
    return record


def as_json(record: Parsed | Rejected) -> dict[str, Any]:
    """A record as golden files state it: no bytes, no fields that hold their default."""
    if isinstance(record, Rejected):
        return {"line": record.line, "rejected": record.reason}
    conversation = asdict(record.conversation)
    conversation["messages"] = [
        {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in message.items()
            if value not in (None, (), False)
        }
        for message in conversation["messages"]
    ]
    return {
        "line": record.line,
        "conversation": {k: v for k, v in conversation.items() if v not in (None, {})},
        "leaks": [asdict(leak) for leak in record.leaks],
    }
