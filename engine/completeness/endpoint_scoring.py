"""Scores conversations over HTTP: the probability of the end at each boundary.

The question has two answers, the end and the continuation, and how it is put depends on what the endpoint can do
(`engine.model.endpoints.capabilities`):

- As raw text, laid out around the log or the log alone: the probability of each answer after it is read.
- With one request for all boundaries, where the endpoint gives the probabilities of a prompt's own tokens (it echoes
  them) and no text follows the log: the answers are read along the log.

An endpoint lists only its most probable tokens. An answer that is not among them is hidden, and then the conversation
is unscored, unless the endpoint can give the probability of a given text in another way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.base.errors import RequestRefused
from engine.completeness.boundaries import BoundaryReading
from engine.completeness.model_requests import Score
from engine.completeness.packing import Segment
from engine.completeness.scoring import ItemScore, LogItem, PreparedLog, Question, prepare_log
from engine.model.endpoints.capabilities import no_curve
from engine.model.endpoints.dialects import text_of, without_controls
from engine.model.endpoints.log_probs import (
    Continuation,
    PromptText,
    RawPrompt,
    Reader,
    find_listed,
)
from engine.model.endpoints.model import EndpointHandlers, EndpointModel
from engine.model.log_windows import Window

HIDDEN_REASON = (
    "the answer is not among the {top} most probable tokens at {count} of {all} boundaries"
)
"""Reason why a conversation is unscored where the endpoint hides an answer."""

BROKEN_UP_NOTE = "{count} control tokens in its text were broken up"
"""Note on a score whose conversation has texts that the endpoint would read as control tokens."""

OTHER_TOKENS_NOTE = "the endpoint cuts its text into other tokens than the model process"
"""Note on a score whose log the endpoint may read as other tokens; see `_EndpointAsker._tokenizes_differently`."""


def refuse_curve(model: EndpointModel, question: Question) -> None:
    """Checks that the endpoint can answer this question exactly at each boundary.

    Raises:
        UsageError: It cannot; the error says why.
    """
    if question.states:
        model.refuse("hidden states", "its interface has probabilities only")
    model.refuse("curves of completeness", no_curve(model.can, question.prompt))


def _score(model: EndpointModel, request: Score, report: Callable[[int], None]) -> list[ItemScore]:
    """Answers a request of the model process over HTTP; it writes no remaining tasks.

    Args:
        report: Gets the number of tokens that were read so far.
    """
    refuse_curve(model, request.question)
    tokens_read = 0

    def add_tokens(count: int) -> None:
        """Reports the sum of all conversations where `score_items` gives the tokens of each."""
        nonlocal tokens_read
        tokens_read += count
        report(tokens_read)

    return model.run(
        lambda: score_items(
            model.reader(), request.items, request.question, model.context, add_tokens
        )
    )


ENDPOINT_HANDLERS: EndpointHandlers = {Score: _score}
"""The requests of this subject that an endpoint answers, with their handlers."""


async def score_items(
    reader: Reader,
    items: Sequence[LogItem],
    question: Question,
    context: int,
    report: Callable[[int], None],
) -> list[ItemScore]:
    """Scores conversations in parallel; one that cannot be scored exactly is unscored with the reason.

    Args:
        context: Longest sequence in tokens.
        report: Gets the number of tokens of each conversation as it is done.

    Returns:
        One score per conversation, in order.

    Raises:
        RequestRefused: The endpoint refuses what comes before every log.
        ModelError: All endpoints have failed.
    """
    asker = await _EndpointAsker.for_endpoint(reader, question)

    async def score_item(item: LogItem) -> ItemScore:
        """Returns the score of one conversation; a request that is refused is the reason why it has none."""
        safe_item, broken_up = _break_up_controls(item) if reader.can.controls else (item, 0)
        try:
            score = await asker.score(safe_item, context)
        except RequestRefused as error:
            return ItemScore((), 0, unscored=error.message)
        report(score.tokens)
        return _add_note(score, BROKEN_UP_NOTE.format(count=broken_up)) if broken_up else score

    return list(await asyncio.gather(*(score_item(item) for item in items)))


def _break_up_controls(item: LogItem) -> tuple[LogItem, int]:
    """Returns a conversation without texts that would be read as control tokens, and the number of those."""
    cleaned = [without_controls(text) for text in item.texts]
    return replace(item, texts=tuple(text for text, _ in cleaned)), sum(
        count for _, count in cleaned
    )


def _add_note(score: ItemScore, note: str) -> ItemScore:
    """Returns the score with a further note."""
    return replace(score, note=f"{score.note}, {note}" if score.note else note)


class _EndpointAsker:
    """Asks one question of an endpoint, as raw text around the log."""

    def __init__(
        self,
        reader: Reader,
        around: PromptText,
        end: Continuation,
        other: Continuation,
    ) -> None:
        """Takes what `for_endpoint` prepares.

        Args:
            around: The text before and after each log.
            end: The answer that the conversation ends.
            other: The answer that it goes on.
        """
        self._reader, self._around = reader, around
        self._end, self._other = end, other

    @classmethod
    async def for_endpoint(cls, reader: Reader, question: Question) -> _EndpointAsker:
        """Returns the asker for what the endpoint can do.

        | question | asked | end | continuation |
        |---|---|---|---|
        | a prompt | around the log | the prompt's text | the prompt's text |
        | no prompt | the log alone | the end-of-text token | a step header |

        Raises:
            RequestRefused: The endpoint does not lay the prompt out or does not show the tokens of an answer.
        """
        prompt, tokens = question.prompt, reader.tokenizer
        around = await tokens.learn_prompt(prompt)
        if prompt is not None:
            end = await reader.tokenize_answer(prompt.end)
            return cls(reader, around, end, await reader.tokenize_answer(prompt.continuation))
        header_tokens = await tokens.opening()
        header = await text_of(reader.ask, reader.can.tokens, header_tokens)
        other = await reader.tokenize_answer(header, header_tokens)
        end = Continuation((tokens.end_token,), ("", ""))
        return cls(reader, around, end, other)

    async def score(self, item: LogItem, context: int) -> ItemScore:
        """Scores one conversation.

        Args:
            context: Longest sequence in tokens.

        Raises:
            RequestRefused: The endpoint refuses a request or hides an answer, or would have to shorten a step.
        """
        prepared = await self._prepare(item, context)
        if prepared.unscored:
            return ItemScore((), 0, unscored=prepared.unscored)
        if prepared.clipped and not self._reader.can.ids:
            raise RequestRefused(
                "it has steps too long for the context, and this endpoint takes whole texts only"
            )
        readings: list[list[BoundaryReading | None]] = []
        other_tokens = False
        for window, segment in zip(prepared.windows, prepared.segments, strict=True):
            prompts = self._prompts(item, window, segment)
            other_tokens = other_tokens or await self._tokenizes_differently(prompts[-1])
            if self._reads_along:
                readings.append(await self._read_along(prompts, segment.marks))
            else:
                readings.append(list(await asyncio.gather(*map(self._read_boundary, prompts))))
        shown = [[reading for reading in curve if reading is not None] for curve in readings]
        boundary_count = sum(map(len, readings))
        hidden_count = boundary_count - sum(map(len, shown))
        if hidden_count:
            top = self._reader.can.top
            reason = HIDDEN_REASON.format(top=top, count=hidden_count, all=boundary_count)
            raise RequestRefused(reason)
        score = prepared.score(shown)
        return _add_note(score, OTHER_TOKENS_NOTE) if other_tokens else score

    async def _tokenizes_differently(self, raw: RawPrompt) -> bool:
        """Returns whether an endpoint that takes texts reads other tokens than the model process.

        The model process cuts a log step by step: around an empty step, line breaks of two steps can become one token
        for the endpoint.
        """
        can, tokens = self._reader.can, self._reader.tokenizer
        if can.ids:
            return False
        await tokens.learn([raw.text], special=True, start=True)
        return tokens.tokenize(raw.text, special=True, start=True) != list(raw.ids)

    async def _prepare(self, item: LogItem, context: int) -> PreparedLog:
        """Returns a conversation divided into windows that leave room for the question."""
        texts = item.texts[: item.boundaries[-1] + 1]
        await self._reader.tokenizer.learn_log(texts)
        around = self._around.tokens
        # The endpoint writes one token after the longer answer.
        question_tokens = max(len(self._end.ids), len(self._other.ids)) + len(around.tail) + 1
        room = context - len(around.head) - question_tokens
        return prepare_log(self._reader.tokenizer, item, around.head, room, context)

    @property
    def _reads_along(self) -> bool:
        """Whether one request reads all boundaries: the endpoint returns prompt probabilities, and no text follows the
        log."""
        can, one_token = self._reader.can, len(self._end.ids) == 1
        return can.echo and can.ids and one_token and not self._around.tail

    def _prompts(self, item: LogItem, window: Window, segment: Segment) -> list[RawPrompt]:
        """Returns the prompt at each boundary of a window."""
        prompts = []
        for boundary, mark in zip(window.boundaries, segment.marks, strict=True):
            text = "".join(item.texts[piece] for piece in window.pieces if piece <= boundary)
            ids = (*segment.tokens[:mark], *self._around.tokens.tail)
            prompts.append(RawPrompt(self._around.head + text + self._around.tail, ids))
        return prompts

    async def _read_along(
        self, prompts: Sequence[RawPrompt], marks: Sequence[int]
    ) -> list[BoundaryReading | None]:
        """Returns the reading at each boundary, None where the endpoint hides the end.

        Inside the log the header of the next step follows each boundary, which is the continuation; after the last
        boundary the header is appended to the log.

        Args:
            prompts: The prompt at each boundary; the last one is the whole log.
            marks: Number of tokens before each boundary.

        Raises:
            RequestRefused: The log does not go on with a step header, or the endpoint refuses it.
        """
        # The endpoint reads ids here, so the prompt needs no text.
        log_and_header = RawPrompt("", (*prompts[-1].ids, *self._other.ids))
        steps = await self._reader.read_prompt(log_and_header)
        readings: list[BoundaryReading | None] = []
        for raw, mark in zip(prompts, marks, strict=True):
            header = steps[mark : mark + len(self._other.ids)]
            if log_and_header.ids[mark : mark + len(header)] != self._other.ids:
                raise RequestRefused(
                    f"The log does not continue with a step header after token {mark}."
                )
            end_token = find_listed(steps[mark], self._end.ids[0], "")
            log_end = end_token.log_p if end_token else await self._reader.log_p(raw, self._end)
            log_continue = sum(step.chosen.log_p for step in header if step.chosen)
            readings.append(None if log_end is None else BoundaryReading(log_end, log_continue))
        return readings

    async def _read_boundary(self, raw: RawPrompt) -> BoundaryReading | None:
        """Returns the reading at one boundary; None where the endpoint hides an answer."""
        log_end, log_continue = await asyncio.gather(
            self._reader.log_p(raw, self._end), self._reader.log_p(raw, self._other)
        )
        if log_end is None or log_continue is None:
            return None
        return BoundaryReading(log_end, log_continue)
