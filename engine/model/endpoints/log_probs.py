"""Next-token probabilities over HTTP: the most probable tokens after a text, and those of the text itself.

With `echo` (`engine.model.endpoints.capabilities`) an endpoint repeats a prompt with the log-probability of each of its
tokens.

Tokens of texts are requested in advance (learned), so that synchronous code can use the endpoint as a `Tokenizer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.dialects import (
    THINKING_TOKENS,
    Ask,
    Step,
    Written,
    apply_template,
    read_completion,
    text_of,
    token_ids,
)
from engine.model.log_windows import GAP
from engine.model.prompt_files import Frame, Prompt, frame

_LOG_MARK = "\x1eLOG\x1e"
"""Stands for the log while a prompt is laid out by the chat template."""

UNBOUNDED = 1_000_000_000
"""Context in tokens of an endpoint that does not say how much it holds: what is too long it refuses itself."""


class LearnedTokens:
    """An `engine.model.interface.Tokenizer` for texts whose tokens were requested before."""

    def __init__(self, ask: Ask, can: Capabilities) -> None:
        """Knows no text yet."""
        self._ask, self._can = ask, can
        self._known: dict[tuple[str, bool, bool], list[int]] = {}
        self._layouts: dict[str, str] = {}

    async def learn(
        self, texts: Iterable[str], *, special: bool = False, start: bool = False
    ) -> None:
        """Requests the tokens of texts.

        Raises:
            RequestRefused: The endpoint answers something else.
        """
        new = {(text, special, start) for text in texts} - self._known.keys()
        token_lists = await asyncio.gather(*(self._tokens(*request) for request in new))
        self._known.update(zip(new, token_lists, strict=True))

    async def learn_prompt(self, prompt: Prompt | None) -> Frame:
        """Lays a prompt out and requests its tokens; None is the bare log. Returns the tokens around the log.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        await self.learn([""], special=True, start=True)
        if prompt is None:
            return frame(None, self)
        if not prompt.chat:
            await self.learn([prompt.before], special=True, start=True)
            await self.learn([prompt.question + prompt.reply])
            return frame(prompt, self)
        before, after = await self._around(prompt)
        await self.learn([before, after], special=True)
        await self.learn([before], special=True, start=True)
        await self.learn([prompt.reply])
        return frame(prompt, self)

    async def lay_out(self, prompt: Prompt) -> tuple[str, str]:
        """Returns the text before and after a log where the chat template lays a prompt out. Without the start token:
        an endpoint puts one in front of a text itself.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        before, after = await self._around(prompt)
        if self._can.tokens:
            await self.learn([""], special=True, start=True)
            await self.learn([before], special=True)
            first = self.tokenize(before, special=True)[:1]
            if first and first[0] in self.tokenize("", special=True, start=True):
                start_text = await text_of(self._ask, self._can.tokens, first)
                before = before.removeprefix(start_text)
        return before, after + prompt.reply

    async def _around(self, prompt: Prompt) -> tuple[str, str]:
        """Returns the text of the chat template around a log, up to the reply; see `lay_out`."""
        content = prompt.before + _LOG_MARK + prompt.question
        rendered = await apply_template(
            self._ask, self._can.template, [{"role": "user", "content": content}]
        )
        self._layouts[content] = rendered
        before, marked, after = rendered.partition(_LOG_MARK)
        if not marked:
            raise RequestRefused("The endpoint laid out a message without its text.")
        return before, after

    async def learn_log(self, texts: Sequence[str]) -> None:
        """Requests the tokens of the pieces of a log and of the mark for omitted text."""
        await self.learn([*texts, GAP])

    async def _tokens(self, text: str, special: bool, start: bool) -> list[int]:
        """Requests the tokens of one text."""
        style = self._can.tokens
        tokens = await token_ids(self._ask, style, text, special=special, start=start)
        if style == "llama-cpp-python" and not start:
            # This server always puts the starting tokens in front.
            starting_tokens = await token_ids(self._ask, style, "")
            return tokens[len(starting_tokens) :]
        return tokens

    # The tokenizer

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Returns the tokens of a text that the server tokenized before."""
        return list(self._known[(text, special, start)])

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the one message of a prompt that the server tokenized before."""
        (message,) = messages
        return self._layouts[message["content"]]

    def token_bytes(self, token: int) -> bytes:
        """Raises NotImplementedError: texts are only read, never written token by token."""
        raise NotImplementedError

    @property
    def end_token(self) -> int:
        """The model's end-of-text token; -1 where the endpoint does not say."""
        return -1 if self._can.end_token is None else self._can.end_token

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The end-of-text token, where it is known."""
        return frozenset() if self._can.end_token is None else frozenset({self._can.end_token})


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt that is no message, but raw text.

    Attributes:
        text: The prompt as text, for an endpoint that takes texts.
        ids: The prompt in tokens, for an endpoint that takes those.
    """

    text: str
    ids: tuple[int, ...]


@dataclass(slots=True)
class Thinking:
    """What a run learned of the model's thinking.

    Attributes:
        tokens: Tokens that each reply gets for it, beside those of the answer.
    """

    tokens: int

    @classmethod
    def of(cls, can: Capabilities) -> Thinking:
        """Returns what the probe says of it."""
        return cls(THINKING_TOKENS[0] if can.thinks else 0)


class Reader:
    """Reads probabilities from endpoints that serve the same model. Equal requests in flight are sent once."""

    def __init__(self, ask: Ask, can: Capabilities, thinking: Thinking | None = None) -> None:
        """Sends no request yet; `thinking` is what was learned of the model before."""
        self.can = can
        self.ask = ask
        self.thinking = thinking or Thinking.of(can)
        self.tokenizer = LearnedTokens(ask, can)
        self._in_flight: dict[str | tuple[int, ...], asyncio.Task[Step | None]] = {}

    async def _complete(self, raw: RawPrompt, **options: Any) -> Written:
        """Returns the most probable continuation of a raw prompt, which is sent in the form that the endpoint takes;
        `options` are further fields of the request."""
        body = {
            "prompt": list(raw.ids) if self.can.ids else raw.text,
            "temperature": 0,
            "return_tokens_as_token_ids": True,
            **options,
        }
        return read_completion(await self.ask("completions", body))

    async def top_after(self, raw: RawPrompt) -> Step | None:
        """Returns the most probable tokens after a prompt; None if the endpoint lists none because it ends the text
        there.

        Raises:
            RequestRefused: The endpoint refuses the prompt.
        """
        key = raw.ids if self.can.ids else raw.text
        if key not in self._in_flight:
            self._in_flight[key] = asyncio.create_task(self._after(raw))
        return await self._in_flight[key]

    async def _after(self, raw: RawPrompt) -> Step | None:
        """Requests what `top_after` returns."""
        written = await self._complete(raw, max_tokens=1, logprobs=self.can.top)
        step = next(iter(written.steps), None)
        return step if step is not None and step.top else None

    async def read_prompt(self, raw: RawPrompt) -> tuple[Step, ...]:
        """Returns the log-probability of each token of a prompt and the most probable tokens there, in order.

        Raises:
            RequestRefused: It refuses the prompt, or tokenizes it differently.
        """
        written = await self._complete(raw, max_tokens=1, echo=True, logprobs=self.can.top)
        steps = written.steps
        # Some endpoints list the one token that they write as well.
        if len(steps) - len(raw.ids) not in (0, 1):
            raise RequestRefused("The endpoint reads the prompt as other tokens.")
        return steps[: len(raw.ids)]
