"""The check of a machine: drawn in strata, its rates hold whatever else people answer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from engine.questions.answer_check import (
    MAX_DRAWN,
    ROUND,
    AnswerCheck,
    draw,
    extend,
    is_stale,
    report,
)
from engine.questions.question import Question, parse_question
from engine.questions.records import MEAN, MachineAnswer

CONVERSATIONS = 600
YES_NO = Question("refused", "Refused?")


class World:
    """Conversations with a truth, and a machine that errs; where it has probabilities they say how often."""

    def __init__(self, seed: int, rates: tuple[float, float, float], *, unsure: bool) -> None:
        """`rates`: the share of yes, and those of yes and of no that the machine sees."""
        random = np.random.default_rng(seed)
        share, sensitivity, specificity = rates
        is_yes = random.random(CONVERSATIONS) < share
        error = np.where(is_yes, 1 - sensitivity, 1 - specificity)
        if unsure:
            error = np.clip(error * random.beta(1, 2.5, CONVERSATIONS) * 3.5, 0, 0.9)
        says = is_yes != (random.random(CONVERSATIONS) < error)
        self.truth = {key: "yes" if yes else "no" for key, yes in enumerate(is_yes, 1)}
        self.share = float(is_yes.mean())
        self.answers = [
            MachineAnswer(key, "yes" if yes else "no", float(1 - min(e, 0.5)) if unsure else None)
            for key, (yes, e) in enumerate(zip(says, error, strict=True), 1)
        ]
        self.random = random

    def chosen(self, share: float) -> dict[int, str]:
        """What a person answered who reads what went wrong first."""
        return {
            key: value
            for key, value in self.truth.items()
            if self.random.random() < (share if value == "no" else share / 10)
        }


@pytest.mark.parametrize(("biased", "unsure"), [(False, False), (True, True)])
def test_intervals_hold_the_truth(biased: bool, unsure: bool) -> None:
    """In 500 checks the interval of 95% has the true rate in 93 to 97%, and the rate is right on average, also where
    people answered mostly what went wrong, before the draw and after it."""
    held, errors, guesses = 0, [], []
    for seed in range(500):
        world = World(seed, (0.3, 0.65, 0.7), unsure=unsure)
        before = world.chosen(0.4) if biased else {}
        check = extend(draw("pattern", world.answers, before))
        people = before | {key: world.truth[key] for key in check.drawn}
        if biased:
            people |= world.chosen(0.3)
            guesses.append(np.mean([value == "yes" for value in people.values()]) - world.share)
        (share,) = report(check, YES_NO, people).shares
        assert share.corrected is not None
        held += share.corrected.low <= world.share <= share.corrected.high
        errors.append(share.corrected.value - world.share)
    assert 465 <= held <= 485
    assert abs(np.mean(errors)) < 0.01
    assert (
        not biased or abs(np.mean(guesses)) > 0.1
    )  # what a plain share of their answers would say


def drawn_by_answer(check: AnswerCheck) -> Counter[str]:
    """How many were drawn of each answer."""
    return Counter(value for stratum in check.strata for _, value in stratum.drawn)


def test_rare_answers_are_drawn() -> None:
    """A round has rare answers and doubtful ones, no conversation twice, and the next round adds to it."""
    answers = [
        MachineAnswer(key, "yes" if key <= 20 else "no", 0.55 if key % 2 else 0.99)
        for key in range(1, 501)
    ]
    check = draw("model", answers, {1: "yes", 2: "no"})
    assert len(set(check.drawn)) == ROUND
    assert drawn_by_answer(check)["yes"] >= 4
    assert sum(key % 2 for key in check.drawn) > ROUND / 2
    assert not {1, 2} & set(check.drawn)
    longer = extend(check)
    assert len(longer.drawn) == 2 * ROUND
    assert set(check.drawn) < set(longer.drawn)


def test_all_of_a_few_are_drawn() -> None:
    """Where fewer are left than a round has, all are drawn; once all are answered the rate has no interval."""
    answers = [MachineAnswer(key, "yes" if key < 4 else "no") for key in range(1, 9)]
    check = extend(draw("pattern", answers, {8: "no"}))
    assert sorted(check.drawn) == list(range(1, 8))
    people = {key: "yes" if key < 3 else "no" for key in range(1, 9)}
    checked = report(check, YES_NO, people)
    (share,) = checked.shares
    assert share.corrected is not None
    assert (share.corrected.low, share.corrected.high) == pytest.approx((0.25, 0.25))
    assert (checked.same, checked.answered, checked.more) == (6, 7, None)
    assert check.strata[0].size <= MAX_DRAWN


def test_each_label_of_a_choice_has_a_rate() -> None:
    """The rates of a choice sum to one, and how many more answers would halve the intervals is said in words."""
    question = parse_question(
        "topic", 'text = "Which?"\nkind = "choice"\n[labels]\na = ""\nb = ""\nc = ""\n'
    )
    answers = [MachineAnswer(key, "aab"[key % 3]) for key in range(1, 301)]
    check = draw("judge", answers, ())
    checked = report(check, question, {key: "abc"[key % 3] for key in check.drawn})
    rates = [share.corrected.value for share in checked.shares if share.corrected]
    assert [share.value for share in checked.shares] == ["a", "b", "c"]
    assert sum(rates) == pytest.approx(1)
    assert checked.more is not None
    assert any(f"{checked.more} more answers" in sentence for sentence in checked.sentences())


def test_a_number_has_a_mean() -> None:
    """The mean of numbers is corrected by what people say of the drawn ones: a machine that is always 1 too high is
    1 too high on all."""
    answers = [MachineAnswer(key, str(key % 3)) for key in range(1, 61)]
    check = draw("judge", answers, ())
    people = {key: str(key % 3 - 1) for key in check.drawn}
    (mean,) = report(check, Question("stars", "How many?", "number"), people).shares
    assert (mean.value, mean.apparent) == (MEAN, 1)
    assert mean.corrected is not None
    assert (mean.corrected.low, mean.corrected.value, mean.corrected.high) == pytest.approx(
        (0, 0, 0), abs=1e-9
    )
    assert mean.text == "0.00 (0.00 to 0.00)"


def test_other_answers_make_a_check_stale() -> None:
    """A check is stale once the machine answers otherwise, also where the numbers of its answers are the same."""
    answers = [MachineAnswer(key, "yes" if key < 3 else "no") for key in range(1, 9)]
    check = draw("examples", answers, {8: "no"})
    swapped = [MachineAnswer(1, "no"), *answers[1:7], MachineAnswer(8, "yes")]
    assert not is_stale(check, answers)
    assert is_stale(check, swapped)
    assert is_stale(check, answers[:-1])
