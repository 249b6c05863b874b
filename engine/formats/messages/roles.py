"""The words that logs, tables and transcripts have for who speaks, and the roles that they stand for.

A *role* is one of the five that a message has (`engine.base.conversation.Role`). A *word* is what a log says in its
place, such as `gpt`, `customer` or `toolResult`, in any case of letters.
"""

from __future__ import annotations

import re
from typing import Any

from engine.base.conversation import Role

CHAT_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "gpt", "chatgpt", "bing", "bard", "ai", "bot", "model"), "assistant"
    ),
    **dict.fromkeys(
        ("function_call", "tool_call", "tool_use", "tool_call_invocation"), "assistant"
    ),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
    **dict.fromkeys(("tool_response", "toolresult", "tool_result", "tool_call_result"), "tool"),
    **dict.fromkeys(("tool_output", "function_response", "function_call_output"), "tool"),
}
"""Roles of chat APIs and their exports; any format may have them."""

USERS = (
    "customer", "client", "caller", "visitor", "guest", "patient", "student", "me", "you", "buyer", "shopper",
    "passenger", "tenant", "learner", "driver", "end-user", "end_user",
)  # fmt: skip
"""Words for people who ask, as they stand before a colon, in a column or under `speaker`."""

ASSISTANTS = (
    "agent", "chatbot", "claude", "gemini", "copilot", "llama", "operator", "support", "rep", "representative",
    "advisor", "supervisor", "manager", "specialist", "technician", "consultant", "receptionist", "concierge", "tutor",
    "teacher", "doctor", "nurse", "therapist", "seller", "instructor", "wizard",
)  # fmt: skip
"""Words for what or who answers, as they stand before a colon, in a column or under `speaker`."""

_COLUMN_USERS = ("lead", "inbound", "incoming", "question", "prompt")
"""Words for people who ask in a column of a table; before a colon these words usually mean something else."""

_COLUMN_ASSISTANTS = ("outbound", "outgoing", "admin", "answer", "response", "completion")
"""Words for what or who answers in a column of a table; before a colon these words usually mean something else."""

_SPEAKERS: dict[str, Role] = {
    **dict.fromkeys((*USERS, *_COLUMN_USERS), "user"),
    **dict.fromkeys((*ASSISTANTS, *_COLUMN_ASSISTANTS), "assistant"),
}
"""Words for speakers -> the roles that they stand for."""
_SYSTEM_WORD = re.compile(r"system|developer|instruction|guide|narrator")
"""Finds words for instructions in a label."""
_TOOL_WORD = re.compile(
    r"tool|function|api\b|observation|environment|knowledge.?base|database|sandbox|terminal|shell|crm|result|action|event"
)
"""Finds words for tools in a label."""
_LABEL_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""Finds each word of a label such as `userMessage`."""

_SPEAKER_EVENT = re.compile(
    r"(\w+?)[_.](?:message|msg|utterance|response|reply|prompt|query|input|text|said)",
    re.IGNORECASE,
)
"""Matches what a log calls an event in which someone speaks, as `user_message` or `bot.reply`."""


def plain_role(word: str) -> str:
    """Returns a word for a role in one form: `toolResult` and `tool-result` as `tool_result`."""
    return re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word.strip())).lower()


def role_named(word: str) -> Role | None:
    """Returns the role that a word of a chat API stands for, in any case of letters and with any sign between its
    words; None if it is no known word."""
    return CHAT_ROLES.get(word) or CHAT_ROLES.get(plain_role(word))


def role_of_speaker(word: str) -> Role | None:
    """Returns the role that a word for a speaker stands for, in any case of letters; None if it is no known word."""
    if (role := CHAT_ROLES.get(word)) is not None:
        return role
    plain = plain_role(word)
    return CHAT_ROLES.get(plain) or _SPEAKERS.get(plain) or _SPEAKERS.get(word.strip().lower())


def role_of_event(word: str) -> Role | None:
    """Returns the role of the speaker of an event; None if its name does not say that someone speaks."""
    match = _SPEAKER_EVENT.fullmatch(plain_role(word))
    return role_of_speaker(match[1]) if match else None


def speaker_word(value: Any) -> str:
    """Returns the word for a speaker, which is a text, or an object that says whether it is a bot, its role or its
    name; empty for anything else."""
    if isinstance(value, dict):
        if isinstance(value.get("bot"), bool):
            return "bot" if value["bot"] else "user"
        keys = ("role", "type", "name", "display_name", "username")
        value = next((value[key] for key in keys if value.get(key)), None)
    return value if isinstance(value, str) else ""


def role_meant(text: str) -> Role | None:
    """Returns the role that a label with a known word in it stands for, as `support agent 2` or `userMessage`; None if
    no word of it is known. Of two known words the last decides."""
    if (role := role_of_speaker(text)) is not None:
        return role
    lower = text.lower()
    if _TOOL_WORD.search(lower):
        return "tool"
    if _SYSTEM_WORD.search(lower):
        return "system"
    words = _LABEL_WORD.findall(text)
    return next(filter(None, map(role_of_speaker, reversed(words))), None)
