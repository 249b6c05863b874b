"""The likelihood ratio on a model whose probabilities are known."""

from __future__ import annotations

import math

import pytest

from engine.goals.questions import continuation, likelihood_ratios, list_prefix, read_mixed
from tests.engine.goals.toy_asker import ToyAsker

TEXTS = {"a": ["book train"], "b": ["book bus"], "c": ["cook rice"]}
MIXED = {"a": ["x y"], "b": ["x y"], "c": ["x y"]}


def test_value() -> None:
    """The ratio is the mean over both directions of the gain in log-probability per token."""
    asker = ToyAsker()
    after_mixed = read_mixed(asker, MIXED, TEXTS)
    [ratio] = likelihood_ratios(asker, [("a", "b")], TEXTS, after_mixed)
    # Either way one word of two was read before: its count goes from 1 to 2, among as many words as in the mixed list.
    assert ratio == pytest.approx(math.log(2) / 2)


def test_likeness_shows() -> None:
    """Lists that share words have a larger ratio than lists that share none, in either order."""
    asker = ToyAsker()
    after_mixed = read_mixed(asker, MIXED, TEXTS)
    pairs = [("a", "b"), ("b", "a"), ("a", "c")]
    alike, turned, unlike = likelihood_ratios(asker, pairs, TEXTS, after_mixed)
    assert alike == turned
    assert alike > unlike
    assert unlike == pytest.approx(0.0)


def test_each_text_on_its_own() -> None:
    """Each text is scored right after the list, so a direction costs one scoring for each text."""
    asker = ToyAsker()
    texts = {"a": ["one", "two", "three"], "b": ["four"]}
    after_mixed = read_mixed(asker, {"a": ["x"], "b": ["x"]}, texts)
    assert [len(found) for found in after_mixed.values()] == [3, 1]
    asker.asked.clear()
    likelihood_ratios(asker, [("a", "b")], texts, after_mixed)
    assert asker.asked == [
        (list_prefix(["one", "two", "three"]), continuation("four")),
        *((list_prefix(["four"]), continuation(text)) for text in texts["a"]),
    ]


def test_no_pairs() -> None:
    """Without pairs the model is not called."""
    assert likelihood_ratios(ToyAsker(), [], {}, {}) == []
