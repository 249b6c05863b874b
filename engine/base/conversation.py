"""Conversations, the log that a model reads of one, and the words for how it went. Knows no files, SQL or models.

The log is rendered as a list of pieces, one per step, never as one string: each piece is tokenized on
its own, so the tokens of a prefix of the log are a prefix of the tokens of the log whatever the
tokenizer merges, and one pass over the whole log sees exactly what a pass over each prefix would.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

# Conversations and their messages

Role = Literal["system", "developer", "user", "assistant", "tool"]
"""Who wrote a message."""

MAX_MESSAGES = 1 << 20
"""Messages that one conversation can have here; far more than any model reads."""

EXPORT_OBJECT = "workbench"
"""Name of the object beside the messages of an exported conversation that holds its score, verdict and the like.

When the file is imported again, no format reads the object as truth, and no model reads it.
"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as the assistant wrote it.

    Attributes:
        name: Name of the tool.
        arguments: JSON text, or the text in its place when it is not JSON.
        call_id: The id that a tool message answers to, if any.
    """

    name: str
    arguments: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One step of a conversation.

    Attributes:
        role: Who wrote it.
        name: Name of the participant or tool, if the source has it.
        tool_calls: The calls that an assistant made with it.
        tool_call_id: The id of the call that a tool message answers.
        content: The text as imported; empty for a message that only calls tools.
        model_view: What a model reads instead of content and tool calls when the leak guard changed them; calls
            that stay are rendered in it. None: the same as imported.
        hidden: The leak guard keeps the whole message from a model.
        reasoning: What the assistant thought before it wrote the message. The user did not see it, so no model
            reads it.
        facts: JSON object of what else the source says of the message, such as time, model and usage.
    """

    role: Role
    content: str
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    model_view: str | None = None
    hidden: bool = False
    reasoning: str | None = None
    facts: str | None = None

    @property
    def seen(self) -> str:
        """The text that a model reads, tool calls included."""
        if self.model_view is not None:
            return self.model_view
        return with_calls(self.content, self.tool_calls) if self.tool_calls else self.content


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order, with what is known about them.

    Attributes:
        external_id: The id in the source, unique within one file; exports use it.
        messages: All messages, in order.
        meta: Anything of the source worth keeping that is neither text nor truth.
        truth: What is known from elsewhere (reward, gold goal, rating); never given to a metric.
        created_at: When it began, ISO 8601, as far as the source says.
    """

    external_id: str
    messages: tuple[Message, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, Any] | None = None
    created_at: str | None = None


def opens_turn(role: Role) -> bool:
    """Returns whether a message of this role starts a turn."""
    return role in ("system", "developer", "user")


def count_turns(messages: Iterable[Message]) -> int:
    """Returns the number of turns; hidden messages are counted, because the reader shows them."""
    return sum(index == 0 or opens_turn(message.role) for index, message in enumerate(messages))


_ascii_json = json.JSONEncoder(separators=(",", ":")).encode
"""Returns a value as JSON in one form for one value, in ASCII."""


def content_hash(messages: Iterable[Message]) -> bytes:
    """Returns the SHA-256 of the normalized messages, 32 bytes, by which duplicates are recognized."""
    canonical: list[list[Any]] = []
    for message in messages:
        calls = [[call.name, call.arguments] for call in message.tool_calls]
        canonical.append([message.role, message.content, message.name, calls])
        if message.reasoning:
            canonical[-1].append(message.reasoning)
    text = _ascii_json(canonical)
    return hashlib.sha256(b"messages/1:" + text.encode("ascii")).digest()


# The log that a model reads


Kind = Literal["chat", "action"]
"""Whether a step only says something, or calls tools."""

LOG_SEPARATOR = "\n\n"
"""Separates the pieces of a log; part of every piece but the first."""

CALLS_HEADER = "TOOL CALLS: "
"""Introduces the tool calls of a step."""

STEP_OPENING = LOG_SEPARATOR + "TURN"
"""The beginning of every continuation of a log: the fixed part of the next step's header."""


class LogPiece(NamedTuple):
    """One step as a model reads it.

    Attributes:
        message: Index of the message in its conversation, from 0.
        role: Who wrote it.
        turn: Number of the turn, from 1; a turn starts at each system or user message.
        step: Number of the step, from 1, among the steps a model sees.
        kind: Whether it only says something, or calls tools.
        header: The line above the content, with the separator in front for all but the first piece.
        body: The content.
    """

    message: int
    role: Role
    turn: int
    step: int
    kind: Kind
    header: str
    body: str

    @property
    def text(self) -> str:
        """Header, newline and content."""
        return f"{self.header}\n{self.body}"


