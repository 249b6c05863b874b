"""Chat replies over HTTP: the endpoint applies its own chat template."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.base.errors import RequestRefused
from engine.model.chat import Call, ChatMessage, Completion
from engine.model.endpoints.log_probs import Reader
from engine.model.endpoints.messages import messages_body, without_opening
from engine.model.endpoints.replies import TEMPLATE_TOKENS, ended, settings_of
from engine.model.http.capabilities import Capabilities
from engine.model.http.control_tokens import without_controls
from engine.model.http.responses import written
from engine.model.interface import Sampling
from engine.model.process.chat import left_out_note, without_oldest


def no_chat(can: Capabilities, sampling: Sampling) -> str | None:
    """The reason why chat replies with this sampling are not possible, or None."""
    if not can.chat:
        return "it continues raw texts only"
    if sampling.json_schema and not can.schema:
        return "its replies do not follow a JSON schema"
    if sampling.grammar and not can.grammar:
        return "its replies do not follow a grammar"
    return None


async def chat_replies(
    reader: Reader, calls: Sequence[Call], context: int, report: Callable[[int], None]
) -> list[Completion]:
    """The reply to each call; see `ModelClient.chat`.

    Args:
        context: Longest sequence in tokens.
        report: Called with the number of replies that are done.

    Raises:
        RequestRefused: The endpoint refuses one of them.
        ModelError: No endpoint is left.
    """
    done = 0

    async def one(call: Call) -> Completion:
        nonlocal done
        reply = await _reply(reader, call, context)
        done += 1
        report(done)
        return reply

    return list(await asyncio.gather(*(one(call) for call in calls)))


async def _reply(reader: Reader, call: Call, context: int) -> Completion:
    messages, notes = list(call.messages), []
    if reader.can.controls:
        found = [without_controls(message.content) for message in messages]
        broken = sum(count for _, count in found)
        messages = [
            replace(one, content=text) for one, (text, _) in zip(messages, found, strict=True)
        ]
        notes += [f"{broken} control tokens broken up"] if broken else []
    kept = await _fitting(reader, messages, context - call.max_tokens)
    if left_out := left_out_note(len(messages) - len(kept), len(messages)):
        notes.append(left_out)
    body = messages_body(reader.can, kept, call.opening)
    settings = settings_of(reader, call.sampling, call.max_tokens, call.stop, call.seed)
    reply = written(await reader.ask("chat/completions", {**body, **settings}))
    text, stopped = ended(without_opening(reply, call.opening) or reply, call.stop)
    return Completion(text, stopped, ", ".join(notes) or None)


async def _fitting(
    reader: Reader, messages: Sequence[ChatMessage], room: int
) -> Sequence[ChatMessage]:
    """The messages that fit; if tokens cannot be counted, all of them, and the endpoint refuses what is too long."""
    if not reader.can.tokens or reader.can.context is None:
        return messages
    await reader.known.learn([message.content for message in messages])
    kept = messages
    # The number of tokens of the template is unknown; it is some dozens.
    while sum(len(reader.known.tokenize(one.content)) + TEMPLATE_TOKENS for one in kept) > room:
        following = without_oldest(kept)
        if following is None:
            raise RequestRefused(
                "its last message is too long for the context, and this endpoint takes whole texts only"
            )
        kept = following
    return kept
