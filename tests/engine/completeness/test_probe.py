"""The probe: no conversation is scored by a regression that saw it, and its probabilities are probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.base.conversation import Message, render_log
from engine.base.statistics.ranking import auroc
from engine.completeness import probe
from engine.completeness.probe import (
    INVERSE_STRENGTHS_OF_WORDS,
    REPEATS,
    CrossFit,
    cross_fit,
    stack,
)
from engine.completeness.probe_calibration import Calibration, even_weights
from engine.completeness.words import DISTANCES, BoundaryWords, MessageWords

Labels = tuple[NDArray[np.bool_], NDArray[np.bool_]]
Made = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]
MadeWords = tuple[BoundaryWords, NDArray[np.bool_], NDArray[np.int64]]


@pytest.fixture(scope="module", autouse=True)
def repeated() -> Iterator[None]:
    """Conversations are divided into folds twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "REPEATS", 2)
        yield


def made(conversations: int, signal: float, seed: int = 1, dimensions: int = 12) -> Made:
    """States of conversations with two to six boundaries; an end is moved by `signal` along one direction."""
    random = np.random.default_rng(seed)
    counts = random.integers(2, 7, conversations)
    group = np.repeat(np.arange(conversations), counts)
    end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    states = random.normal(size=(len(group), dimensions))
    states[:, 0] += signal * end
    return states.astype(np.float32), end, group


def made_words(conversations: int, thanks: float, seed: int = 1) -> MadeWords:
    """Words of the boundaries of such conversations: the last user message thanks with a probability of `thanks`, each
    other one with .1, and all else is drawn from three hundred words."""
    _, end, group = made(conversations, 0.0, seed)
    random = np.random.default_rng(seed)
    messages = []
    for chance in np.where(end, thanks, 0.1):
        texts = [" ".join(f"w{word}" for word in random.integers(0, 300, 6)) for _ in range(2)]
        messages.append(Message("user", texts[0] + (" thanks" if random.random() < chance else "")))
        messages.append(Message("assistant", texts[1]))
    answers = 2 * np.arange(len(end)) + 1
    index = answers[:, None] - np.arange(DISTANCES)
    first = 2 * np.searchsorted(group, group)
    return (
        BoundaryWords(
            MessageWords.from_pieces(render_log(messages)),
            np.where(index < first[:, None], -1, index),
        ),
        end,
        group,
    )


def area(p: NDArray[np.float64], end: NDArray[np.bool_]) -> float:
    """AUROC of scores."""
    return auroc(p.tolist(), end.tolist()).value


class TestCrossFit:
    def test_what_can_be_told_is_told(self) -> None:
        """States that differ by two standard deviations are told apart nearly as well as by the best rule."""
        states, end, group = made(150, signal=2.0)
        found = cross_fit(states, end, group)
        best = auroc(states[:, 0].tolist(), end.tolist(), group.tolist()).value
        assert auroc(found.p.tolist(), end.tolist(), group.tolist()).value > best - 0.03

    def test_nothing_is_learnt_from_the_conversation_itself(self) -> None:
        """Labels without any relation to the states are not told, though a regression could learn them by heart."""
        states, end, group = made(60, signal=0.0, dimensions=200)
        found = cross_fit(states, end, group)
        found_area = auroc(found.p.tolist(), end.tolist(), group.tolist())
        assert 0.35 < found_area.value < 0.65

    def test_others_are_scored_later_as_well(self) -> None:
        """Conversations that are scored after the fit are told apart as well as those in it, and their probabilities
        are calibrated; stored states, in float16, give the same bits."""
        states, end, group = made(400, signal=2.0)
        states = states.astype(np.float16).astype(np.float32)
        own = group < 200
        found = cross_fit(states[own], end[own], group[own])
        p = found.score_unseen(states[~own])
        assert found.score_unseen(states[~own].astype(np.float16)).tolist() == p.tolist()
        later = auroc(p.tolist(), end[~own].tolist()).value
        assert later == pytest.approx(auroc(found.p.tolist(), end[own].tolist()).value, abs=0.03)
        weight = even_weights(end[~own], group[~own])
        assert weight @ p == pytest.approx(weight @ end[~own], abs=0.03)


