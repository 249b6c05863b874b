"""Questions put as messages, for endpoints that take no raw text or do not say how they lay messages out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import RequestRefused
from engine.model.chat import ChatMessage
from engine.model.http.capabilities import Capabilities
from engine.model.http.responses import Step, Written, written
from engine.model.prompt_files import Prompt
from engine.worker.endpoints.log_probs import Reader

BEGIN_WITH = '\n\nBegin your answer with: "{reply}"'
"""Stands after a question where the endpoint cannot be given the beginning of the answer."""


def message_body(can: Capabilities, prompt: Prompt, log: str) -> dict[str, Any]:
    """A prompt around a log as messages, with the beginning of the answer as the endpoint takes it."""
    question = prompt.before + log + prompt.question
    return messages_body(can, [ChatMessage("user", question)], prompt.reply)


def messages_body(
    can: Capabilities, messages: Sequence[ChatMessage], opening: str
) -> dict[str, Any]:
    """Messages with the beginning of the answer as the endpoint takes it; it stands in the last one otherwise."""
    said = [{"role": message.speaker, "content": message.content} for message in messages]
    if not opening:
        return {"messages": said}
    if not can.prefill:
        said[-1]["content"] += BEGIN_WITH.format(reply=opening)
        return {"messages": said}
    body: dict[str, Any] = {"messages": [*said, {"role": "assistant", "content": opening}]}
    if can.prefill == "continue":
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return body


async def said_after(reader: Reader, prompt: Prompt, log: str) -> Step | None:
    """The most probable first tokens of the answer to a message; None where the endpoint lists nothing.

    Raises:
        RequestRefused: The endpoint refuses the message.
    """
    body = message_body(reader.can, prompt, log)
    more = {"max_tokens": 1, "temperature": 0, "logprobs": True}
    asked = {**body, **more, "top_logprobs": reader.can.chat_top}
    steps = written(await reader.ask("chat/completions", asked)).steps
    return steps[0] if steps and steps[0].top else None


async def say(reader: Reader, prompt: Prompt, log: str, settings: Mapping[str, Any]) -> Written:
    """The answer to a message, without the beginning that it was given or asked to have.

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
    """An answer without the beginning that it was given or asked to have; None where it does not repeat that."""
    begun = found.text.lstrip()
    if not opening:
        return found
    if not begun.startswith(opening):
        return None
    return Written(begun[len(opening) :], found.ended, found.steps)
