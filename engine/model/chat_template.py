"""Tokenises a conversation with the model's own chat template.

Control tokens are recognised only in the text of the template. Message contents are untrusted and tokenised as plain
text, so that none of them can forge a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engine.base.errors import ModelError
from engine.model.chat import ChatMessage, Speaker
from engine.model.interface import Tokenizer
from engine.model.prompt_files import started

# Whitespace that no template writes is put around each mark: if it is missing, the template trims contents.
_EDGE = "\x0b"
_MARK = re.compile(f"({_EDGE}?)\ue000([0-9]+)\ue001({_EDGE}?)")

_Arrangement = list[tuple[Speaker, str]]


def chat_tokens(
    tokenizer: Tokenizer, messages: Sequence[ChatMessage], opening: str = ""
) -> list[int]:
    """The tokens that a model reads before it writes the next assistant message.

    If the template refuses system messages or wants alternating roles, the system message becomes a user message and
    consecutive messages of one role are joined.

    Args:
        opening: Beginning of the reply, written for the model.

    Raises:
        ModelError: The model has no chat template, or one that takes no such messages.
    """
    rendered = _rendered(tokenizer, [message.speaker for message in messages])
    tokens: list[int] = []
    at = 0
    for found in _MARK.finditer(rendered):
        before = rendered[at : found.start()]
        tokens += tokenizer.tokenize(before, special=True) if tokens else started(tokenizer, before)
        content = messages[int(found.group(2))].content
        content = content if found.group(1) else content.lstrip()
        content = content if found.group(3) else content.rstrip()
        tokens += tokenizer.tokenize(content) if content else []
        at = found.end()
    tokens += tokenizer.tokenize(rendered[at:], special=True)
    return tokens + (tokenizer.tokenize(opening) if opening else [])


def _rendered(tokenizer: Tokenizer, speakers: Sequence[Speaker]) -> str:
    """The rendered template, with a mark in place of each message content."""
    refused: ModelError | None = None
    for arranged in _arrangements(speakers):
        try:
            rendered = tokenizer.render_chat(
                [{"role": speaker, "content": content} for speaker, content in arranged]
            )
        except ModelError as error:
            refused = refused or error
            continue
        if [int(found.group(2)) for found in _MARK.finditer(rendered)] == [*range(len(speakers))]:
            return rendered
    raise refused or ModelError("The model's chat template leaves messages out.")


def _arrangements(speakers: Sequence[Speaker]) -> Iterator[_Arrangement]:
    """The messages as they are, then in the simplest form, which all templates accept."""
    marked: _Arrangement = [
        (speaker, f"{_EDGE}\ue000{number}\ue001{_EDGE}") for number, speaker in enumerate(speakers)
    ]
    yield marked
    simple: _Arrangement = []
    for speaker, content in marked:
        side: Speaker = "assistant" if speaker == "assistant" else "user"
        if simple and simple[-1][0] == side:
            simple[-1] = side, f"{simple[-1][1]}\n\n{content}"
        else:
            simple.append((side, content))
    if simple[0][0] == "assistant":
        simple.insert(0, ("user", ""))
    yield simple
