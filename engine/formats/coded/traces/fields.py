"""Reads fields of traces, which may be missing or of another type."""

from __future__ import annotations

import hashlib
from typing import Any

from engine.formats.json_values import json_text, object_or_empty
from engine.formats.paths import json_within

SESSION_KEYS = ("thread_id", "session_id", "conversation_id", "threadId", "sessionId")
"""Names under which tools keep the id of a session."""


def first(record: Any, *keys: str) -> Any:
    """The first value under one of the keys that is neither null nor empty."""
    if not isinstance(record, dict):
        return None
    return next((record[key] for key in keys if record.get(key) not in (None, "", {}, [])), None)


def object_in(value: Any) -> dict[str, Any]:
    """A value as an object, also if it is JSON in a text; an empty one if it is none."""
    return object_or_empty(json_within(value))


def as_text(value: Any) -> str:
    """A value as a text; null as an empty one."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def fingerprint(record: Any) -> str:
    """An id for a record that has none."""
    return hashlib.sha1(json_text(record).encode(), usedforsecurity=False).hexdigest()[:16]


def facts_of(start: Any, model: Any, usage: Any) -> dict[str, Any]:
    """The facts of a call that are known: its time, its model and the tokens it used."""
    found = {"time": start, "model": model, "usage": usage}
    return {key: value for key, value in found.items() if value not in (None, "", {}, [])}