def fit_words(data: MadeWords) -> CrossFit:
    """Cross-fits words as the stage does."""
    return cross_fit(*data, inverse_strengths=INVERSE_STRENGTHS_OF_WORDS)


class TestCrossFitOfWords:
    def test_what_words_tell_is_told(self) -> None:
        """Ends where people mostly thank are told about as well as by that word alone, .9 of the ends and .1 of the
        others; without it they are not, wherever there are three messages to read."""
        words, end, group = made_words(200, thanks=0.9)
        assert area(fit_words((words, end, group)).p, end) > 0.87
        silent, end, group = made_words(200, thanks=0.1)
        later = (silent.messages >= 0).all(axis=1)
        assert 0.4 < area(fit_words((silent, end, group)).p[later], end[later]) < 0.6

    def test_copies_in_one_group_are_not_learnt_by_heart(self) -> None:
        """Copies in one group stand in one fold in each repeat, and score as without copies; in groups of their own
        they would be known again."""
        words, end, group = made_words(40, thanks=0.1)
        rows = np.tile(np.arange(len(end)), 2)
        ends = end[rows]
        apart = fit_words((words[rows], ends, np.concatenate([group, group + 40])))
        together = fit_words((words[rows], ends, group[rows]))
        assert (together.folds[:, : len(end)] == together.folds[:, len(end) :]).all()
        assert (apart.folds[:, : len(end)] != apart.folds[:, len(end) :]).any()
        assert area(apart.p, ends) > 0.8
        assert area(together.p, ends) < 0.7


@pytest.mark.parametrize("kind", ["words", "states"])
def test_no_label_changes_the_scores_of_its_own_group(kind: Literal["words", "states"]) -> None:
    """With its labels turned round, a conversation gets the same log-odds from each repeat; others do not."""
    features, end, group = made_words(40, 0.9) if kind == "words" else made(40, 1.0)
    strengths = INVERSE_STRENGTHS_OF_WORDS if kind == "words" else probe.INVERSE_STRENGTHS
    before = cross_fit(features, end, group, inverse_strengths=strengths)
    for own in (group == 3, group == 17):
        turned = cross_fit(features, end ^ own, group, inverse_strengths=strengths)
        assert turned.log_odds[:, own].tolist() == before.log_odds[:, own].tolist()
        assert (turned.log_odds[:, ~own] != before.log_odds[:, ~own]).mean() > 0.5


def given_log_odds(values: NDArray[np.float64]) -> CrossFit:
    """A cross-fitting that came to these log-odds in each repeat."""
    folds = np.zeros((REPEATS, len(values)), dtype=np.int8)
    return CrossFit(np.tile(values, (REPEATS, 1)), Calibration(1.0, 0.0, 0.0), folds, ())


class TestStack:
    @pytest.mark.parametrize(("first", "second"), [(0.0, 3.0), (3.0, 1.0), (1.0, 1.0)])
    def test_it_is_about_as_good_as_the_better_one(self, first: float, second: float) -> None:
        """Whichever of two probes tells ends apart, and however well, their sum does it as well as the better one,
        within a hundredth; where both do, better."""
        values, end, group = made(300, 0.0)
        one, other = (
            given_log_odds(values[:, column] + signal * end)
            for column, signal in ((0, first), (1, second))
        )
        best = max(area(one.p, end), area(other.p, end))
        found = area(stack(one, other, end, group).joined.p, end)
        assert found > best - 0.01
        if first == second > 0:
            assert found > best + 0.01

    @pytest.mark.parametrize(("first", "second"), [(-3, 3), (0, 0)])
    def test_no_weight_is_negative(self, first: float, second: float) -> None:
        """Not even where higher log-odds speak against an end, or say nothing."""
        values, end, group = made(60, 0.0)
        one, other = (
            given_log_odds(values[:, column] + signal * end)
            for column, signal in ((0, first), (1, second))
        )
        weights = stack(one, other, end, group).weights
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()


