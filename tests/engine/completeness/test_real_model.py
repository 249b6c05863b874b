"""Boundary scores of the real model; on its F32 expansion where one decode is compared with many prompts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.base.conversation import Message, render_log
from engine.completeness.boundaries import boundaries
from engine.completeness.scoring import (
    BoundaryScorer,
    ItemScore,
    LogItem,
    Question,
    question_tokens,
    score_block,
)
from engine.model.interface import Span, log_probs
from engine.model.llamacpp.model import LlamaModel
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from tests.engine.model.weights import SMALL

RULES = (
    "You sell shoes. Be polite, offer no refunds after thirty days, ask for the order number. " * 8
)
TALKS = (
    [
        Message("system", "You are an agent of an airline."),
        Message("user", "Please move my flight MX7 to Friday."),
        Message("assistant", "Friday at nine is free. Shall I book it?"),
        Message("user", "Yes."),
        Message("assistant", "Done, you fly on Friday at nine. <|im_end|>"),
        Message("user", "And a window seat?"),
        Message("assistant", "12A is yours."),
    ],
    [
        Message("user", "How many files are in /tmp?"),
        Message("assistant", "Let me look."),
        Message("tool", "17"),
        Message("assistant", "17 files."),
    ],
    [
        Message("user", "我想给外甥女买一份生日礼物，预算三百元。"),
        Message("assistant", "可以考虑一台入门望远镜。她喜欢天文吗？"),
        Message("user", "喜欢，就买这个。谢谢！"),
        Message("assistant", "好的，祝她生日快乐。"),
    ],
)
QUESTIONS = {
    "tuned": Question(None),
    "raw": Question(
        Prompt("raw", False, "", "", "", "\n\n<end of system logs>", "\n\nTURN", (), 0)
    ),
    "base": Question(parse_prompt("base", prompt_text("base"))),
}


def item(messages: list[Message]) -> LogItem:
    """A whole conversation to score."""
    pieces = render_log(messages)
    kept = int(messages[0].role == "system")
    return LogItem(tuple(piece.text for piece in pieces), tuple(boundaries(pieces)), kept)


def sellers(number: int, first: int = 0) -> list[LogItem]:
    """Conversations under one long system prompt."""
    return [
        item(
            [
                Message("system", RULES),
                Message("user", f"Order {n * 37}: too small. " + "Really. " * (n % 5)),
                Message("assistant", f"I can send a size {40 + n % 7}."),
            ]
        )
        for n in range(first, first + number)
    ]


def chances(
    model: LlamaModel, prefix: list[int], answers: Sequence[tuple[int, ...]]
) -> list[float]:
    """The probabilities of answers after a prefix that is read anew, from an empty cache, for all of them at once."""
    model.clear()
    everyone = tuple(range(len(answers)))
    for at in range(0, len(prefix), model.capacity.batch):
        chunk = prefix[at : at + model.capacity.batch]
        (last,) = model.decode([Span(chunk, at, everyone, (len(chunk) - 1,))])
    # All at once: the next decode overwrites the row.
    totals = [float(found) for found in log_probs(last, [answer[0] for answer in answers])]
    for sequence, answer in enumerate(answers):
        if len(answer) > 1:
            read = answer[:-1]
            rows = model.decode([Span(read, len(prefix), (sequence,), tuple(range(len(read))))])
            for row, token in zip(rows, answer[1:], strict=True):
                totals[sequence] += float(log_probs(row, [token])[0])
    return [math.exp(total) for total in totals]


def score(model: LlamaModel, question: Question, *items: LogItem) -> list[ItemScore]:
    """Scores one block on an empty cache."""
    scorer = BoundaryScorer(model)
    scorer.forget()
    return score_block(scorer, items, question)


def test_one_pass_equals_a_prompt_for_each_boundary(model: LlamaModel) -> None:
    """Every probability of a block equals that of its own prefix read alone, within 1e-4 on F32. Questions with the
    same prefixes share that reading.
    """
    questions = [QUESTIONS[name] for name in ("tuned", "raw")]
    items = [*map(item, TALKS), *sellers(2)]
    blocks = [score(model, question, *items) for question in questions]
    (around, first), *others = [question_tokens(question, model) for question in questions]
    asked = [first, *[one for _, one in others]]
    assert all((head, one.suffix) == (around, first.suffix) for head, one in others)
    answers = [answer for one in asked for answer in (one.end, one.continuation)]
    read = 0
    for log, *scores in zip(items, *blocks, strict=True):
        pieces = [model.tokenize(text) for text in log.texts]
        for scored in scores:
            assert len(scored.curve) == len(log.boundaries)
        curves = [scored.curve for scored in scores]
        for boundary, *points in zip(log.boundaries, *curves, strict=True):
            tokens = [token for piece in pieces[: boundary + 1] for token in piece]
            expected = chances(model, [*around.head, *tokens, *first.suffix], answers)
            found = [value for point in points for value in (point.p_end, point.p_continue)]
            assert found == pytest.approx(expected, abs=1e-4)
            read += 1
    assert read == 10


def test_states_are_those_of_a_context_that_gives_embeddings(model: LlamaModel) -> None:
    """The hidden states of a block are those that llama.cpp gives for each prefix as embeddings of its last token, and
    the probabilities beside them are the same bits as without states."""
    items = [*map(item, TALKS), *sellers(2)]
    plain = score(model, Question(None), *items)
    found = score(model, Question(None, states=True), *items)
    model.keep_states(False)
    assert [replace(one, states=None) for one in found] == plain
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 1024
    params.embeddings = True
    params.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_LAST
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(model._model, params)
    for log, scored in zip(items, found, strict=True):
        pieces = [model.tokenize(text) for text in log.texts]
        assert scored.states is not None
        for boundary, state in zip(log.boundaries, scored.states, strict=True):
            prefix = [token for piece in pieces[: boundary + 1] for token in piece]
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
            tokens = (llama_cpp.llama_token * len(prefix))(*prefix)
            llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(prefix)))
            pointer = llama_cpp.llama_get_embeddings_seq(context, 0)
            expected = np.ctypeslib.as_array(pointer, shape=state.shape)
            assert state == pytest.approx(expected, abs=2e-3)
    llama_cpp.llama_free(context)


@pytest.fixture(scope="module")
def rounded(shallow_weights: Path) -> Iterator[LlamaModel]:
    """Some layers of the model in a format of fewer bits, as projects use it."""
    model = LlamaModel(shallow_weights, SMALL, lambda: False)
    yield model
    model.close()


def test_what_was_scored_before_changes_no_bit(rounded: LlamaModel) -> None:
    """A block whose prefix is in the cache already, at whatever position, scores as on an empty cache."""
    question = QUESTIONS["base"]
    block = sellers(2, first=20)
    fresh = score(rounded, question, *block)
    for before in (1, 3):
        scorer = BoundaryScorer(rounded)
        scorer.forget()
        score_block(scorer, sellers(2), question)
        score_block(scorer, sellers(before, first=5), question)
        assert score_block(scorer, block, question) == fresh
