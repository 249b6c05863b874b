"""Judging an evaluator adapter: the questions, and the figures of two models side by side."""

from __future__ import annotations

import pytest

from engine.goals.questions.teaching import Known
from tests.engine.goals.groups import wishes
from workbench.bench.evaluator import pairs_of
from workbench.bench.evaluator_figures import (
    merge_figures,
    remaining_figures,
    summary_figures,
    table,
    word_f1,
)

SAME = [True, False] * 20
RIGHT = [(0.9, 0.7) if same else (0.3, 0.1) for same in SAME]
BLIND = [(0.8, 0.2)] * len(SAME)


def test_merges() -> None:
    """A model that tells all pairs has an area of 1, one that answers by place has chance and orders far apart."""
    both, one, apart = merge_figures("made", BLIND, RIGHT, SAME)

    assert (both.untuned.value, both.tuned.value) == (0.5, 1.0)
    assert (one.untuned.value, one.tuned.value, one.n) == (0.5, 1.0, 40)
    assert apart.untuned.value == pytest.approx(0.6)
    assert apart.tuned.value == pytest.approx(0.2)
    assert both.gain.low > 0


def test_the_same_answers_gain_nothing() -> None:
    """Both models are judged by the same draws, so equal answers differ in none."""
    both, *_ = merge_figures("made", RIGHT, RIGHT, SAME)

    assert (both.gain.value, both.gain.low, both.gain.high) == (0.0, 0.0, 0.0)


def test_summaries() -> None:
    """Texts that name their goal agree with it, texts that are drawn without looking do not."""
    _, kinds = wishes()
    names = [f"{kind} somewhere" for kind in kinds]
    mixed = [f"thing{at % 7} somewhere" for at in range(len(kinds))]
    v, ari = summary_figures("made", kinds, mixed, names)

    assert v.tuned.value > v.untuned.value
    assert ari.tuned.value == pytest.approx(1)
    assert ari.gain.low > 0


@pytest.mark.parametrize(
    ("text", "f1"),
    [
        ("The assistant still has to book a seat.", 1.0),
        ("book the train", 0.5),
        ("nothing", 0.0),
        ("", 0.0),
    ],
)
def test_words_in_common(text: str, f1: float) -> None:
    """Small words and the prompt's own beginning do not count."""
    assert word_f1(text, " book a seat.") == pytest.approx(f1)


def test_remaining() -> None:
    """The mean over all samples."""
    found = remaining_figures(["book a seat", "pay"], ["", "pay"], ["book a seat", "pay"])

    assert (found.untuned.value, found.tuned.value, found.gain.value) == (0.5, 1.0, 0.5)


def test_the_table_has_a_line_for_each_figure() -> None:
    """With intervals and the sign of the gain."""
    lines = table(merge_figures("made", BLIND, RIGHT, SAME)).splitlines()

    assert len(lines) == 5
    assert "| 0.50 (0.50 to 0.50) | 1.00 (1.00 to 1.00) | +0.50 (+0.50 to +0.50) |" in lines[2]


def test_the_interval_lies_around_what_was_seen() -> None:
    """Of groups that agree by chance too: nothing stands twice in a draw, which would pass for agreement."""
    _, kinds = wishes()
    mixed = [f"thing{at % 7} somewhere" for at in range(len(kinds))]
    for one in summary_figures("made", kinds, mixed, mixed):
        assert one.untuned.low <= one.untuned.value <= one.untuned.high
        assert one.gain.low == one.gain.high == 0


def test_pairs() -> None:
    """As many pairs of one goal as of two; sides are of different conversations, the others of neither."""
    texts, kinds = wishes()
    known = [
        Known(str(at), "made", (text,), 0, text, kind, "")
        for at, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    ]
    pairs = pairs_of(known, 8, 5)
    kind_of = dict(zip(texts, kinds, strict=True))

    assert pairs.same.count(True) == pairs.same.count(False) > 0
    for question, same in zip(pairs.questions, pairs.same, strict=True):
        first, second = (
            {kind_of[text] for text in side} for side in (question.first, question.second)
        )
        assert bool(first & second) or not same
        assert max(map(len, (question.first, question.second, question.others))) <= 5
        assert not set(question.others) & {*question.first, *question.second}
