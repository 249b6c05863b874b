"""How fast scoring is beside the bare decoder and beside one prompt per boundary, measured next to the logits.

What is compared alternates (A B A B), so that a machine that slows down slows both.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import ContextTooSmall
from engine.completeness.scoring import (
    BoundaryScorer,
    ItemScore,
    LogItem,
    Question,
    question_tokens,
    score_block,
)
from engine.model.interface import Span, TokenModel, log_probs
from tests.benchmarks.rounds import rounds

Report = Callable[[str], None]


def bench_scoring(
    scorer: BoundaryScorer,
    blocks: Sequence[Sequence[LogItem]],
    question: Question,
    most: int,
    seconds: float,
    report: Report,
) -> dict[str, Any]:
    """Scoring against `llama_decode` of the same tokens in full batches with one row of logits each.

    Args:
        most, seconds: Rounds, see `tests.benchmarks.rounds`.

    Returns:
        `tokens` (of the logs, prompt included up to the log), `decoded_tokens` (by the scorer: forks add, shared
        prefixes save), `tokens_per_s` and `raw_decode_tokens_per_s` (medians), `fraction_of_raw` (median of the
        ratios of neighboring rounds) and `fractions` (those ratios).
    """
    model = scorer.model
    items = [item for block in blocks for item in block]
    sequences = [_log(model, item, question) for item in items]
    batches = list(_full_batches(sequences, model.capacity.batch, model.capacity.sequences))
    tokens = sum(map(len, sequences))
    decoded = 0

    def count(more: int) -> None:
        nonlocal decoded
        decoded += more

    _score(
        scorer, blocks[:1], question
    )  # the first batches of a process are slower than all later ones
    scoring, raw = [], []
    for number in rounds(most, seconds):
        report(f"scoring against bare decoding, round {number + 1} of at most {most}")
        decoded = 0
        scorer.forget()
        start = time.perf_counter()
        _score(scorer, blocks, question, count)
        scoring.append(time.perf_counter() - start)
        scorer.forget()
        start = time.perf_counter()
        _decode(model, batches)
        raw.append(time.perf_counter() - start)
    scorer.forget()
    fractions = [bare / ours for bare, ours in zip(raw, scoring, strict=True)]
    return {
        "tokens": tokens,
        "decoded_tokens": decoded,
        "tokens_per_s": tokens / statistics.median(scoring),
        "raw_decode_tokens_per_s": tokens / statistics.median(raw),
        "fraction_of_raw": statistics.median(fractions),
        "fractions": fractions,
    }


def bench_prompts(
    scorer: BoundaryScorer,
    block: Sequence[LogItem],
    question: Question,
    most: int,
    seconds: float,
    report: Report,
) -> dict[str, Any]:
    """Scoring against one prompt per boundary: the prefix alone, prefilled from an empty cache.

    Such a prompt only reads the end tag, where scoring reads the continuation too, so the speed-up is a lower bound.

    Args:
        most, seconds: Rounds, see `tests.benchmarks.rounds`.

    Returns:
        `boundaries`, `tokens` (of the logs), `tokens_per_s` and `per_boundary_tokens_per_s` (log tokens, each counted
        once, over the median time), `speedup_over_reprompt` (median of the ratios), `speedups` (those ratios), and
        `largest_difference` of any `p_end` between the two ways, which is the batch noise of the model.
    """
    model = scorer.model
    items = list(block)
    prompts = [prompt for item in items for prompt in _prompts(model, item, question)]
    tokens = sum(len(_log(model, item, question)) for item in items)
    together, apart = [], []
    difference = 0.0
    for number in rounds(most, seconds):
        report(f"scoring against one prompt per boundary, round {number + 1} of at most {most}")
        scorer.forget()
        start = time.perf_counter()
        scores = _score(scorer, [block], question)
        together.append(time.perf_counter() - start)
        start = time.perf_counter()
        answers = [_ask(model, prompt) for prompt in prompts]
        apart.append(time.perf_counter() - start)
        found = [point.p_end for score in scores for point in score.curve]
        pairs = zip(found, answers, strict=True)
        difference = max(difference, *(abs(ours - theirs) for ours, theirs in pairs))
    scorer.forget()
    speedups = [theirs / ours for ours, theirs in zip(together, apart, strict=True)]
    return {
        "boundaries": len(prompts),
        "tokens": tokens,
        "tokens_per_s": tokens / statistics.median(together),
        "per_boundary_tokens_per_s": tokens / statistics.median(apart),
        "speedup_over_reprompt": statistics.median(speedups),
        "speedups": speedups,
        "largest_difference": difference,
    }


@dataclass(frozen=True, slots=True)
class _Batch:
    spans: list[Span]
    ended: list[int]


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prefix with what is asked after it; `end` is the tag whose probability is wanted."""

    tokens: list[int]
    end: tuple[int, ...]


