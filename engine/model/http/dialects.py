"""Requests that differ by server: tokenising, detokenising, and applying the chat template."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.http.capabilities import Template, Tokens

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Posts a body to a path and returns the JSON answer; see `Fleet.ask`."""


async def token_ids(
    ask: Ask, tokens: Tokens, text: str, *, special: bool = False, start: bool = False
) -> list[int]:
    """Tokens of a text.

    Args:
        special: Read control tokens as such, where the server can tell; others always do.
        start: Put the tokens in front that the model wants at the start of a sequence, where the server can tell.

    Raises:
        RequestRefused: The endpoint answers something else.
    """
    if tokens == "vllm":
        answer = await ask("/tokenize", {"prompt": text, "add_special_tokens": start})
    elif tokens == "llama-server":
        body = {"content": text, "add_special": start, "parse_special": special}
        answer = await ask("/tokenize", body)
    else:
        answer = await ask("/extras/tokenize", {"input": text})
    return _ids(answer, "tokens")


async def text_of(ask: Ask, tokens: Tokens, ids: Sequence[int]) -> str:
    """The text that tokens stand for, control tokens written out where the server does so.

    Raises:
        RequestRefused: The endpoint answers something else.
    """
    path = "/extras/detokenize" if tokens == "llama-cpp-python" else "/detokenize"
    answer = await ask(path, {"tokens": list(ids)})
    for name in ("prompt", "content", "text"):
        if isinstance(answer, dict) and isinstance(answer.get(name), str):
            return str(answer[name])
    raise RequestRefused("The endpoint gave no text for tokens.")


async def laid_out(ask: Ask, template: Template, messages: Sequence[Mapping[str, str]]) -> str:
    """Messages in the model's chat template, with the assistant's turn opened.

    Raises:
        RequestRefused: The endpoint answers something else.
    """
    if template == "llama-server":
        answer = await ask("/apply-template", {"messages": list(messages)})
        if isinstance(answer, dict) and isinstance(answer.get("prompt"), str):
            return str(answer["prompt"])
        raise RequestRefused("The endpoint laid out no messages.")
    body = {"messages": list(messages), "add_generation_prompt": True}
    return await text_of(ask, "vllm", _ids(await ask("/tokenize", body), "tokens"))


def grammar_for(text: str) -> str:
    """A GBNF grammar that allows one text."""
    return f"root ::= {json.dumps(text, ensure_ascii=False)}"


def _ids(answer: Any, name: str) -> list[int]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, int) for one in found):
        raise RequestRefused("The endpoint gave no tokens for a text.")
    return found
