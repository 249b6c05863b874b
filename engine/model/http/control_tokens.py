"""Breaks up texts in conversations that an endpoint would read as control tokens.

A server that is sent a text, and most that are asked for the tokens of one, reads `<|im_end|>` in it as the token of
that name, so a transcript could forge a turn. Such texts are split by a space, and a note reports it.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"<(?=\|[^|<>\s]{1,48}\|>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|turn|think|tool_call|tool_response)>)"
    r"|<(?=(?:start|end)_of_(?:turn|text|image)>)"
    r"|<(?=｜[^｜<>\s]{1,48}｜>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)


def without_controls(text: str) -> tuple[str, int]:
    """The text with such places broken up, and their number."""
    return _CONTROL.subn(lambda found: found.group() + " ", text)