def _score(
    scorer: BoundaryScorer,
    blocks: Sequence[Sequence[LogItem]],
    question: Question,
    progress: Callable[[int], None] = lambda count: None,
) -> list[ItemScore]:
    scores = []
    for block in blocks:
        scores += score_block(scorer, block, question, progress)
    return scores


def _log(model: TokenModel, item: LogItem, question: Question) -> list[int]:
    """The tokens of a log up to its last boundary, with what the prompt puts before it."""
    around, asked = question_tokens(question, model)
    tokens = list(around.head)
    for text in item.texts[: item.boundaries[-1] + 1]:
        tokens.extend(model.tokenize(text))
    room = model.capacity.context - asked.forked_tokens - len(asked.continuation)
    if len(tokens) > room:
        raise ContextTooSmall(
            f"A conversation of {len(tokens):,} tokens does not fit the context.",
            "Measure with shorter conversations.",
        )
    return tokens


def _prompts(model: TokenModel, item: LogItem, question: Question) -> Iterator[_Prompt]:
    around, asked = question_tokens(question, model)
    tokens = list(around.head)
    for index, text in enumerate(item.texts[: item.boundaries[-1] + 1]):
        tokens.extend(model.tokenize(text))
        if index in item.boundaries:
            yield _Prompt([*tokens, *asked.suffix, *asked.end[:-1]], asked.end)


def _full_batches(sequences: Sequence[Sequence[int]], size: int, ids: int) -> Iterator[_Batch]:
    """Sequences one after another in batches of exactly `size` tokens but the last, one row wanted of each batch."""
    batch, room = _Batch([], []), size
    for number, tokens in enumerate(sequences):
        at = 0
        while at < len(tokens):
            part = tokens[at : at + room]
            batch.spans.append(Span(part, at, (number % ids,)))
            at += len(part)
            room -= len(part)
            if at == len(tokens):
                batch.ended.append(number % ids)
            if not room:
                yield _with_row(batch)
                batch, room = _Batch([], []), size
    if batch.spans:
        yield _with_row(batch)


def _with_row(batch: _Batch) -> _Batch:
    last = batch.spans[-1]
    return _Batch(
        [*batch.spans[:-1], replace(last, logit_offsets=(len(last.tokens) - 1,))], batch.ended
    )


def _decode(model: TokenModel, batches: Sequence[_Batch]) -> None:
    for batch in batches:
        model.decode(batch.spans)
        for sequence in batch.ended:
            model.drop(sequence)


def _ask(model: TokenModel, prompt: _Prompt) -> float:
    """Probability of the end tag after a prompt, decoded as one sequence from an empty cache."""
    model.clear()
    tokens, size = prompt.tokens, model.capacity.batch
    asked = {len(tokens) - len(prompt.end) + n: token for n, token in enumerate(prompt.end)}
    total = 0.0
    for at in range(0, len(tokens), size):
        part = tokens[at : at + size]
        wanted = [position for position in asked if at <= position < at + len(part)]
        rows = model.decode([Span(part, at, (0,), tuple(p - at for p in wanted))])
        for row, position in zip(rows, wanted, strict=True):
            total += float(log_probs(row, [asked[position]])[0])
    return math.exp(total)
