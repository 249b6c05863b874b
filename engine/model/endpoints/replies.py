"""Gets replies to logs and to chat messages from an endpoint.

An endpoint applies its own chat template to messages. A prompt around a log is sent as raw text; it becomes a message
where the endpoint takes no raw text, or does not show the template that the prompt needs. The opening is the beginning
of a reply that the prompt gives: it is prefilled if the endpoint can continue a reply, else the question asks for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.chat import Call, ChatMessage, Completion
from engine.model.endpoints.background_loop import all_of
from engine.model.endpoints.capabilities import (
    THINKING_TOKENS,
    Capabilities,
    EndpointReply,
    Position,
    read_completion,
    structure_fields,
    why_no_layout,
)
from engine.model.endpoints.tokens import Ask, RequestedTokens, break_up_controls
from engine.model.generation import Stopped
from engine.model.interface import Sampling
from engine.model.log_windows import GAP, last_pieces, log_tokens, longest_piece
from engine.model.process.chat import left_out_note, without_oldest
from engine.model.process.requests import Generate, WrittenReply
from engine.model.prompt_files import Prompt
from engine.model.reply_forms import find_value, value_words

BEGIN_WITH = '\n\nBegin your answer with: "{reply}"'
"""Added to a question if the endpoint cannot be given the beginning of the answer."""

MAX_STOPS = 4
"""Most stop texts in a request, which every server takes; the others are searched for in the reply."""

TEMPLATE_TOKENS = 64
"""Tokens reserved for what a chat template puts around one message."""

UNBOUNDED = 1_000_000_000
"""Context in tokens of an endpoint that does not say how much it holds: what is too long it refuses itself."""


@dataclass(slots=True)
class Thinking:
    """What a run has found out about the model's thinking; `_complete` changes it.

    Attributes:
        tokens: Number of tokens that each reply gets for thinking, in addition to those of the answer.
    """

    tokens: int


@dataclass(frozen=True, slots=True)
class EndpointAccess:
    """What is needed to get the replies to one request of a stage from an endpoint.

    Attributes:
        ask: Posts a body to a path of the endpoint.
        can: The capabilities of the endpoint.
        thinking: What the run has found out about the model's thinking.
        tokenizer: Requests and knows the tokens of texts.
    """

    ask: Ask
    can: Capabilities
    thinking: Thinking
    tokenizer: RequestedTokens


def _chat_body(can: Capabilities, messages: Sequence[ChatMessage], opening: str) -> dict[str, Any]:
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


async def _reply_to_prompt(
    access: EndpointAccess, prompt: Prompt, log: str, settings: Mapping[str, Any]
) -> EndpointReply:
    """Returns the answer to a prompt as a message, without the beginning that was prefilled or asked for.

    Raises:
        RequestRefused: The endpoint refuses the message, or the answer does not have the beginning that was asked for.
    """
    question = ChatMessage("user", prompt.before + log + prompt.question)
    body = _chat_body(access.can, [question], prompt.reply)
    written = await _complete(access, "chat/completions", {**body, **settings})
    continuation = _strip_opening(written, prompt.reply)
    if continuation is None and not access.can.prefill:
        raise RequestRefused(f"The model did not begin its answer with {prompt.reply!r}.")
    return continuation or written


async def _complete(access: EndpointAccess, name: str, body: Mapping[str, Any]) -> EndpointReply:
    """Returns the reply to a request.

    A model that thinks gets tokens for that in addition to those of the answer. Where they were too few, the request is
    sent again with the next number of `THINKING_TOKENS`, and all later requests of the run get as many.

    Args:
        name: Path of the request, `completions` or `chat/completions`.

    Raises:
        RequestRefused: The endpoint refuses the request, or the model thought up to the limit and wrote no answer.
    """
    while True:
        thinking_tokens = access.thinking.tokens
        limit = body["max_tokens"] + thinking_tokens
        written = read_completion(await access.ask(name, {**body, "max_tokens": limit}))
        if not written.lacks_tokens:
            return written
        more = next((tokens for tokens in THINKING_TOKENS if tokens > thinking_tokens), None)
        if more is None and written.text:
            return written
        if more is None:
            raise RequestRefused(
                f"The model thought for all of its {limit:,} tokens and wrote no answer."
            )
        access.thinking.tokens = max(access.thinking.tokens, more)


def _strip_opening(written: EndpointReply, opening: str) -> EndpointReply | None:
    """Returns an answer without the beginning that was prefilled or asked for; None if the answer does not repeat the
    beginning."""
    text = written.text.lstrip()
    if not opening:
        return written
    if not text.startswith(opening):
        return None
    return replace(written, text=text[len(opening) :])


async def write_replies(
    access: EndpointAccess, request: Generate, context: int, report: Callable[[int], None]
) -> list[WrittenReply]:
    """Returns the most probable reply to the prompt around each log.

    Args:
        context: Longest sequence in tokens.
        report: Called with the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: The endpoint has failed.
    """
    prompt = request.prompt
    writer = await _PromptWriter.for_endpoint(access, prompt, context)
    settings = _sampling_fields(access, Sampling(), prompt.max_tokens, seed=0)
    if prompt.stop:
        settings["stop"] = list(prompt.stop[:MAX_STOPS])

    async def write_one(texts: Sequence[str], leading_pieces: int) -> WrittenReply:
        """Returns the reply to one log."""
        written, note = await writer.write(texts, leading_pieces, settings)
        text, stopped = _cut_at_stop(written, prompt.stop)
        return WrittenReply(text, stopped, note)

    return await all_of((write_one(*item) for item in request.items), report)


def _sampling_fields(
    access: EndpointAccess, sampling: Sampling, max_tokens: int, seed: int
) -> dict[str, Any]:
    """Returns the sampling settings as fields of a request body."""
    settings: dict[str, Any] = {"max_tokens": max_tokens, "temperature": sampling.temperature}
    if sampling.temperature:
        # Some servers leave improbable tokens out unless `top_p` is given.
        settings |= {"seed": seed, "top_p": 1.0}
    if sampling.json_schema:
        settings |= structure_fields(access.can.structure, json.loads(sampling.json_schema))
    return settings


def _cut_at_stop(written: EndpointReply, stop: Sequence[str]) -> tuple[str, Stopped]:
    """Returns the text before the first stop text, and why it ended."""
    positions = [position for text in stop if text and (position := written.text.find(text)) >= 0]
    if positions:
        return written.text[: min(positions)], "stop"
    return written.text, _stopped(written)


def _stopped(written: EndpointReply) -> Stopped:
    """Returns why a reply without a stop text ended."""
    return "length" if written.ended == "length" else "end"


@dataclass(frozen=True, slots=True)
class _PromptWriter:
    """Sends one prompt around logs to an endpoint, as raw text or as a message.

    Attributes:
        access: How the endpoint is asked.
        prompt: The prompt.
        is_raw: Whether the prompt is sent as raw text.
        room: Number of tokens that are left for the prompt and a log.
        head, tail: The prompt before and after a log.
    """

    access: EndpointAccess
    prompt: Prompt
    is_raw: bool
    room: int
    head: str
    tail: str

    @classmethod
    async def for_endpoint(
        cls, access: EndpointAccess, prompt: Prompt, context: int
    ) -> _PromptWriter:
        """Returns the writer of a prompt, in the form in which the endpoint takes it.

        Args:
            context: Longest sequence in tokens.
        """
        room = context - prompt.max_tokens - access.thinking.tokens
        is_raw = not prompt.chat or why_no_layout(access.can, prompt) is None
        head, tail = prompt.before, prompt.question + prompt.reply
        if is_raw and prompt.chat:
            head, tail = await access.tokenizer.lay_out(prompt)
        return cls(access, prompt, is_raw, room, head, tail)

    async def write(
        self, texts: Sequence[str], leading_pieces: int, settings: dict[str, Any]
    ) -> tuple[EndpointReply, str | None]:
        """Returns the reply to one log, and a note on what was left out of the log or changed in it.

        Args:
            texts: The pieces of the log.
            leading_pieces: Number of its first pieces that stay if it is too long.
            settings: Fields of the request that say how the reply is written.
        """
        texts, control_note = _break_controls(texts)
        sent, note = await self._fitting(texts, leading_pieces)
        if self.is_raw:
            reply = await _complete(self.access, "completions", {"prompt": sent, **settings})
        else:
            assert isinstance(sent, str), "a message is text"
            reply = await _reply_to_prompt(self.access, self.prompt, sent, settings)
        return reply, ", ".join(filter(None, (note, control_note))) or None

    async def _fitting(
        self, texts: Sequence[str], leading_pieces: int
    ) -> tuple[str | list[int], str | None]:
        """Returns a log as it is sent, in the raw prompt if there is one, and a note on what was left out.

        A token has at least one byte, so the tokens of a text are counted only where its bytes do not fit.

        Raises:
            RequestRefused: It has steps that are too long, and the endpoint gives no tokens to cut them by.
        """
        can, tokenizer = self.access.can, self.access.tokenizer
        log = "".join(texts)
        size = len((self.head + log + self.tail).encode()) + TEMPLATE_TOKENS
        if size <= self.room or not can.tokens:
            return self._sent_text(log), None
        await tokenizer.request([*texts, GAP])
        if self.is_raw and can.ids:
            around = await tokenizer.request_around(self.prompt)
            room = self.room - len(around.head) - len(around.tail)
            tokens, note = log_tokens(tokenizer, texts, leading_pieces, room)
            return [*around.head, *tokens, *around.tail], note
        await tokenizer.request([self.head, self.tail])
        around_tokens = sum(len(tokenizer.tokenize(text)) for text in (self.head, self.tail))
        room = self.room - around_tokens - TEMPLATE_TOKENS
        lengths = [len(tokenizer.tokenize(text)) for text in texts]
        if sum(lengths) <= room:
            return self._sent_text(log), None
        # `log_tokens` would shorten them
        if max(lengths) > longest_piece(room):
            raise RequestRefused(
                "it has steps too long for the context, and this endpoint takes whole texts only"
            )
        fitting = last_pieces(lengths, leading_pieces, room)
        note = f"{len(texts) - len(fitting)} of {len(texts)} steps left out"
        return self._sent_text("".join(texts[piece] for piece in fitting)), note

    def _sent_text(self, log: str) -> str:
        """Returns a log as it is sent: in the raw prompt if there is one."""
        return f"{self.head}{log}{self.tail}" if self.is_raw else log


def _break_controls(texts: Sequence[str]) -> tuple[list[str], str]:
    """Returns texts whose control tokens are broken up, and a note on the number of these tokens; "" for none."""
    broken_up = [break_up_controls(text) for text in texts]
    count = sum(count for _, count in broken_up)
    return [text for text, _ in broken_up], f"{count} control tokens broken up" if count else ""


async def chat_replies(
    access: EndpointAccess, calls: Sequence[Call], context: int, report: Callable[[int], None]
) -> list[Completion]:
    """Returns the reply to each call.

    Args:
        context: Longest sequence in tokens.
        report: Called with the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: The endpoint has failed.
    """
    return await all_of((_reply_to_call(access, call, context) for call in calls), report)


async def _reply_to_call(access: EndpointAccess, call: Call, context: int) -> Completion:
    """Returns the reply to one call, with notes on control tokens and on messages that were left out."""
    texts, control_note = _break_controls([message.content for message in call.messages])
    messages = [
        replace(message, content=text) for message, text in zip(call.messages, texts, strict=True)
    ]
    fitting = await _drop_oldest(
        access, messages, context - call.max_tokens - access.thinking.tokens
    )
    left_out = left_out_note(len(messages) - len(fitting), len(messages))
    body = _chat_body(access.can, fitting, call.opening)
    settings = _sampling_fields(access, call.sampling, call.max_tokens, call.seed)
    reads_tokens = call.probability_of and access.can.reads_verdicts
    if reads_tokens:
        settings |= {"logprobs": True, "top_logprobs": access.can.chat_top}
    reply = await _complete(access, "chat/completions", {**body, **settings})
    written = _strip_opening(reply, call.opening) or reply
    probability = value_probability(call, reply.positions) if reads_tokens else None
    note = ", ".join(filter(None, (control_note, left_out))) or None
    return Completion(written.text, _stopped(written), note, probability)


def value_probability(call: Call, positions: Sequence[Position]) -> float | None:
    """Returns the probability of the value that a reply gives to the field `Call.probability_of`, rather than of its
    other values; None where the reply gives it none of its values, or where the listed tokens lack one of the value.

    It is the product over the tokens of the value, up to the one from which on no other value is possible, of the share
    that a token has of the probability of all listed tokens with which some value is possible.

    Args:
        positions: The tokens of the reply.
    """
    words = value_words(call.sampling.json_schema, call.probability_of)
    texts = [position.chosen.text for position in positions]
    written = b"".join(texts)
    place = find_value(written, call.probability_of, words)
    if place is None:
        return None
    probability, end = 1.0, 0
    for position, text in zip(positions, texts, strict=True):
        start, end = end, end + len(text)
        if end <= place.start:
            continue
        share = _share_of_value(
            position, written[:start], written[: place.start], place.value, words
        )
        if not share:
            return None
        probability *= share
        if len(_possible_values(written[place.start : end], words)) <= 1:
            break
    return probability


def _share_of_value(
    position: Position,
    before: bytes,
    before_value: bytes,
    value: str,
    words: Mapping[str, Sequence[str]],
) -> float:
    """Returns the share that a value has of the probability of the listed tokens with which some value is possible; 0
    if none of them is one of that value.

    Args:
        position: A position of the reply, within the value.
        before: The reply before this position.
        before_value: The reply before the value.
        value: The value that the reply gives.
        words: All values with their words, from `value_words`.
    """
    p_value = p_others = 0.0
    for token in position.top:
        reply = before + token.text
        if len(reply) > len(before_value) and reply.startswith(before_value):
            values = _possible_values(reply[len(before_value) :], words)
            if value in values:
                p_value += math.exp(token.log_p)
            elif values:
                p_others += math.exp(token.log_p)
    return p_value / (p_value + p_others) if p_value else 0.0


def _possible_values(text: bytes, words: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the values that a text can still become: it begins one of their words, or it begins with a whole one.

    Args:
        words: All values with their words, from `value_words`.
    """
    beginning = text.decode("utf-8", "ignore").casefold()
    folded = ((value, word.casefold()) for value, forms in words.items() for word in forms)
    return [
        value
        for value, word in folded
        if word.startswith(beginning)
        or (beginning.startswith(word) and not beginning[len(word) : len(word) + 1].isalnum())
    ]


async def _drop_oldest(
    access: EndpointAccess, messages: Sequence[ChatMessage], room: int
) -> Sequence[ChatMessage]:
    """Returns the messages that fit without the oldest ones; see `without_oldest`.

    A token has at least one byte, so tokens are counted only where the bytes do not fit. If they cannot be counted, all
    messages are returned, and the endpoint refuses what is too long.

    Raises:
        RequestRefused: The last message alone is too long, and the endpoint gives no tokens to cut it by.
    """
    size = sum(len(message.content.encode()) + TEMPLATE_TOKENS for message in messages)
    if size <= room or not access.can.tokens or access.can.context is None:
        return messages
    await access.tokenizer.request([message.content for message in messages])
    fitting = messages

    def count_tokens(remaining: Sequence[ChatMessage]) -> int:
        """Returns the tokens of messages; of those of the template only some dozens for each message are known."""
        return sum(
            len(access.tokenizer.tokenize(message.content)) + TEMPLATE_TOKENS
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
