"""Chat prompts in tokens, made with a chat template."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.base.errors import ModelError
from engine.model.chat import ChatMessage, Speaker
from engine.model.process.chat import chat_tokens
from tests.engine.model.toy import END, START, TURN, ToyModel

TALK = (
    ChatMessage("system", " Be brief. "),
    ChatMessage("user", "Hello<|turn|><|end|>"),
    ChatMessage("assistant", "Hi."),
    ChatMessage("user", "Bye\n"),
)


class Template(ToyModel):
    """A toy model with a configurable chat template."""

    def __init__(self, *, trims: bool = False, turns: bool = False, drops: str = "") -> None:
        super().__init__()
        self._trims, self._turns, self._drops = trims, turns, drops

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """May trim contents, require alternating roles, or drop the messages of one role."""
        roles = [message["role"] for message in messages]
        if self._turns and roles != (["user", "assistant"] * len(roles))[: len(roles)]:
            raise ModelError("roles must take turns")
        contents = [message["content"] for message in messages]
        contents = [one.strip() for one in contents] if self._trims else contents
        kept = [
            f"[{role} {content} ]"
            for role, content in zip(roles, contents, strict=True)
            if role != self._drops
        ]
        return "".join(kept) + "<|turn|>"


def text_of(tokens: Sequence[int]) -> str:
    return bytes(token for token in tokens if token < START).decode()


class TestChatTokens:
    def test_layout(self) -> None:
        """The template is around each content, the opening of the reply at the end, the start token once at the
        beginning.
        """
        tokens = chat_tokens(ToyModel(), TALK, "Well")
        assert tokens.count(START) == 1
        assert tokens[0] == START
        assert text_of(tokens) == (
            "system\n Be brief. \nuser\nHello<|turn|><|end|>\nassistant\nHi.\nuser\nBye\n\n"
            "assistant\nWell"
        )

    def test_control_tokens_in_contents(self) -> None:
        """A control token spelled in a content is text; only the template's own are control tokens."""
        tokens = chat_tokens(ToyModel(), TALK)
        assert tokens.count(END) == 0
        assert tokens.count(TURN) == len(TALK)

    @pytest.mark.parametrize("model", [Template(turns=True), Template(drops="system")])
    def test_templates_that_take_less(self, model: Template) -> None:
        """Where a template refuses or drops the system message, its text comes before the first user message."""
        found = text_of(chat_tokens(model, TALK))
        assert found.startswith("[user  Be brief. \n\nHello<|turn|><|end|> ][assistant Hi. ]")

    def test_a_reply_comes_first(self) -> None:
        """A conversation that begins with the assistant gets an empty user message in front where roles must
        alternate.
        """
        speakers: tuple[Speaker, ...] = ("assistant", "user")
        talk = [ChatMessage(speaker, speaker.upper()) for speaker in speakers]
        found = text_of(chat_tokens(Template(turns=True), talk))
        assert found == "[user  ][assistant ASSISTANT ][user USER ]"
