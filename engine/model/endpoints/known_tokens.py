"""A `Tokenizer` over an endpoint: tokens are requested in advance, so that synchronous code can use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.base.conversation import STEP_OPENING
from engine.base.errors import RequestRefused
from engine.model.http.capabilities import Capabilities
from engine.model.http.dialects import Ask, laid_out, token_ids
from engine.model.log_windows import (
    GAP,
)
from engine.model.prompt_files import Frame, Prompt, frame, opening_tokens

_MARK = "\x1eLOG\x1e"
_HEADERS = (
    f"{STEP_OPENING} 2, STEP 3, user chat:\n",
    f"{STEP_OPENING} 14, STEP 97, assistant (tool) chat:\n",
    STEP_OPENING,
)
UNBOUNDED = 1_000_000_000
"""Context of an endpoint that does not say how much it holds: what is too long it refuses itself."""


@dataclass(frozen=True, slots=True)
class Around:
    """A prompt laid around a log, as text and in tokens."""

    head: str
    tail: str
    tokens: Frame


class KnownTokens:
    """An `engine.model.interface.Tokenizer` for texts that were asked about before."""

    def __init__(self, ask: Ask, can: Capabilities) -> None:
        self._ask, self._can = ask, can
        self._known: dict[tuple[str, bool, bool], list[int]] = {}
        self._layouts: dict[str, str] = {}

    async def learn(
        self, texts: Iterable[str], *, special: bool = False, start: bool = False
    ) -> None:
        """Asks for the tokens of texts.

        Raises:
            RequestRefused: The endpoint answers something else.
        """
        wanted = {(text, special, start) for text in texts} - self._known.keys()
        found = await asyncio.gather(*(self._tokens(*one) for one in wanted))
        self._known.update(zip(wanted, found, strict=True))

    async def learn_prompt(self, prompt: Prompt | None) -> Around:
        """Lays a prompt out; None is the bare log.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        await self.learn([""], special=True, start=True)
        if prompt is None:
            return Around("", "", frame(None, self))
        if not prompt.chat:
            await self.learn([prompt.before], special=True, start=True)
            await self.learn([prompt.question + prompt.reply])
            return Around(prompt.before, prompt.question + prompt.reply, frame(prompt, self))
        content = prompt.before + _MARK + prompt.question
        rendered = await laid_out(
            self._ask, self._can.template, [{"role": "user", "content": content}]
        )
        self._layouts[content] = rendered
        before, mark, after = rendered.partition(_MARK)
        if not mark:
            raise RequestRefused("The endpoint laid out a message without its text.")
        await self.learn([before, after], special=True)
        await self.learn([before], special=True, start=True)
        await self.learn([prompt.reply])
        return Around(before, after + prompt.reply, frame(prompt, self))

    async def learn_log(self, texts: Sequence[str]) -> None:
        """Asks the endpoint for the tokens of the pieces of a log and of the mark for omitted text."""
        await self.learn([*texts, GAP])

    async def opening(self) -> list[int]:
        """See `engine.model.prompt_files.opening_tokens`."""
        await self.learn(_HEADERS)
        return opening_tokens(self)

    async def _tokens(self, text: str, special: bool, start: bool) -> list[int]:
        style = self._can.tokens
        found = await token_ids(self._ask, style, text, special=special, start=start)
        if style == "llama-cpp-python" and not start:
            # This server always puts the starting tokens in front.
            bare = await token_ids(self._ask, style, "")
            return found[len(bare) :]
        return found

    # The tokenizer

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Tokens of a text that the server tokenized before."""
        return list(self._known[(text, special, start)])

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """The one message of a prompt that the server tokenized before."""
        return self._layouts[messages[0]["content"]]

    def token_bytes(self, token: int) -> bytes:
        """Not asked of texts that are only read."""
        raise NotImplementedError

    @property
    def end_token(self) -> int:
        """The model's end-of-text token; -1 where the endpoint does not say."""
        return -1 if self._can.end_token is None else self._can.end_token

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The end-of-text token, where it is known."""
        return frozenset() if self._can.end_token is None else frozenset({self._can.end_token})
