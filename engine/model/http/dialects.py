"""What differs by server: tokenizing, detokenizing, the chat template, and the form of answers.

Three forms of log-probabilities are in use: OpenAI's old one (`tokens`, `token_logprobs`, `top_logprobs`, tokens as
texts), the same with tokens named `token_id:N` (vLLM, SGLang), and the one of chats (`content`, a list of objects, with
ids and bytes where the server gives them, as llama-server does).

A server that is sent a text, and most that are asked for the tokens of one, reads `<|im_end|>` in it as the token of
that name, so a transcript could forge a turn. Such texts are split by a space, and a note reports it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.base.conversation import without_surrogates
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


_NAMED = "token_id:"


@dataclass(frozen=True, slots=True)
class Listed:
    """A token as an endpoint lists it.

    Attributes:
        token: Its id; None where the endpoint names tokens by their text only.
        text: Its bytes as far as the answer gives them; None where it names ids only.
        log_p: Natural log-probability.
    """

    token: int | None
    text: bytes | None
    log_p: float


@dataclass(frozen=True, slots=True)
class Step:
    """One position of a completion: the chosen token, and the most probable ones in order.

    In a prompt, `chosen` is the token of the prompt; it is None at the first position.
    """

    chosen: Listed | None
    top: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """One completion: its text, why it ended (`stop` or `length`), and its steps where log-probabilities were asked."""

    text: str
    ended: Literal["stop", "length"]
    steps: tuple[Step, ...]


def written(answer: Any) -> Written:
    """The one choice of an answer to `completions` or `chat/completions`.

    Raises:
        RequestRefused: It is not of the form it should have.
    """
    try:
        (choice,) = answer["choices"]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        cut = choice.get("finish_reason") == "length"
        if not isinstance(text, str | None):
            raise TypeError(f"{type(text).__name__} is no text")
        return Written(without_surrogates(text or ""), "length" if cut else "stop", _steps(choice))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise RequestRefused("The endpoint answered something that is no completion.") from error


def _steps(choice: Mapping[str, Any]) -> tuple[Step, ...]:
    listed_probabilities = choice.get("logprobs")
    if not listed_probabilities:
        return ()
    if isinstance(listed_probabilities.get("content"), list):
        return tuple(_step_of_chat(entry) for entry in listed_probabilities["content"])
    found = []
    for name, log_p, top in zip(
        listed_probabilities["tokens"],
        listed_probabilities["token_logprobs"],
        listed_probabilities.get("top_logprobs") or [None] * len(listed_probabilities["tokens"]),
        strict=True,
    ):
        listed = sorted((_named(n, p) for n, p in (top or {}).items()), key=lambda t: -t.log_p)
        chosen = None if log_p is None else _named(name, log_p)
        found.append(Step(chosen, tuple(listed)))
    return tuple(found)


def _named(name: str, log_p: Any) -> Listed:
    if name.startswith(_NAMED):
        return Listed(int(name[len(_NAMED) :]), None, _log_p(log_p))
    return Listed(None, name.encode(), _log_p(log_p))


def _step_of_chat(entry: Mapping[str, Any]) -> Step:
    top: Sequence[Mapping[str, Any]] = entry.get("top_logprobs") or entry.get("top_probs") or []
    listed = sorted((_of_chat(one) for one in top), key=lambda one: -one.log_p)
    return Step(_of_chat(entry), tuple(listed))


def _of_chat(entry: Mapping[str, Any]) -> Listed:
    name, token, raw, log_p = (entry.get(key) for key in ("token", "id", "bytes", "logprob"))
    spelled = bytes(raw) if raw and isinstance(raw, list) else None
    if str(name).startswith(_NAMED):
        return Listed(int(str(name)[len(_NAMED) :]), spelled, _log_p(log_p))
    text = spelled or str(name).encode()
    return Listed(token if isinstance(token, int) else None, text, _log_p(log_p))


def _log_p(value: Any) -> float:
    number = float(value)
    if math.isnan(number) or number > 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return min(0.0, number)
