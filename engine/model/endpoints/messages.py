"""Prompts as chat messages, for endpoints that take no raw text or do not show their chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.errors import RequestRefused
from engine.model.chat import ChatMessage
from engine.model.endpoints.log_probs import Reader
from engine.model.http.capabilities import Capabilities
from engine.model.http.responses import Step, Written, written
from engine.model.prompt_files import Prompt

BEGIN_WITH = '\n\nBegin your answer with: "{reply}"'
"""Added to a question if the endpoint cannot be given the beginning of the answer."""


def message_body(can: Capabilities, prompt: Prompt, log: str) -> dict[str, Any]:
    """The request body for a prompt around a log, with the beginning of the answer in the form the endpoint takes."""
    question = prompt.before + log + prompt.question
    return messages_body(can, [ChatMessage("user", question)], prompt.reply)


def messages_body(
    can: Capabilities, messages: Sequence[ChatMessage], opening: str
) -> dict[str, Any]:
    """The request body for messages with the beginning of the answer: prefilled if the endpoint can, else asked for."""
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


async def first_tokens(reader: Reader, prompt: Prompt, log: str) -> Step | None:
    """The most probable first tokens of the answer to a message; None if the endpoint lists none.

    Raises:
        RequestRefused: The endpoint refuses the message.
    """
    body = message_body(reader.can, prompt, log)
    more = {"max_tokens": 1, "temperature": 0, "logprobs": True}
    asked = {**body, **more, "top_logprobs": reader.can.chat_top}
    steps = written(await reader.ask("chat/completions", asked)).steps
    return steps[0] if steps and steps[0].top else None


async def reply_to(
    reader: Reader, prompt: Prompt, log: str, settings: Mapping[str, Any]
) -> Written:
    """The answer to a prompt as a message, without the beginning that was prefilled or asked for.

    Raises:
        RequestRefused: The endpoint refuses the message, or the answer begins otherwise.
    """
    body = message_body(reader.can, prompt, log)
    found = written(await reader.ask("chat/completions", {**body, **settings}))
    gone_on = without_opening(found, prompt.reply)
    if gone_on is None and not reader.can.prefill:
        raise RequestRefused(f"The model did not begin its answer with {prompt.reply!r}.")
    return gone_on or found


def without_opening(found: Written, opening: str) -> Written | None:
    """An answer without the beginning that was prefilled or asked for; None if it does not repeat it."""
    begun = found.text.lstrip()
    if not opening:
        return found
    if not begun.startswith(opening):
        return None
    return Written(begun[len(opening) :], found.ended, found.steps)
