"""Next-token probabilities over HTTP: the most probable tokens, and the exact probability of a given continuation.

Tokens are requested in advance, so that synchronous code can use the endpoint as a `Tokenizer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import STEP_OPENING
from engine.base.errors import RequestRefused
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.dialects import (
    Ask,
    ListedToken,
    Step,
    apply_template,
    grammar_for,
    read_completion,
    text_of,
    token_ids,
)
from engine.model.log_windows import GAP
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
        rendered = await apply_template(
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
        """Returns the tokens of a text that the server tokenized before."""
        return list(self._known[(text, special, start)])

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the one message of a prompt that the server tokenized before."""
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


@dataclass(frozen=True, slots=True)
class Raw:
    """A raw prompt: its text, and its tokens where the endpoint takes those."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """A continuation: its tokens, and the text before each of them and after the last."""

    ids: tuple[int, ...]
    upto: tuple[str, ...]

    def text(self, at: int) -> str:
        """Returns the text of the token at this index."""
        return self.upto[at + 1][len(self.upto[at]) :]


class Reader:
    """Reads probabilities from endpoints that serve the same model. Equal requests in flight are sent once."""

    def __init__(self, ask: Ask, can: Capabilities) -> None:
        self.can = can
        self.ask = ask
        self.known = KnownTokens(ask, can)
        self._under_way: dict[str | tuple[int, ...], asyncio.Task[Step | None]] = {}

    def prompt(self, raw: Raw) -> str | list[int]:
        """Returns a raw prompt in the form that the endpoint takes."""
        return list(raw.ids) if self.can.ids else raw.text

    async def answer(self, text: str, ids: Sequence[int] | None = None) -> Continuation:
        """Tokenises a continuation, given as text or as token ids.

        Raises:
            RequestRefused: The endpoint does not show how it is split into tokens.
        """
        if ids is None:
            await self.known.learn([text])
            ids = self.known.tokenize(text)
        if self.can.named and self.can.ids and not self.can.forced:
            return Continuation(tuple(ids), ("",) * (len(ids) + 1))
        begun = (ids[:count] for count in range(1, len(ids) + 1))
        upto = ["", *[await text_of(self.ask, self.can.tokens, one) for one in begun]]
        whole = all(upto[at + 1].startswith(upto[at]) for at in range(len(ids)))
        if upto[-1] != text or not whole:
            raise RequestRefused(f"The endpoint does not write {text!r} token by token.")
        return Continuation(tuple(ids), tuple(upto))

    async def after(self, raw: Raw) -> Step | None:
        """Returns the most probable tokens after a prompt; None if the endpoint lists none because it ends the text
        there.

        Raises:
            RequestRefused: The endpoint refuses the prompt.
        """
        key = raw.ids if self.can.ids else raw.text
        if key not in self._under_way:
            self._under_way[key] = asyncio.create_task(self._after(raw))
        return await self._under_way[key]

    async def _after(self, raw: Raw) -> Step | None:
        body: dict[str, Any] = {
            "prompt": self.prompt(raw),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": self.can.top,
            "return_tokens_as_token_ids": True,
        }
        steps = read_completion(await self.ask("completions", body)).steps
        return steps[0] if steps and steps[0].top else None

    async def along(self, raw: Raw) -> tuple[Step, ...]:
        """Returns the log-probability of each token of a prompt and the most probable tokens there, in order.

        Raises:
            RequestRefused: It refuses the prompt, or tokenises it differently.
        """
        body = {
            "prompt": self.prompt(raw),
            "max_tokens": 1,
            "echo": True,
            "temperature": 0,
            "logprobs": self.can.top,
            "return_tokens_as_token_ids": True,
        }
        steps = read_completion(await self.ask("completions", body)).steps
        if len(steps) - len(raw.ids) not in (0, 1):
            raise RequestRefused("The endpoint reads the prompt as other tokens.")
        return steps[: len(raw.ids)]

    async def log_p(self, raw: Raw, answer: Continuation) -> float | None:
        """Returns the natural log-probability of a continuation: the sum over its tokens. None if the endpoint does not
        list one.

        Raises:
            RequestRefused: It refuses the prompt, or tokenises prompt and continuation together differently.
        """
        if self.can.echo and len(answer.ids) > 1:
            return await self._echoed(raw, answer)
        # In a list by texts a token may have the place of another of the same text; what is written has its own.
        if self.can.forced and (len(answer.ids) > 1 or not self.can.named):
            forced = await self._forced(raw, answer)
            if forced is not None:
                return forced
        total = 0.0
        for at, token in enumerate(answer.ids):
            begun = await self._with(raw, answer, at)
            found = listed(await self.after(begun), token, answer.text(at))
            if found is None:
                return await self._echoed(raw, answer) if self.can.echo else None
            total += found.log_p
        return total

    async def _echoed(self, raw: Raw, answer: Continuation) -> float:
        steps = await self.along(await self._with(raw, answer, len(answer.ids)))
        total = 0.0
        for step in steps[-len(answer.ids) :]:
            if step.chosen is None:
                raise RequestRefused("The endpoint gives no probability of the text.")
            total += step.chosen.log_p
        return total

    async def _forced(self, raw: Raw, answer: Continuation) -> float | None:
        """Returns the log-probability when a grammar forces the endpoint to write the text; None if it writes other
        tokens."""
        body = {
            "prompt": self.prompt(raw),
            "max_tokens": len(answer.ids),
            "temperature": 0,
            "logprobs": 1,
            "grammar": grammar_for(answer.upto[-1]),
            "return_tokens_as_token_ids": True,
        }
        steps = read_completion(await self.ask("completions", body)).steps
        total = 0.0
        for at, step in enumerate(steps):
            chosen = step.chosen
            if at >= len(answer.ids) or chosen is None:
                return None
            same_id = chosen.token == answer.ids[at]
            same_text = chosen.token is None and chosen.text == answer.text(at).encode()
            if not (same_id or same_text):
                return None
            total += chosen.log_p
        return total if len(steps) == len(answer.ids) else None

    async def _with(self, raw: Raw, answer: Continuation, count: int) -> Raw:
        """Returns a prompt with the first tokens of a continuation, which must be tokenised as exactly these."""
        if not count:
            return raw
        text = raw.text + answer.upto[count]
        if not self.can.ids:
            start = self.can.tokens != "llama-cpp-python"
            bare, both = await asyncio.gather(
                *(
                    token_ids(self.ask, self.can.tokens, one, special=True, start=start)
                    for one in (raw.text, text)
                )
            )
            if both != [*bare, *answer.ids[:count]]:
                raise RequestRefused(
                    f"The endpoint reads the log and {answer.upto[count]!r} together as other tokens."
                )
        return Raw(text, (*raw.ids, *answer.ids[:count]))


def listed(step: Step | None, token: int, text: str) -> ListedToken | None:
    """Finds a token among the most probable ones, by its id or, if ids are not given, by its text."""
    if step is None:
        return None
    for one in (*step.top, *([step.chosen] if step.chosen else [])):
        if one.token == token or (one.token is None and one.text and one.text == text.encode()):
            return one
    return None