def render_log(messages: Iterable[Message]) -> list[LogPiece]:
    """Returns the log that a model reads, one piece for each step; hidden messages are left out."""
    pieces: list[LogPiece] = []
    turn = 0
    for index, message in enumerate(messages):
        if message.hidden:
            continue
        if not pieces or opens_turn(message.role):
            turn += 1
        body = message.seen
        # a model's view may have no calls although the message made some
        kind: Kind = "action" if message.tool_calls and CALLS_HEADER in body else "chat"
        step = len(pieces) + 1
        header = step_header(turn, step, message.role, kind, message.name)
        if pieces:
            header = LOG_SEPARATOR + header
        pieces.append(LogPiece(index, message.role, turn, step, kind, header, body))
    return pieces


def step_header(turn: int, step: int, role: Role, kind: Kind, name: str | None = None) -> str:
    """Returns the line that opens a step, `TURN 3, STEP 5, assistant (tool) chat:`.

    A tool's answer is the assistant's side of the log, marked `(tool)`; a named participant is marked with
    its name, as in `user (underwriter) chat:`.
    """
    if role == "tool":
        speaker = "assistant (tool)"
    else:
        speaker = "system" if role == "developer" else role
        if name:
            speaker = f"{speaker} ({name})"
    return f"TURN {turn}, STEP {step}, {speaker} {kind}:"


def is_answer(piece: str) -> bool:
    """Returns whether the text of a piece is a step of the assistant or of its tools, going by its header."""
    header, _, _ = piece.removeprefix(LOG_SEPARATOR).partition("\n")
    # the last part of "TURN 3, STEP 5, assistant (tool) chat:"
    return header.split(", ", 2)[-1].startswith("assistant ")


def count_pinned(pieces: Sequence[LogPiece]) -> int:
    """Returns the number of leading pieces that every part of a log keeps: 1 if the first instructs the model, else
    0."""
    return int(bool(pieces) and pieces[0].role in ("system", "developer"))


def with_calls(text: str, calls: Sequence[ToolCall]) -> str:
    """Returns a text followed by the calls as a model reads them, on a line of their own."""
    rendered = CALLS_HEADER + render_tool_calls(calls)
    return f"{text}\n{rendered}" if text else rendered


def render_tool_calls(calls: Sequence[ToolCall]) -> str:
    """Returns tool calls as one line of JSON, with the arguments parsed where they are JSON."""
    rendered = ", ".join(
        f'{{"name": {_json(call.name)}, "args": {_arguments(call.arguments)}}}' for call in calls
    )
    return f"[{rendered}]"


def _arguments(arguments: str) -> str:
    """Returns the arguments of a call as JSON; as a text in JSON where they are no JSON."""
    try:
        return _json(json.loads(arguments))
    except (ValueError, RecursionError):
        return _json(arguments)


def _json(value: Any) -> str:
    """Returns a value as JSON that may hold any character."""
    # Escapes within arguments may stand for lone surrogates.
    return without_surrogates(json.dumps(value, ensure_ascii=False))


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Matches half of a character of UTF-16, which is no character by itself."""


def without_surrogates(text: str) -> str:
    """Returns the text with U+FFFD for each lone surrogate, which neither UTF-8 nor databases nor tokenizers take."""
    return _SURROGATE.sub("\ufffd", text)


# How a conversation went


class State(StrEnum):
    """The state of a conversation by its completeness score; `unscored` is never counted as one of the others.

    The values are what JSON, the Python API and the project file have; `word` is what people read.
    """

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    BORDERLINE = "borderline"
    UNSCORED = "unscored"

    @property
    def word(self) -> str:
        """The answer to "Did it end?": `ended`, `broken off`, `open` near the threshold, or `not scored`."""
        return _STATE_WORDS[self]


_STATE_WORDS = {
    State.COMPLETE: "ended",
    State.INCOMPLETE: "broken off",
    State.BORDERLINE: "open",
    State.UNSCORED: "not scored",
}

SUCCEEDED = "succeeded"
"""Name of the question that every project has: did the user get what they wanted."""


class Verdict(StrEnum):
    """The answer of a person to the question `SUCCEEDED`."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
