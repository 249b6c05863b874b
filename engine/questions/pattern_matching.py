"""Answers a question by what messages say, and names the places.

Regular expressions run in RE2, whose time grows with the text and not with the expression, so that none can hang
(https://github.com/google/re2). Of a message `MAX_CHARACTERS` are read from either end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import re2

from engine.base.conversation import Message
from engine.base.errors import UsageError
from engine.base.text import CJK
from engine.questions.question import NO, Pattern, Question
from engine.questions.records import Cite
from engine.signs.reading import read_signs

MAX_CHARACTERS = 50_000
"""Number of characters that are read of each end of a message."""

MAX_CITES = 10
"""Most places that an answer names."""

_LEFT, _RIGHT = r"(?:^|[^\pL\pN_])", r"(?:[^\pL\pN_]|$)"
"""Edges of a word in any script; the edges that RE2 has itself know ASCII only."""

_CJK = re.compile(f"[{CJK}]")
"""Matches a Chinese or Japanese character."""

Find = Callable[[str], "tuple[int, int] | None"]
"""Returns the first place in a text that matches; None where none does."""


class PatternMatcher:
    """The patterns of one question, made ready."""

    def __init__(self, question: Question) -> None:
        """Compiles the patterns.

        Raises:
            UsageError: The question has no pattern, or one that RE2 cannot read.
        """
        if not question.patterns:
            raise UsageError(
                f"The question “{question.name}” has no pattern.",
                "Write [[patterns]] with words or a regex into its file.",
            )
        self._patterns = [(pattern, _compile(pattern)) for pattern in question.patterns]
        default = NO if question.kind == "yes-no" else None
        self._otherwise = question.otherwise or default

    def answer(self, messages: Sequence[Message]) -> tuple[str | None, tuple[Cite, ...]]:
        """Returns the answer on a conversation and the places that show it; None where no pattern matches and the
        question has no answer for that."""
        for pattern, find in self._patterns:
            if pattern.sign is None:
                cites = _find_cites(pattern, find, messages)
            else:
                readings = [
                    reading for reading in read_signs(messages) if reading.sign == pattern.sign
                ]
                cites = [(index, 0, 0) for reading in readings for index in reading.messages]
            if len(cites) >= pattern.least:
                return pattern.answer, tuple(cites[:MAX_CITES])
        return self._otherwise, ()


def _compile(pattern: Pattern) -> Find:
    """Returns what finds a pattern in a text.

    Raises:
        UsageError: RE2 cannot read the expression, or there is none and no words.
    """
    ways = bool(pattern.words) + bool(pattern.regex) + (pattern.sign is not None)
    if ways > 1 or not (ways or pattern.tools):
        raise UsageError(
            "A pattern needs words, a regex or a sign, or none of them and tools.",
            "Write one of the three.",
        )
    if not (pattern.words or pattern.regex):
        return lambda _: (0, 0)
    text = pattern.regex or "|".join(map(_word_expression, pattern.words))
    options = re2.Options()
    options.case_sensitive = bool(pattern.regex)
    options.log_errors = False
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        raise UsageError(
            f"The pattern {text!r} cannot be read: {error.args[0].decode()}.",
            "Its syntax is that of RE2, which has no references back and no look around.",
        ) from error

    def find(text: str) -> tuple[int, int] | None:
        """Returns the place of the first group that matched, else of the whole match."""
        match = compiled.search(text)
        if match is None:
            return None
        group = 0 if pattern.regex else match.lastindex or 0
        start, end = match.span(group)
        return int(start), int(end)

    return find


def _word_expression(text: str) -> str:
    """Returns the expression of a word or phrase between the edges of words; Chinese and Japanese have none."""
    escaped = r"\s+".join(re.escape(part) for part in text.split())
    left = "" if _CJK.match(text[:1]) else _LEFT
    right = "" if _CJK.match(text[-1:]) else _RIGHT
    return f"{left}({escaped}){right}"


def _find_cites(pattern: Pattern, find: Find, messages: Sequence[Message]) -> list[Cite]:
    """Returns the places where a pattern matches, at most one of each message."""
    calls: dict[str, str] = {}  # name of the tool by the id of the call
    cites: list[Cite] = []
    indices = [index for index, message in enumerate(messages) if _includes_role(pattern, message)]
    if pattern.position != "any":
        indices = indices[:1] if pattern.position == "first" else indices[-1:]
    allowed_indices = frozenset(indices)
    for index, message in enumerate(messages):
        tools = {call.name for call in message.tool_calls}
        calls.update((call.call_id, call.name) for call in message.tool_calls if call.call_id)
        if index not in allowed_indices:
            continue
        if pattern.tools:
            result_of = calls.get(message.tool_call_id or "", message.name or "")
            if not tools.intersection(pattern.tools) and result_of not in pattern.tools:
                continue
        if (place := _find_place(find, message)) is not None:
            cites.append((index, *place))
    return cites


def _includes_role(pattern: Pattern, message: Message) -> bool:
    """Returns whether a pattern is about the role of a message."""
    return message.role in pattern.roles if pattern.roles else message.role != "system"


def _find_place(find: Find, message: Message) -> tuple[int, int] | None:
    """Returns the place that matches in a message: in its text, else somewhere in its tool calls."""
    text = message.content
    offset = 0 if len(text) <= 2 * MAX_CHARACTERS else len(text) - MAX_CHARACTERS
    parts = [(0, text)] if not offset else [(0, text[:MAX_CHARACTERS]), (offset, text[offset:])]
    for start, part in parts:
        if (place := find(part)) is not None:
            return start + place[0], start + place[1]
    if message.tool_calls:
        calls = "\n".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        if find(calls[: 2 * MAX_CHARACTERS]) is not None:
            return 0, 0
    return None
