"""Scores conversations over HTTP: the probability of the end at each boundary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.base.errors import RequestRefused
from engine.completeness.block import ItemScore, LogItem, Prepared, Question, prepare
from engine.completeness.boundaries import BoundaryLogProbs
from engine.completeness.model_requests import Score
from engine.completeness.packing import Segment
from engine.model.endpoints.client import EndpointHandlers, EndpointModel
from engine.model.endpoints.log_probs import Around, Continuation, Raw, Reader, listed
from engine.model.endpoints.replies import first_tokens
from engine.model.http.capabilities import no_curve, no_laid_out
from engine.model.http.dialects import text_of, without_controls
from engine.model.log_windows import Window
from engine.model.prompt_files import Frame, Prompt

HIDDEN = "the answer is not among the {top} most probable tokens at {count} of {all} boundaries"
BROKEN_UP = "{count} control tokens in its text were broken up"
OTHER_TOKENS = "the endpoint cuts its text into other tokens than the model process"


def refuse_curve(model: EndpointModel, question: Question) -> None:
    """Raises UsageError if this question cannot be answered exactly at each boundary."""
    if question.states:
        model.refuse("hidden states", "its interface has probabilities only")
    model.refuse("curves of completeness", no_curve(model.can, question.prompt, question.end_tag))


def _score(model: EndpointModel, request: Score, report: Callable[[int], None]) -> list[ItemScore]:
    # What cannot be scored exactly is unscored with the reason; remaining tasks are not written here.
    refuse_curve(model, request.question)
    done = 0

    def read(tokens: int) -> None:
        nonlocal done
        done += tokens
        report(done)

    return model.run(
        lambda: score_items(model.reader(), request.items, request.question, model.context, read)
    )


ENDPOINT_HANDLERS: EndpointHandlers = {Score: _score}


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
        report: Gets the tokens of each conversation as it is done.

    Raises:
        ModelError: No endpoint is left.
    """
    asker = await _Question.find(reader, question)

    async def one(item: LogItem) -> ItemScore:
        item, broken = _harmless(item) if reader.can.controls else (item, 0)
        try:
            score = await asker.score(item, context)
        except RequestRefused as error:
            return ItemScore((), 0, unscored=error.message)
        report(score.tokens)
        return _noted(score, BROKEN_UP.format(count=broken)) if broken else score

    return list(await asyncio.gather(*(one(item) for item in items)))


def _harmless(item: LogItem) -> tuple[LogItem, int]:
    found = [without_controls(text) for text in item.texts]
    return replace(item, texts=tuple(text for text, _ in found)), sum(count for _, count in found)


def _noted(score: ItemScore, note: str) -> ItemScore:
    return replace(score, note=f"{score.note}, {note}" if score.note else note)


