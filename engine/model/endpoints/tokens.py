"""Tokens and chat templates of endpoints: how a server is asked for them, and an estimate of tokens without asking.

Servers give the tokens of a text in three ways, and lay out messages by the chat template of their model in two
(`Tokens` and `Template` in `engine.model.endpoints.capabilities`). Code that is not asynchronous uses an endpoint as a
tokenizer through `RequestedTokens`, for which the tokens are requested in advance.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.endpoints.capabilities import Capabilities, Template, Tokens
from engine.model.prompt_files import LOG_MARK, Prompt, TokensAround, tokens_around

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Posts a body to a path and returns the JSON answer; see `RequestSender.ask`."""

_PIECE = re.compile(r"[^\W\d_]{1,12}|\d{1,3}|[^\w\s]")
"""A piece of text that is about a token: letters of a word, digits of a number, or a sign."""

_CONTROL_TOKEN = re.compile(
    r"<(?=\|[^|<>\s]{1,48}\|>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|turn|think|tool_call|tool_response)>)"
    r"|<(?=(?:start|end)_of_(?:turn|text|image)>)"
    r"|<(?=｜[^｜<>\s]{1,48}｜>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
"""Matches the first character of a text that some server reads as a control token; the rest of the pattern is a
lookahead. By line: `<|im_end|>`, `</s>`, `<end_of_turn>`, `<｜User｜>` with wide bars, and `[/INST]`."""


async def token_ids(
    ask: Ask, tokens: Tokens, text: str, *, special: bool = False, start: bool = False
) -> list[int]:
    """Returns the token ids of a text.

    Args:
        tokens: The way in which the server gives tokens.
        special: Whether control tokens in the text are read as such; only `llama-server` has a choice.
        start: Whether the tokens that the model wants at the start of a sequence are put in front; `llama-cpp-python`
            has no choice.

    Raises:
        RequestRefused: The answer has no tokens.
    """
    if tokens == "vllm":
        answer = await ask("/tokenize", {"prompt": text, "add_special_tokens": start})
    elif tokens == "llama-server":
        body = {"content": text, "add_special": start, "parse_special": special}
        answer = await ask("/tokenize", body)
    else:
        answer = await ask("/extras/tokenize", {"input": text})
    return _token_list(answer)


async def detokenize(ask: Ask, tokens: Tokens, ids: Sequence[int]) -> str:
    """Returns the text that tokens stand for; whether control tokens are written out depends on the server.

    Raises:
        RequestRefused: The answer has no text.
    """
    path = "/extras/detokenize" if tokens == "llama-cpp-python" else "/detokenize"
    answer = await ask(path, {"tokens": list(ids)})
    for name in ("prompt", "content", "text"):
        if isinstance(answer, dict) and isinstance(answer.get(name), str):
            return str(answer[name])
    raise RequestRefused("The endpoint gave no text for tokens.")


async def apply_template(
    ask: Ask, template: Template, messages: Sequence[Mapping[str, str]]
) -> str:
    """Returns messages as one text in the model's chat template, with the assistant's turn opened.

    Raises:
        RequestRefused: The answer has no such text.
    """
    if template == "llama-server":
        answer = await ask("/apply-template", {"messages": list(messages)})
        if isinstance(answer, dict) and isinstance(answer.get("prompt"), str):
            return str(answer["prompt"])
        raise RequestRefused("The endpoint laid out no messages.")
    body = {"messages": list(messages), "add_generation_prompt": True}
    return await detokenize(ask, "vllm", _token_list(await ask("/tokenize", body)))


def _token_list(answer: Any) -> list[int]:
    """Returns the token ids in an answer.

    Raises:
        RequestRefused: There are none.
    """
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise RequestRefused("The endpoint gave no tokens for a text.")
    return tokens


def count_pieces(text: str) -> int:
    """Returns the number of pieces of a text.

    A piece is about a token in prose and in JSON alike. A character is not: JSON has more tokens for as many.
    """
    return sum(1 for _ in _PIECE.finditer(text))


def break_up_controls(text: str) -> tuple[str, int]:
    """Returns the text with a space within each control token, so that no server reads it as one, and their number."""
    return _CONTROL_TOKEN.subn(lambda match: match.group() + " ", text)


class RequestedTokens:
    """An `engine.model.interface.TextTokenizer` for texts whose tokens were requested before."""

    def __init__(self, ask: Ask, capabilities: Capabilities) -> None:
        """Knows no text yet."""
        self._ask, self._capabilities = ask, capabilities
        self._tokens: dict[tuple[str, bool, bool], list[int]] = {}  # by text, special and start
        self._layouts: dict[str, str] = {}  # by the content of the one message

    async def request(
        self, texts: Iterable[str], *, special: bool = False, start: bool = False
    ) -> None:
        """Requests the tokens of texts, so that `tokenize` knows them.

        Raises:
            RequestRefused: The endpoint answers something else.
        """
        new = {(text, special, start) for text in texts} - self._tokens.keys()
        token_lists = await asyncio.gather(*(self._ask_for_tokens(*key) for key in new))
        self._tokens.update(zip(new, token_lists, strict=True))

    async def request_around(self, prompt: Prompt) -> TokensAround:
        """Lays a prompt out and requests its tokens; returns the tokens before and after the log.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        # these are the texts of which `tokens_around` asks for tokens
        await self.request([""], special=True, start=True)
        if prompt.chat:
            before, after = await self._template_around(prompt)
            await self.request([before, after], special=True)
            await self.request([before], special=True, start=True)
            await self.request([prompt.reply])
        else:
            await self.request([prompt.before], special=True, start=True)
            await self.request([prompt.question + prompt.reply])
        return tokens_around(prompt, self)

    async def lay_out(self, prompt: Prompt) -> tuple[str, str]:
        """Returns the text before and after a log where the chat template lays a prompt out. Without the start token:
        an endpoint puts one in front of a text itself.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        before, after = await self._template_around(prompt)
        if self._capabilities.tokens:
            await self.request([""], special=True, start=True)
            await self.request([before], special=True)
            # the template may write the start token, which is taken off
            first = self.tokenize(before, special=True)[:1]
            if first and first[0] in self.tokenize("", special=True, start=True):
                start_text = await detokenize(self._ask, self._capabilities.tokens, first)
                before = before.removeprefix(start_text)
        return before, after + prompt.reply

    async def _template_around(self, prompt: Prompt) -> tuple[str, str]:
        """Returns the text of the chat template around a log, up to the reply; see `lay_out`.

        Raises:
            RequestRefused: The endpoint cannot lay the message out, or leaves its text away.
        """
        content = prompt.before + LOG_MARK + prompt.question
        rendered = await apply_template(
            self._ask, self._capabilities.template, [{"role": "user", "content": content}]
        )
        self._layouts[content] = rendered
        before, mark, after = rendered.partition(LOG_MARK)
        if not mark:
            raise RequestRefused("The endpoint laid out a message without its text.")
        return before, after

    async def _ask_for_tokens(self, text: str, special: bool, start: bool) -> list[int]:
        """Returns the tokens of one text, as the endpoint gives them."""
        style = self._capabilities.tokens
        tokens = await token_ids(self._ask, style, text, special=special, start=start)
        if style == "llama-cpp-python" and not start:
            # This server always puts the starting tokens in front.
            starting_tokens = await token_ids(self._ask, style, "")
            return tokens[len(starting_tokens) :]
        return tokens

    # The tokenizer

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Returns the tokens of a text, which were requested before; raises KeyError if they were not."""
        return list(self._tokens[(text, special, start)])

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the layout of a message that is a prompt, which was requested before; raises KeyError if not."""
        (message,) = messages
        return self._layouts[message["content"]]
