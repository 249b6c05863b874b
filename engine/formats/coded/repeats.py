"""Tells what of a record repeats its messages, so that only the rest is kept as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from engine.base.conversation import Message
from engine.formats.accounting import strings
from engine.formats.json_values import json_text
from engine.formats.paths import json_within

_STRUCTURE = ("role", "type", "object", "speaker")

_LEAST_PIECE = 20
"""Characters from which a text that is within a message is taken for a copy of a piece of it."""


class MessageTexts:
    """The texts of messages.

    Args:
        left_out: Keys whose values are kept elsewhere.
    """

    def __init__(self, messages: Iterable[Message], left_out: frozenset[str] = frozenset()) -> None:
        texts = []
        for message in messages:
            texts += [message.content, message.reasoning or ""]
            texts += [message.name or "", message.tool_call_id or ""]
            texts += strings(json.loads(message.facts or "{}"))
            for call in message.tool_calls:
                texts += [call.name, call.arguments, call.call_id or ""]
        self._exact = set(texts)
        self._joined = "\n".join(texts)
        self._passed_over = left_out.union(_STRUCTURE)

    def without(self, value: Any) -> Any:
        """The value without what the messages have, and without what is then empty; None if nothing is left."""
        if isinstance(value, str):
            if not value or value in self._exact:
                return None
            inner = json_within(value)
            if inner is not value:
                return self.without(inner)
            if len(value) < _LEAST_PIECE:
                return value
            return (
                None if value in self._joined or json_text(value)[1:-1] in self._joined else value
            )
        if isinstance(value, dict):
            kept = {
                key: left
                for key, entry in value.items()
                if key not in self._passed_over and (left := self.without(entry)) is not None
            }
            said = {key: value[key] for key in _STRUCTURE if isinstance(value.get(key), str)}
            return {**said, **kept} if kept else None
        if isinstance(value, list):
            return [left for entry in value if (left := self.without(entry)) is not None] or None
        return value
