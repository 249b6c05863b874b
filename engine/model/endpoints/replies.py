"""Replies to logs and to chat messages over HTTP.

To messages an endpoint applies its own chat template; prompts become messages where it takes no raw text or does not
show its template. Tokens of texts are requested in advance (learned), so that synchronous code can use the endpoint as
a tokenizer. The opening is the beginning of a reply that the prompt gives: it is prefilled if the endpoint can
continue a reply, else the question asks for it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.chat import Call, ChatMessage, Completion
from engine.model.endpoints.capabilities import (
    THINKING_TOKENS,
    Ask,
    Capabilities,
    Step,
    Written,
    apply_template,
    no_laid_out,
    read_completion,
    structure_fields,
    text_of,
    token_ids,
    without_controls,
)
from engine.model.endpoints.client import all_of
from engine.model.generation import Stopped
from engine.model.interface import Sampling
from engine.model.log_windows import GAP, last_pieces, log_tokens
from engine.model.process.chat import left_out_note, without_oldest
from engine.model.process.requests import Generate, WrittenReply
from engine.model.prompt_files import Frame, Prompt, frame
from engine.model.reply_forms import find_value, value_words

BEGIN_WITH = '\n\nBegin your answer with: "{reply}"'
"""Added to a question if the endpoint cannot be given the beginning of the answer."""

MAX_STOPS = 4
"""Most stop texts in a request, which every server takes; the others are searched for in the reply."""

TEMPLATE_TOKENS = 64
"""Tokens reserved for what a chat template puts around one message."""

UNBOUNDED = 1_000_000_000
"""Context in tokens of an endpoint that does not say how much it holds: what is too long it refuses itself."""

_LOG_MARK = "\x1eLOG\x1e"
"""Stands for the log while a prompt is laid out by the chat template."""


class LearnedTokens:
    """An `engine.model.interface.TextTokenizer` for texts whose tokens were requested before."""

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
    """Reads replies of endpoints that serve the same model."""

    def __init__(self, ask: Ask, can: Capabilities, thinking: Thinking) -> None:
        """Sends no request yet; `thinking` is what was learned of the model before."""
        self.can = can
        self.ask = ask
        self.thinking = thinking
        self.tokenizer = LearnedTokens(ask, can)


def chat_body(can: Capabilities, messages: Sequence[ChatMessage], opening: str) -> dict[str, Any]:
    """Returns the request body for messages with the beginning of the answer: prefilled if the endpoint can, else asked
    for."""
    sent = [{"role": message.speaker, "content": message.content} for message in messages]
    if not opening:
        return {"messages": sent}
    if not can.prefill:
        sent[-1]["content"] += BEGIN_WITH.format(reply=opening)
        return {"messages": sent}
    body: dict[str, Any] = {"messages": [*sent, {"role": "assistant", "content": opening}]}
    if can.prefill == "continue":
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return body


async def reply_to(
    reader: Reader, prompt: Prompt, log: str, settings: Mapping[str, Any]
) -> Written:
    """Returns the answer to a prompt as a message, without the beginning that was prefilled or asked for.

    Raises:
        RequestRefused: The endpoint refuses the message, or the answer begins otherwise.
    """
    question = ChatMessage("user", prompt.before + log + prompt.question)
    body = chat_body(reader.can, [question], prompt.reply)
    written = await complete(reader, "chat/completions", {**body, **settings})
    continuation = strip_opening(written, prompt.reply)
    if continuation is None and not reader.can.prefill:
        raise RequestRefused(f"The model did not begin its answer with {prompt.reply!r}.")
    return continuation or written


async def complete(reader: Reader, name: str, body: Mapping[str, Any]) -> Written:
    """Returns the reply to a request. A model that thinks gets tokens for that beside those of the answer: where they
    did not do, the request is sent again with more, and all later ones have as many.

    Args:
        name: Path of the request, `completions` or `chat/completions`.

    Raises:
        RequestRefused: The endpoint refuses the request, or the model thought up to the limit and wrote no answer.
    """
    while True:
        thinking_tokens = reader.thinking.tokens
        limit = body["max_tokens"] + thinking_tokens
        written = read_completion(await reader.ask(name, {**body, "max_tokens": limit}))
        if not written.lacks_tokens:
            return written
        more = next((tokens for tokens in THINKING_TOKENS if tokens > thinking_tokens), None)
        if more is None and written.text:
            return written
        if more is None:
            raise RequestRefused(
                f"The model thought for all of its {limit:,} tokens and wrote no answer."
            )
        reader.thinking.tokens = max(reader.thinking.tokens, more)


def strip_opening(written: Written, opening: str) -> Written | None:
    """Returns an answer without the beginning that was prefilled or asked for; None if it does not repeat it."""
    text = written.text.lstrip()
    if not opening:
        return written
    if not text.startswith(opening):
        return None
    return replace(written, text=text[len(opening) :])


async def write_replies(
    reader: Reader, request: Generate, context: int, report: Callable[[int], None]
) -> list[WrittenReply]:
    """Writes one reply to each log; see `ModelClient.generate`.

    Args:
        context: Longest sequence in tokens.
        report: Gets the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: The endpoint has failed.
    """
    writer = await _Writer.for_endpoint(reader, request.prompt, request.max_tokens, context)
    done = 0

    async def write_one(index: int) -> WrittenReply:
        """Writes the reply to one log."""
        nonlocal done
        settings = sampling_fields(
            reader, request.sampling, request.max_tokens, request.stop, request.seed + index
        )
        written, note = await writer.write(*request.items[index], settings)
        text, stopped = cut_at_stop(written, request.stop)
        done += 1
        report(done)
        return WrittenReply(text, (), stopped, note)

    return await all_of(write_one(index) for index in range(len(request.items)))


def sampling_fields(
    reader: Reader, sampling: Sampling, max_tokens: int, stop: Sequence[str], seed: int
) -> dict[str, Any]:
    """Returns the sampling settings as fields of a request body."""
    settings: dict[str, Any] = {"max_tokens": max_tokens, "temperature": sampling.temperature}
    if stop:
        settings["stop"] = list(stop[:MAX_STOPS])
    if sampling.temperature:
        settings |= {"seed": seed, "top_p": sampling.top_p}
        settings |= {"top_k": sampling.top_k} if sampling.top_k else {}
        settings |= {"min_p": sampling.min_p} if sampling.min_p else {}
    if sampling.json_schema:
        settings |= structure_fields(reader.can.structure, json.loads(sampling.json_schema))
    return settings


def cut_at_stop(written: Written, stop: Sequence[str]) -> tuple[str, Stopped]:
    """Returns the text before the first stop text, and why it ended."""
    positions = [position for text in stop if text and (position := written.text.find(text)) >= 0]
    if positions:
        return written.text[: min(positions)], "stop"
    return written.text, "length" if written.ended == "length" else "end"


class _Writer:
    """Sends one prompt to an endpoint, as raw text or as a message."""

    def __init__(
        self, reader: Reader, prompt: Prompt | None, *, raw: bool, room: int, head: str, tail: str
    ) -> None:
        """Prepares a writer.

        Args:
            raw: Whether the prompt is sent as raw text.
            room: Tokens that are left for the prompt and a log.
            head, tail: The prompt before and after a log.
        """
        self._reader, self._prompt, self._raw, self._room = reader, prompt, raw, room
        self._head, self._tail = head, tail

    @classmethod
    async def for_endpoint(
        cls, reader: Reader, prompt: Prompt | None, max_tokens: int, context: int
    ) -> _Writer:
        """Returns the writer of a prompt, in the form in which the endpoint takes it.

        Args:
            max_tokens: Largest number of tokens of a reply.
            context: Longest sequence in tokens.
        """
        room = context - max_tokens - reader.thinking.tokens
        raw = prompt is None or not prompt.chat or no_laid_out(reader.can, prompt) is None
        if prompt is None:
            head = tail = ""
        elif raw and prompt.chat:
            head, tail = await reader.tokenizer.lay_out(prompt)
        else:
            head, tail = prompt.before, prompt.question + prompt.reply
        return cls(reader, prompt, raw=raw, room=room, head=head, tail=tail)

    async def write(
        self, texts: Sequence[str], leading_pieces: int, settings: dict[str, Any]
    ) -> tuple[Written, str | None]:
        """Returns the reply to one log, and a note on what was left out of the log or changed in it.

        Args:
            texts: The pieces of the log.
            leading_pieces: Number of its first pieces that stay if it is too long.
            settings: Fields of the request that say how the reply is written.
        """
        split_texts = [without_controls(text) for text in texts]
        texts = [text for text, _ in split_texts]
        broken_tokens = sum(count for _, count in split_texts)
        sent, note = await self._fitting(texts, leading_pieces)
        if self._raw:
            reply = await complete(self._reader, "completions", {"prompt": sent, **settings})
        else:
            assert self._prompt is not None, "a bare log is never a message"
            assert isinstance(sent, str), "a message is text"
            reply = await reply_to(self._reader, self._prompt, sent, settings)
        notes = [note] if note else []
        notes += [f"{broken_tokens} control tokens broken up"] if broken_tokens else []
        return reply, ", ".join(notes) or None

    async def _fitting(
        self, texts: Sequence[str], leading_pieces: int
    ) -> tuple[str | list[int], str | None]:
        """Returns a log as it is sent, in the raw prompt if there is one, and a note on what was left out.

        A token has at least one byte, so the tokens of a text are counted only where its bytes do not fit.
        """
        can, tokenizer = self._reader.can, self._reader.tokenizer
        log = "".join(texts)
        raw_text = f"{self._head}{log}{self._tail}" if self._raw else log
        size = len((self._head + log + self._tail).encode()) + TEMPLATE_TOKENS
        if size <= self._room or not can.tokens:
            return raw_text, None
        await tokenizer.learn_log(texts)
        if self._raw and can.ids:
            around = await tokenizer.learn_prompt(self._prompt)
            room = self._room - len(around.head) - len(around.tail)
            tokens, note = log_tokens(tokenizer, texts, leading_pieces, room)
            return [*around.head, *tokens, *around.tail], note
        await tokenizer.learn([self._head, self._tail])
        around_tokens = sum(len(tokenizer.tokenize(text)) for text in (self._head, self._tail))
        room = self._room - around_tokens - TEMPLATE_TOKENS
        lengths = [len(tokenizer.tokenize(text)) for text in texts]
        if sum(lengths) <= room:
            return raw_text, None
        # As `log_tokens` would shorten them.
        if max(lengths) > room // 3:
            raise RequestRefused(
                "it has steps too long for the context, and this endpoint takes whole texts only"
            )
        fitting = last_pieces(lengths, leading_pieces, room)
        log = "".join(texts[piece] for piece in fitting)
        note = f"{len(texts) - len(fitting)} of {len(texts)} steps left out"
        return (f"{self._head}{log}{self._tail}" if self._raw else log), note


async def chat_replies(
    reader: Reader, calls: Sequence[Call], context: int, report: Callable[[int], None]
) -> list[Completion]:
    """Returns the reply to each call; see `ModelClient.chat`.

    Args:
        context: Longest sequence in tokens.
        report: Called with the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: The endpoint has failed.
    """
    done = 0

    async def reply_to_call(call: Call) -> Completion:
        """Writes the reply to one call."""
        nonlocal done
        reply = await _reply(reader, call, context)
        done += 1
        report(done)
        return reply

    return await all_of(reply_to_call(call) for call in calls)


async def _reply(reader: Reader, call: Call, context: int) -> Completion:
    """Returns the reply to one call, with notes on control tokens and on messages that were left out."""
    split_texts = [without_controls(message.content) for message in call.messages]
    messages = [
        replace(message, content=text)
        for message, (text, _) in zip(call.messages, split_texts, strict=True)
    ]
    broken_tokens = sum(count for _, count in split_texts)
    notes = [f"{broken_tokens} control tokens broken up"] if broken_tokens else []
    fitting = await _drop_oldest(
        reader, messages, context - call.max_tokens - reader.thinking.tokens
    )
    if left_out := left_out_note(len(messages) - len(fitting), len(messages)):
        notes.append(left_out)
    body = chat_body(reader.can, fitting, call.opening)
    settings = sampling_fields(reader, call.sampling, call.max_tokens, call.stop, call.seed)
    reads_tokens = call.probability_of and reader.can.reads_verdicts
    if reads_tokens:
        settings |= {"logprobs": True, "top_logprobs": reader.can.chat_top}
    reply = await complete(reader, "chat/completions", {**body, **settings})
    text, stopped = cut_at_stop(strip_opening(reply, call.opening) or reply, call.stop)
    probability = value_probability(call, reply.steps) if reads_tokens else None
    return Completion(text, stopped, ", ".join(notes) or None, probability)


def value_probability(call: Call, steps: Sequence[Step]) -> float | None:
    """Returns the probability of the value that a reply gives to the field of its call, rather than of the others: the
    product over the tokens of the value, each among the listed tokens that begin some value. None where the reply gives
    none.

    Args:
        steps: The tokens of the reply.
    """
    words = value_words(call.sampling.json_schema, call.probability_of)
    texts = [step.chosen.text for step in steps]
    written = b"".join(texts)
    place = find_value(written, call.probability_of, words)
    if place is None:
        return None
    probability, end = 1.0, 0
    for step, text in zip(steps, texts, strict=True):
        start, end = end, end + len(text)
        if end <= place.start:
            continue
        p_value = p_others = 0.0
        for token in step.top:
            reply = written[:start] + token.text
            if len(reply) > place.start and reply.startswith(written[: place.start]):
                values = _possible_values(reply[place.start :], words)
                if place.value in values:
                    p_value += math.exp(token.log_p)
                elif values:
                    p_others += math.exp(token.log_p)
        if not p_value:
            return None
        probability *= p_value / (p_value + p_others)
        if len(_possible_values(written[place.start : end], words)) <= 1:
            break
    return probability


def _possible_values(text: bytes, words: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the values of which a text is a beginning, or which it begins with."""
    beginning = text.decode("utf-8", "ignore").casefold()
    folded = ((value, word.casefold()) for value, forms in words.items() for word in forms)
    return [
        value
        for value, word in folded
        if word.startswith(beginning)
        or (beginning.startswith(word) and not beginning[len(word) : len(word) + 1].isalnum())
    ]


async def _drop_oldest(
    reader: Reader, messages: Sequence[ChatMessage], room: int
) -> Sequence[ChatMessage]:
    """Returns the messages that fit; if tokens cannot be counted, all of them, and the endpoint refuses what is too
    long. A token has at least one byte, so they are counted only where the bytes do not fit."""
    size = sum(len(message.content.encode()) + TEMPLATE_TOKENS for message in messages)
    if size <= room or not reader.can.tokens or reader.can.context is None:
        return messages
    await reader.tokenizer.learn([message.content for message in messages])
    fitting = messages

    def count_tokens(remaining: Sequence[ChatMessage]) -> int:
        """Returns the tokens of messages; of those of the template only some dozens for each message are known."""
        return sum(
            len(reader.tokenizer.tokenize(message.content)) + TEMPLATE_TOKENS
            for message in remaining
        )

    while count_tokens(fitting) > room:
        shorter = without_oldest(fitting)
        if shorter is None:
            raise RequestRefused(
                "its last message is too long for the context, and this endpoint takes whole texts only"
            )
        fitting = shorter
    return fitting