def broken_off(end: NDArray[np.bool_], group: NDArray[np.int64], share: float) -> Labels:
    """The boundaries that are left, and their labels, after a share of the conversations broke off at random."""
    random = np.random.default_rng(9)
    kept, label = np.ones(len(end), dtype=bool), end.copy()
    for name in np.unique(group):
        rows = np.flatnonzero(group == name)
        if random.random() < share:
            last = random.integers(0, len(rows) - 1)
            kept[rows[last + 1 :]] = False
            label[rows[last]] = True
    return kept, label


class TestBrokenOff:
    @pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
    def test_the_share_is_found_from_the_logs_alone(self, share: float) -> None:
        """The estimated share of conversations that broke off is the true one, within a tenth."""
        states, end, group = made(300, signal=4.0)
        kept, label = broken_off(end, group, share)
        found = cross_fit(states[kept], label[kept], group[kept])
        assert found.calibration.broken == pytest.approx(share, abs=0.1)

    def test_true_ends_are_told_as_well_as_without(self) -> None:
        """With 40 in 100 broken off, ends and others at the threshold are as often right as with whole
        conversations, within two in a hundred."""
        states, end, group = made(300, signal=4.0)
        kept, label = broken_off(end, group, 0.4)
        weight = even_weights(end[kept], group[kept])
        right = [
            float(weight @ ((p >= 0.5) == end[kept]))
            for p in (
                cross_fit(states, end, group).p[kept],
                cross_fit(states[kept], label[kept], group[kept]).p,
            )
        ]
        assert right[1] > right[0] - 0.02
        assert right[0] > 0.95


class TestCalibration:
    @pytest.mark.parametrize("signal", [0.5, 2.0])
    def test_probabilities_are_shares(self, signal: float) -> None:
        """At even odds of ends and others, of what gets about p a share of about p is an end."""
        states, end, group = made(1_000, signal=signal, dimensions=3)
        p = cross_fit(states, end, group).p
        weight = even_weights(end, group)
        for low in np.arange(0, 1, 0.2):
            within = (p >= low) & (p < low + 0.2)
            if weight[within].sum() > 0.02:
                share = weight[within & end].sum() / weight[within].sum()
                assert share == pytest.approx(
                    np.average(p[within], weights=weight[within]), abs=0.08
                )

    def test_steps_are_used_where_a_line_does_not_fit(self) -> None:
        """Where a value well above the others says no more than one just above them, isotonic regression is taken,
        and its probabilities are shares."""
        random = np.random.default_rng(3)
        values = random.normal(size=4_000) * 3
        chance = np.where(values < 0, 0.05, 0.8)
        end = random.random(4_000) < chance
        found = Calibration.fit(values, end, np.arange(4_000))
        assert found.isotonic is not None
        even = 0.8 / (0.8 + 0.2 * end.sum() / (~end).sum())
        assert found.label_probability(np.array([2.0]))[0] == pytest.approx(even, abs=0.05)
        assert found.label_probability(np.array([4.0]))[0] == pytest.approx(even, abs=0.05)

    @pytest.mark.parametrize("way", ["line", "isotonic"])
    def test_a_third_of_the_ends_that_look_like_others_are_taken_as_broken_off(
        self, way: Literal["line", "isotonic"]
    ) -> None:
        """The probability of label 1 there is a quarter at even odds; that of a true end is near 0, and both are
        high where only ends are."""
        random = np.random.default_rng(3)
        end = np.arange(3_000) % 2 == 0
        broken = end & (random.random(3_000) < 1 / 3)
        values = random.normal(size=3_000) + np.where(end & ~broken, 8.0, -8.0)
        line, isotonic = Calibration._fit_both(values, end, np.arange(3_000) // 2)
        found = line if way == "line" else isotonic
        assert found.broken == pytest.approx(1 / 3, abs=0.03)
        low, high = np.array([-8.0]), np.array([8.0])
        assert found.label_probability(low)[0] == pytest.approx(0.25, abs=0.05)
        assert found.true_end_probability(low)[0] < 0.05
        assert min(found.label_probability(high)[0], found.true_end_probability(high)[0]) > 0.95
