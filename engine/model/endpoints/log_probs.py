"""Next-token probabilities over HTTP: the most probable tokens, and the exact probability of a given continuation.

Which request gives them depends on what the endpoint can do (`engine.model.endpoints.capabilities`). With `echo` it
repeats a prompt with the log-probability of each of its tokens. A *forced* continuation is written under a grammar that
allows nothing else. Otherwise the token is looked up among the most probable ones that the endpoint lists, by its id
or, where the endpoint does not name ids, by its text.

Tokens of texts are requested in advance (learned), so that synchronous code can use the endpoint as a `Tokenizer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from engine.base.conversation import STEP_OPENING
from engine.base.errors import RequestRefused
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.dialects import (
    THINKING_TOKENS,
    Ask,
    ListedToken,
    Step,
    Written,
    apply_template,
    grammar_for,
    read_completion,
    text_of,
    token_ids,
)
from engine.model.log_windows import GAP
from engine.model.prompt_files import Frame, Prompt, frame, opening_tokens

_LOG_MARK = "\x1eLOG\x1e"
"""Stands for the log while a prompt is laid out by the chat template."""

_HEADERS = (
    f"{STEP_OPENING} 2, STEP 3, user chat:\n",
    f"{STEP_OPENING} 14, STEP 97, assistant (tool) chat:\n",
    STEP_OPENING,
)
"""Texts whose common beginning in tokens is that of every next step."""

UNBOUNDED = 1_000_000_000
"""Context in tokens of an endpoint that does not say how much it holds: what is too long it refuses itself."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """A prompt laid around a log.

    Attributes:
        head, tail: The text before and after the log.
        tokens: The same in tokens.
    """

    head: str
    tail: str
    tokens: Frame


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

    async def learn_prompt(self, prompt: Prompt | None) -> PromptText:
        """Lays a prompt out and requests its tokens; None is the bare log. Returns the text around the log.

        Raises:
            RequestRefused: The endpoint cannot lay it out.
        """
        await self.learn([""], special=True, start=True)
        if prompt is None:
            return PromptText("", "", frame(None, self))
        if not prompt.chat:
            await self.learn([prompt.before], special=True, start=True)
            await self.learn([prompt.question + prompt.reply])
            return PromptText(prompt.before, prompt.question + prompt.reply, frame(prompt, self))
        before, after = await self._around(prompt)
        await self.learn([before, after], special=True)
        await self.learn([before], special=True, start=True)
        await self.learn([prompt.reply])
        return PromptText(before, after + prompt.reply, frame(prompt, self))

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

    async def opening(self) -> list[int]:
        """Returns the tokens with which every next step begins; see `engine.model.prompt_files.opening_tokens`."""
        await self.learn(_HEADERS)
        return opening_tokens(self)

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


@dataclass(frozen=True, slots=True)
class Continuation:
    """A continuation of a prompt.

    Attributes:
        ids: Its tokens.
        texts_so_far: The text up to each token: before the first one, after it, and so on to the whole text.
    """

    ids: tuple[int, ...]
    texts_so_far: tuple[str, ...]

    def text(self, index: int) -> str:
        """Returns the text of the token at this index."""
        return self.texts_so_far[index + 1][len(self.texts_so_far[index]) :]


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

    async def tokenize_answer(self, text: str, ids: Sequence[int] | None = None) -> Continuation:
        """Returns a continuation with its tokens.

        Args:
            text: The text of the continuation.
            ids: Its tokens; None requests them.

        Raises:
            RequestRefused: The endpoint does not show how it is split into tokens.
        """
        if ids is None:
            await self.tokenizer.learn([text])
            ids = self.tokenizer.tokenize(text)
        # Neither prompts nor answers need the texts then.
        if self.can.named and self.can.ids and not self.can.forced:
            return Continuation(tuple(ids), ("",) * (len(ids) + 1))
        beginnings = (ids[:count] for count in range(1, len(ids) + 1))
        texts_so_far = [
            "",
            *[await text_of(self.ask, self.can.tokens, beginning) for beginning in beginnings],
        ]
        grows = all(after.startswith(before) for before, after in pairwise(texts_so_far))
        if texts_so_far[-1] != text or not grows:
            raise RequestRefused(f"The endpoint does not write {text!r} token by token.")
        return Continuation(tuple(ids), tuple(texts_so_far))

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

    async def log_p(self, raw: RawPrompt, answer: Continuation) -> float | None:
        """Returns the natural log-probability of a continuation: the sum over its tokens. None if the endpoint does not
        list one.

        Raises:
            RequestRefused: It refuses the prompt, or tokenizes prompt and continuation together differently.
        """
        if self.can.echo and len(answer.ids) > 1:
            return await self._echoed_log_p(raw, answer)
        # In a list by texts a token may have the place of another of the same text; what is written has its own.
        if self.can.forced and (len(answer.ids) > 1 or not self.can.named):
            forced = await self._forced_log_p(raw, answer)
            if forced is not None:
                return forced
        total = 0.0
        for index, token in enumerate(answer.ids):
            prompt = await self._append(raw, answer, index)
            token_read = find_listed(await self.top_after(prompt), token, answer.text(index))
            if token_read is None:
                return await self._echoed_log_p(raw, answer) if self.can.echo else None
            total += token_read.log_p
        return total

    async def _echoed_log_p(self, raw: RawPrompt, answer: Continuation) -> float:
        """Returns the log-probability of a continuation from that of a prompt which holds it."""
        steps = await self.read_prompt(await self._append(raw, answer, len(answer.ids)))
        total = 0.0
        for step in steps[-len(answer.ids) :]:
            if step.chosen is None:
                raise RequestRefused("The endpoint gives no probability of the text.")
            total += step.chosen.log_p
        return total

    async def _forced_log_p(self, raw: RawPrompt, answer: Continuation) -> float | None:
        """Returns the log-probability when a grammar forces the endpoint to write the text; None if it writes other
        tokens."""
        grammar = grammar_for(answer.texts_so_far[-1])
        written = await self._complete(raw, max_tokens=len(answer.ids), logprobs=1, grammar=grammar)
        total = 0.0
        for index, step in enumerate(written.steps):
            chosen = step.chosen
            if index >= len(answer.ids) or chosen is None:
                return None
            same_id = chosen.token == answer.ids[index]
            same_text = chosen.token is None and chosen.text == answer.text(index).encode()
            if not (same_id or same_text):
                return None
            total += chosen.log_p
        return total if len(written.steps) == len(answer.ids) else None

    async def _append(self, raw: RawPrompt, answer: Continuation, count: int) -> RawPrompt:
        """Returns a prompt with the first tokens of a continuation, which must be tokenized as exactly these."""
        if not count:
            return raw
        text = raw.text + answer.texts_so_far[count]
        if not self.can.ids:
            start = self.can.tokens != "llama-cpp-python"
            prompt_tokens, tokens = await asyncio.gather(
                *(
                    token_ids(self.ask, self.can.tokens, part, special=True, start=start)
                    for part in (raw.text, text)
                )
            )
            if tokens != [*prompt_tokens, *answer.ids[:count]]:
                raise RequestRefused(
                    f"The endpoint reads the log and {answer.texts_so_far[count]!r} together as other tokens."
                )
        return RawPrompt(text, (*raw.ids, *answer.ids[:count]))


def find_listed(step: Step | None, token: int, text: str) -> ListedToken | None:
    """Returns a token of a step: that with this id or, where the endpoint names no ids, with this text; None if the
    endpoint does not list it."""
    if step is None:
        return None
    for candidate in (*step.top, *([step.chosen] if step.chosen else [])):
        if candidate.token == token or (
            candidate.token is None and candidate.text and candidate.text == text.encode()
        ):
            return candidate
    return None
