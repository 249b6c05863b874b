"""Replies to logs over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.endpoints.log_probs import Raw, Reader
from engine.model.endpoints.messages import reply_to
from engine.model.generation import Stopped
from engine.model.http.capabilities import no_laid_out
from engine.model.http.control_tokens import without_controls
from engine.model.http.responses import Written, written
from engine.model.interface import Sampling
from engine.model.log_windows import (
    log_tokens,
    plan_windows,
)
from engine.model.process.requests import Generate, WrittenReply
from engine.model.prompt_files import Prompt

MOST_STOPS = 4
"""Most stop texts in a request, which every server takes; the others are searched for in the reply."""

TEMPLATE_TOKENS = 64
"""Tokens reserved for what a chat template puts around one message."""


async def write_replies(
    reader: Reader, request: Generate, context: int, report: Callable[[int], None]
) -> list[WrittenReply]:
    """Writes one reply to each log; see `ModelClient.generate`.

    Args:
        context: Longest sequence in tokens.
        report: Gets the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: No endpoint is left.
    """
    writer = await _Writer.find(reader, request.prompt, request.max_tokens, context)
    done = 0

    async def one(at: int) -> WrittenReply:
        nonlocal done
        settings = settings_of(
            reader, request.sampling, request.max_tokens, request.stop, request.seed + at
        )
        found, note = await writer.write(*request.items[at], settings)
        text, stopped = ended(found, request.stop)
        done += 1
        report(done)
        return WrittenReply(text, (), stopped, note)

    return list(await asyncio.gather(*(one(at) for at in range(len(request.items)))))


def settings_of(
    reader: Reader, sampling: Sampling, max_tokens: int, stop: Sequence[str], seed: int
) -> dict[str, Any]:
    """Sampling settings as fields of a request body."""
    settings: dict[str, Any] = {"max_tokens": max_tokens, "temperature": sampling.temperature}
    if stop:
        settings["stop"] = list(stop[:MOST_STOPS])
    if sampling.temperature:
        settings |= {"seed": seed, "top_p": sampling.top_p}
        settings |= {"top_k": sampling.top_k} if sampling.top_k else {}
        settings |= {"min_p": sampling.min_p} if sampling.min_p else {}
    if sampling.grammar and reader.can.grammar:
        settings["grammar"] = sampling.grammar
    if sampling.json_schema:
        schema = {"name": "reply", "schema": json.loads(sampling.json_schema)}
        settings["response_format"] = {"type": "json_schema", "json_schema": schema}
    return settings


def ended(found: Written, stop: Sequence[str]) -> tuple[str, Stopped]:
    """The text before the first stop text, and why it ended."""
    places = [at for text in stop if text and (at := found.text.find(text)) >= 0]
    if places:
        return found.text[: min(places)], "stop"
    return found.text, "length" if found.ended == "length" else "end"


class _Writer:
    """Sends one prompt to an endpoint, as raw text or as a message."""

    def __init__(
        self, reader: Reader, prompt: Prompt | None, raw: bool, room: int, head: Raw, tail: Raw
    ) -> None:
        self._reader, self._prompt, self._raw, self._room = reader, prompt, raw, room
        self._head, self._tail = head, tail

    @classmethod
    async def find(
        cls, reader: Reader, prompt: Prompt | None, max_tokens: int, context: int
    ) -> _Writer:
        can, nothing = reader.can, Raw("", ())
        room = context - max_tokens
        if prompt is not None and prompt.chat and no_laid_out(can, prompt):
            if can.tokens:
                words = prompt.before + prompt.question + prompt.reply
                await reader.known.learn([words])
                # The template's own tokens are not known; servers write some dozens.
                room -= len(reader.known.tokenize(words)) + TEMPLATE_TOKENS
            return cls(reader, prompt, False, room, nothing, nothing)
        if not can.tokens:
            head = Raw(prompt.before if prompt else "", ())
            tail = Raw(prompt.question + prompt.reply if prompt else "", ())
            return cls(reader, prompt, True, room, head, tail)
        around = await reader.known.learn_prompt(prompt)
        room -= len(around.tokens.head) + len(around.tokens.tail)
        head = Raw(around.head, tuple(around.tokens.head))
        return cls(reader, prompt, True, room, head, Raw(around.tail, tuple(around.tokens.tail)))

    async def write(
        self, texts: Sequence[str], kept: int, settings: dict[str, Any]
    ) -> tuple[Written, str | None]:
        """The reply to one log, and what was left out of that."""
        reader, broken = self._reader, 0
        if reader.can.controls:
            found = [without_controls(text) for text in texts]
            texts, broken = [text for text, _ in found], sum(count for _, count in found)
        if self._raw and reader.can.ids:
            await reader.known.learn_log(texts)
            tokens, note = log_tokens(reader.known, texts, kept, self._room)
            raw = Raw("", (*self._head.ids, *tokens, *self._tail.ids))
        else:
            log, note = await self._window(texts, kept)
            raw = Raw(self._head.text + log + self._tail.text, ())
        if self._raw:
            body = {"prompt": reader.prompt(raw), **settings}
            reply = written(await reader.ask("completions", body))
        else:
            assert self._prompt is not None, "a bare log is never a message"
            reply = await reply_to(reader, self._prompt, log, settings)
        notes = [note] if note else []
        notes += [f"{broken} control tokens broken up"] if broken else []
        return reply, ", ".join(notes) or None

    async def _window(self, texts: Sequence[str], kept: int) -> tuple[str, str | None]:
        """The log as text, or the whole steps of it that fit; where nobody can count tokens, all of it."""
        known = self._reader.known
        if not self._reader.can.tokens:
            return "".join(texts), None
        await known.learn_log(texts)
        lengths = [len(known.tokenize(text)) for text in texts]
        if sum(lengths) <= self._room:
            return "".join(texts), None
        if max(lengths) > self._room // 3:
            raise RequestRefused(
                "it has steps too long for the context, and this endpoint takes whole texts only"
            )
        window = plan_windows(lengths, [len(texts) - 1], kept, self._room)[-1]
        left_out = len(texts) - len(window.pieces)
        note = f"{left_out} of {len(texts)} steps left out"
        return "".join(texts[piece] for piece in window.pieces), note