class _Question:
    """Asks one question of an endpoint, as raw text around the log or as a message."""

    def __init__(
        self,
        reader: Reader,
        around: Around,
        end: Continuation,
        other: Continuation,
        message: Prompt | None,
    ) -> None:
        self._reader, self._around, self._message = reader, around, message
        self._end, self._other = end, other

    @classmethod
    async def find(cls, reader: Reader, question: Question) -> _Question:
        prompt, known = question.prompt, reader.known
        if prompt is not None and no_laid_out(reader.can, prompt):
            words = Continuation((), ("", prompt.end)), Continuation((), ("", prompt.continuation))
            return cls(reader, Around("", "", Frame([], [])), *words, message=prompt)
        around = await known.learn_prompt(prompt)
        if prompt is not None:
            end = await reader.answer(prompt.end)
            return cls(reader, around, end, await reader.answer(prompt.continuation), message=None)
        opening = await known.opening()
        begun = await text_of(reader.ask, reader.can.tokens, opening)
        other = await reader.answer(begun, opening)
        if question.end_tag:
            return cls(reader, around, await reader.answer(question.end_tag), other, message=None)
        end = Continuation((known.end_token,), ("", ""))
        return cls(reader, around, end, other, message=None)

    async def score(self, item: LogItem, context: int) -> ItemScore:
        """Reads one conversation."""
        prepared = await self._prepare(item, context)
        if prepared.unscored:
            return ItemScore((), 0, unscored=prepared.unscored)
        if prepared.clipped and not self._reader.can.ids:
            raise RequestRefused(
                "it has steps too long for the context, and this endpoint takes whole texts only"
            )
        readings: list[list[BoundaryLogProbs | None]] = []
        other_tokens = False
        for window, segment in zip(prepared.windows, prepared.segments, strict=True):
            prompts = self._prompts(item, window, segment)
            other_tokens = other_tokens or await self._cut_otherwise(prompts[-1])
            if self._at_once:
                readings.append(await self._read_along(prompts, segment.marks))
            else:
                found = await asyncio.gather(*(self._read(raw) for raw in prompts))
                readings.append(list(found))
        whole = [[one for one in window if one is not None] for window in readings]
        hidden = sum(map(len, readings)) - sum(map(len, whole))
        if hidden:
            top = self._reader.can.chat_top if self._message else self._reader.can.top
            count = sum(map(len, readings))
            raise RequestRefused(HIDDEN.format(top=top, count=hidden, all=count))
        score = prepared.score(whole)
        return _noted(score, OTHER_TOKENS) if other_tokens else score

    async def _cut_otherwise(self, raw: Raw) -> bool:
        """Whether an endpoint that takes texts reads other tokens than the model process, which cuts a log step by
        step: around an empty step, line breaks of two steps can become one token."""
        can, known = self._reader.can, self._reader.known
        if can.ids or not can.tokens or self._message is not None:
            return False
        await known.learn([raw.text], special=True, start=True)
        return known.tokenize(raw.text, special=True, start=True) != list(raw.ids)

    async def _prepare(self, item: LogItem, context: int) -> Prepared:
        texts = item.texts[: item.boundaries[-1] + 1]
        if not self._reader.can.tokens:
            # Without tokens nobody can say what fits; the endpoint refuses what does not.
            whole = Window(tuple(range(len(texts))), item.boundaries)
            unknown = Segment([], (0,) * len(item.boundaries))
            return Prepared((unknown,), (whole,), 0)
        await self._reader.known.learn_log(texts)
        around = self._around.tokens
        asked = max(len(self._end.ids), len(self._other.ids)) + len(around.tail) + 1
        room = context - len(around.head) - asked
        return prepare(self._reader.known, item, around.head, room, context)

    @property
    def _at_once(self) -> bool:
        """Whether one request scores all boundaries: the endpoint returns prompt probabilities, and no text follows the
        log."""
        can, one_token = self._reader.can, len(self._end.ids) == 1
        return can.echo and can.ids and one_token and not self._message and not self._around.tail

    def _prompts(self, item: LogItem, window: Window, segment: Segment) -> list[Raw]:
        """The prompt at each boundary of a window."""
        tokens, prompts = segment.tokens, []
        for boundary, mark in zip(window.boundaries, segment.marks, strict=True):
            text = "".join(item.texts[piece] for piece in window.pieces if piece <= boundary)
            ids = (*tokens[:mark], *self._around.tokens.tail)
            prompts.append(Raw(self._around.head + text + self._around.tail, ids))
        return prompts

    async def _read_along(
        self, prompts: Sequence[Raw], marks: Sequence[int]
    ) -> list[BoundaryLogProbs | None]:
        """Both answers at all boundaries: inside the log the next step's header follows, at its end it is put there."""
        whole = Raw("", (*prompts[-1].ids, *self._other.ids))
        steps = await self._reader.along(whole)
        readings: list[BoundaryLogProbs | None] = []
        for raw, mark in zip(prompts, marks, strict=True):
            header = steps[mark : mark + len(self._other.ids)]
            if whole.ids[mark : mark + len(header)] != self._other.ids:
                raise RequestRefused(
                    f"The log does not continue with a step header after token {mark}."
                )
            found = listed(steps[mark], self._end.ids[0], "")
            ends = found.log_p if found else await self._reader.log_p(raw, self._end)
            goes_on = sum(step.chosen.log_p for step in header if step.chosen)
            readings.append(None if ends is None else BoundaryLogProbs(ends, goes_on))
        return readings

    async def _read(self, raw: Raw) -> BoundaryLogProbs | None:
        """Both answers at one boundary; None where the endpoint hides one."""
        if self._message is not None:
            step = await first_tokens(self._reader, self._message, raw.text)
            found = [listed(step, -1, one.upto[-1]) for one in (self._end, self._other)]
            if found[0] is None or found[1] is None:
                return None
            return BoundaryLogProbs(found[0].log_p, found[1].log_p)
        ends = await self._reader.log_p(raw, self._end)
        goes_on = await self._reader.log_p(raw, self._other)
        return None if ends is None or goes_on is None else BoundaryLogProbs(ends, goes_on)
