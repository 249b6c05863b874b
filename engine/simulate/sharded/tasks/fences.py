"""Finds fenced code blocks in the reply of a model."""

from __future__ import annotations

import re

_FENCE = "```"
_TAG = re.compile(
    r"\A[ \t]*(?:python3?|py|java|javascript|js|sql|json|text)?[ \t]*(?:\r?\n|\b)", re.IGNORECASE
)


def fenced(reply: str) -> list[str]:
    """Returns the contents of the closed fenced blocks, stripped and without the name of the language."""
    # Splits instead of matching a pattern, which takes minutes on the long runs of spaces that small models write.
    parts = reply.split(_FENCE)
    closed = parts[1::2] if len(parts) % 2 else parts[1:-1:2]
    return [_TAG.sub("", part, count=1).strip() for part in closed]
