"""Asks a model for replies with declared fields; all questions of the program whose replies have fields are asked here.

The model process writes under the grammar of the schema; an endpoint gets the best form that it was shown to follow
(`engine.model.endpoints.capabilities`), and what it writes is read tolerantly. A reply that cannot be read is asked for
once more, with what was wrong; if that one cannot be read either, the failure says what the model wrote.

The value of a field that is true or false, or one of some values, has its probability where the server lists tokens;
elsewhere it is what the model said, and no number is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from engine.base.text import one_line
from engine.jobs.contract import OnProgress
from engine.model.chat import Call, ChatMessage, Completion, seed_from
from engine.model.interface import Sampling
from engine.model.log_windows import GAP, last_pieces, longest_piece, omission_note
from engine.model.process.requests import Chat, ModelClient
from engine.model.prompt_files import Prompt
from engine.model.reply_forms import (
    FieldsT,
    Limits,
    UnreadableReply,
    form_request,
    read_reply,
    reply_schema,
)

T = TypeVar("T")
"""What is made of a reply."""

LEFT_OUT_MARK = "\n[{} steps are left out here]\n"
"""Stands in a log in place of steps that are left out; it has their number."""

REPAIR = "That reply cannot be used: {error} Reply again, with the JSON object alone."
"""What a model is told after a reply that cannot be read."""

SAMPLED_TEMPERATURE = 0.7
"""Temperature of replies that are sampled, so that several of them to one question differ."""

RETAINED_CHARS = 200
"""Characters of a reply that are shown with the failure to read it."""


@dataclass(frozen=True, slots=True)
class StructuredReply(Generic[FieldsT]):
    """The reply to one question.

    Attributes:
        fields: What the model replied; None where its reply cannot be read.
        text: The reply as it was written.
        error: What is wrong with a reply that cannot be read; empty otherwise.
        probability: Probability of the value of the field `Call.probability_of`; None where `Completion.probability`
            is.
        note: What was left out of the question or changed in it; None for nothing.
    """

    fields: FieldsT | None
    text: str
    error: str = ""
    probability: float | None = None
    note: str | None = None

    @property
    def failure(self) -> str:
        """Why the reply cannot be read, with what the model wrote; empty where it can."""
        written = one_line(self.text, RETAINED_CHARS) or "nothing"
        return f"{self.error} The model wrote: {written}" if self.error else ""


def ask(
    client: ModelClient,
    prompt: Prompt,
    form: type[FieldsT],
    bodies: Sequence[str],
    progress: OnProgress | None = None,
    *,
    probability_of: str = "",
    refusal: Callable[[int, FieldsT], str] = lambda index, fields: "",
    seed: int | None = None,
) -> list[StructuredReply[FieldsT]]:
    """Returns the reply to a prompt around each body, greedily written.

    Args:
        form: The fields of the reply.
        bodies: Texts inserted between `prompt.before` and `prompt.question`.
        progress: Called with the number of replies that are done.
        probability_of: The field whose value's probability is read, see `Call`.
        refusal: Returns what is wrong with the reply to the body of an index, in words that the model is told; empty
            where it can be used.
        seed: Samples the replies at temperature `SAMPLED_TEMPERATURE` instead.

    Raises:
        Cancelled, ModelError: As the request `Chat` does.
    """
    question = f"{prompt.question}\n\n{form_request(form)}"
    temperature = 0.0 if seed is None else SAMPLED_TEMPERATURE
    sampling = Sampling(temperature=temperature, json_schema=json.dumps(reply_schema(form)))
    calls = [
        Call(
            module=prompt.name,
            role="judge",
            messages=(ChatMessage("user", prompt.before + body + question),),
            sampling=sampling,
            max_tokens=prompt.max_tokens,
            seed=seed or 0,
            probability_of=probability_of,
        )
        for body in bodies
    ]
    completions = client.ask(Chat(calls), progress)
    replies = [
        _read(form, completion, partial(refusal, index))
        for index, completion in enumerate(completions)
    ]
    failed = [index for index, reply in enumerate(replies) if reply.fields is None]
    if failed:
        repairs = [
            _repair(calls[index], replies[index].text, replies[index].error) for index in failed
        ]
        for index, completion in zip(failed, client.ask(Chat(repairs)), strict=True):
            replies[index] = _read(form, completion, partial(refusal, index))
    return replies


def ask_in_play(
    call: Call,
    form: type[FieldsT],
    use: Callable[[FieldsT], T],
    temperatures: Sequence[float],
    limits: Limits = MappingProxyType({}),
) -> Generator[Call, Completion, T | None]:
    """Yields a call of a play, and then again with what was wrong with its reply; returns what `use` makes of the
    fields, None if no reply can be used.

    Args:
        call: Its messages ask for the form; its sampling is set here.
        form: The fields of the reply.
        use: Raises UnreadableReply where the fields cannot be used.
        temperatures: Temperature of each attempt.
        limits: What the fields of this reply are limited to.
    """
    schema = json.dumps(reply_schema(form, limits))
    return ask_until_read(
        call, schema, lambda reply: use(read_reply(form, reply, limits)), temperatures
    )


def ask_until_read(
    call: Call, schema: str, read: Callable[[str], T], temperatures: Sequence[float]
) -> Generator[Call, Completion, T | None]:
    """Does what `ask_in_play` does, for a reply whose fields no class declares.

    Args:
        schema: JSON schema of the reply.
        read: Returns what is made of a reply; raises UnreadableReply where it cannot be used.
    """
    attempt = call
    for number, temperature in enumerate(temperatures):
        completion = yield replace(
            attempt,
            sampling=Sampling(temperature=temperature, json_schema=schema),
            seed=seed_from(call.seed, number) if number else call.seed,
        )
        try:
            return read(completion.text)
        except UnreadableReply as error:
            attempt = _repair(call, completion.text, _error_text(completion, error))
    return None


def _read(
    form: type[FieldsT], completion: Completion, refusal: Callable[[FieldsT], str]
) -> StructuredReply[FieldsT]:
    """Returns the fields of one reply, or what is wrong with it."""
    text, note = completion.text, completion.note
    try:
        fields = read_reply(form, text)
        if error_text := refusal(fields):
            return StructuredReply(None, text, error_text, note=note)
        return StructuredReply(fields, text, probability=completion.probability, note=note)
    except UnreadableReply as error:
        return StructuredReply(None, text, _error_text(completion, error), note=note)


def _error_text(completion: Completion, error: UnreadableReply) -> str:
    """Returns what is wrong with a reply, as a sentence."""
    was_cut = completion.stopped == "length"
    return "The reply was cut off at its greatest length." if was_cut else f"{error}."


def _repair(call: Call, reply: str, error: str) -> Call:
    """Returns the call that asks once more, with the reply and what was wrong with it."""
    request = ChatMessage("user", REPAIR.format(error=error))
    messages = (*call.messages, ChatMessage("assistant", reply or "{}"), request)
    return replace(call, messages=messages)


def fenced_log(texts: Sequence[str], pinned_pieces: int, room: int) -> tuple[str, str | None]:
    """Returns a log between marks, with as many of its last pieces as there is room for, and a note on what was left
    out, which the text marks too; None for nothing.

    Args:
        texts: The pieces, each with its number in its header.
        pinned_pieces: Number of leading pieces that stay.
        room: Most characters.
    """
    longest = max(longest_piece(room), 1)
    clipped = [text if len(text) <= longest else _middle_left_out(text, longest) for text in texts]
    pieces = list(texts) if sum(map(len, texts)) <= room else clipped
    shortened = sum(piece != text for piece, text in zip(pieces, texts, strict=True))
    left_out = len(pieces) - len(last_pieces(list(map(len, pieces)), pinned_pieces, room))
    mark = [LEFT_OUT_MARK.format(left_out)] if left_out else []
    log = "".join([*pieces[:pinned_pieces], *mark, *pieces[pinned_pieces + left_out :]])
    # A log cannot close the marks that it stands between.
    fenced = f"<log>\n{log.replace('</log', '< /log').strip()}\n</log>"
    return fenced, omission_note(left_out, len(pieces), shortened)


def _middle_left_out(text: str, chars: int) -> str:
    """Returns a text with a mark in place of its middle, at most about `chars` characters."""
    half = max((chars - len(GAP)) // 2, 1)
    return f"{text[:half]}{GAP}{text[-half:]}"
