"""Prediction of profile fields from the user's messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.results.metrics.profile_prediction import (
    FEWEST,
    Question,
    Split,
    UserText,
    answers_to,
    evaluate_predictors,
    questions_for,
    splits_by_person,
)
from engine.results.metrics.profile_predictors import (
    Vectors,
    _ridge,
    is_signs,
    linear,
    most_frequent,
    nearest,
)

ENGLISH = {"Male": "my beard and my boat", "Female": "her garden has roses"}
CHINESE = {"Male": "我想去钓鱼然后喝茶", "Female": "请推荐一本好看的小说"}


def corpus(said: dict[str, str], people: int = 20, each: int = 3) -> list[UserText]:
    """People whose gender decides their words; every second one of each gender is calm and says so."""
    found = []
    for number in range(people):
        gender = "Male" if number % 2 else "Female"
        calm = number % 4 < 2
        traits = {
            "Gender": frozenset([gender]),
            "Personality": frozenset(["calm"] if calm else ["loud"]),
        }
        for nth in range(each):
            text = f"{said[gender]} 好 {'平静 quietly' if calm else '大声 loudly'} {nth}"
            found.append(UserText(text, f"p{number}", traits))
    return found


def by_letters(known: Sequence[str], asked: Sequence[str]) -> tuple[Vectors, Vectors]:
    """Vectors of which letters occur in a text."""

    def rows(texts: Sequence[str]) -> Vectors:
        found: Vectors = np.array(
            [[text.count(c) for c in "brg钓说"] for text in texts], np.float32
        )
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
        return found

    return rows(known), rows(asked)


class TestSplits:
    def test_nobody_is_learnt_from_and_predicted(self) -> None:
        """Every conversation is predicted once, by a model learnt from other people's."""
        people = [one.person for one in corpus(ENGLISH)]
        splits = splits_by_person(people, seed=3)
        assert sorted(at for one in splits for at in one.test) == list(range(len(people)))
        for one in splits:
            assert not {people[at] for at in one.train} & {people[at] for at in one.test}

    def test_the_seed_decides(self) -> None:
        """The same seed gives the same folds, whatever the order of the conversations."""
        people = [one.person for one in corpus(ENGLISH)]
        assert splits_by_person(people, seed=1) == splits_by_person(people, seed=1)
        assert splits_by_person(people, seed=1) != splits_by_person(people, seed=2)


class TestQuestions:
    def test_what_is_asked(self) -> None:
        """Predicted are the answers of a field that enough people have and enough do not; other answers are one
        class.
        """
        odd = UserText("x", "odd", {"Gender": frozenset(["?"]), "Personality": frozenset(["rare"])})
        found = questions_for([*corpus(ENGLISH), odd], corpus(ENGLISH))
        assert found == [
            Question("Gender", ("Female", "Male", "Others")),
            Question("Personality", ("calm", "loud", "Others")),
        ]
        assert answers_to(found[1], odd.traits) == {"Others"}
        assert answers_to(found[1], {"Personality": frozenset(["calm", "rare"])}) == {"calm"}
        assert answers_to(found[0], {}) == frozenset()

    def test_answers_of_few(self) -> None:
        """An answer that fewer than `FEWEST` people have, or nearly all, is not a class."""
        assert questions_for(corpus(ENGLISH, people=2 * FEWEST - 1), corpus(ENGLISH)) == []

    def test_what_nobody_answers(self) -> None:
        """A field is not predicted if none of the tested people has an answer to it, or only rare ones."""
        strangers = [
            UserText("x", "y", {"Age": frozenset(["22"])}),
            UserText("x", "z", {"Gender": frozenset(["?"])}),
        ]
        assert questions_for(corpus(ENGLISH), strangers) == []


@pytest.mark.parametrize("said", [ENGLISH, CHINESE], ids=["English", "Chinese"])
class TestWays:
    def test_what_is_said_decides(self, said: dict[str, str]) -> None:
        """Words, or Chinese characters, that always go with an answer predict it better than the most frequent answer
        does.
        """
        spoken = corpus(said)
        ways = {"most frequent": most_frequent(spoken), "linear": linear(spoken)}
        rows = evaluate_predictors(
            spoken,
            splits_by_person([one.person for one in spoken]),
            ways,
            questions_for(spoken, spoken),
        )
        found = {(row.field, row.way): row for row in rows}
        for field in ("Gender", "Personality"):
            assert found[field, "linear"].accuracy.value == 1
            assert found[field, "most frequent"].accuracy.value <= 0.5
            assert found[field, "most frequent"].gain.value == 0
            assert found[field, "linear"].gain.low > 0
        assert found["Gender", "linear"].f1 == 1
        assert found["Personality", "linear"].f1 is None
        assert (found["Gender", "linear"].people, found["Gender", "linear"].conversations) == (
            20,
            60,
        )

    def test_neighbours(self, said: dict[str, str]) -> None:
        """The prediction is the vote of the nearest conversations."""
        spoken = corpus(said)
        (row,) = evaluate_predictors(
            spoken,
            splits_by_person([one.person for one in spoken]),
            {"nearest": nearest(spoken, by_letters)},
            [Question("Gender", ("Female", "Male", "Others"))],
        )
        assert row.accuracy.value == 1


class TestFigures:
    QUESTION = Question("Gender", ("Female", "Male", "Others"))

    def test_by_hand(self) -> None:
        """Of two people with three conversations two are right; F1 is the mean of .8 and 0."""
        spoken = [
            UserText("", "a", {"Gender": frozenset(["Male"])}),
            UserText("", "a", {"Gender": frozenset(["Male"])}),
            UserText("", "b", {"Gender": frozenset(["Female"])}),
        ]
        base, other = evaluate_predictors(
            spoken,
            [Split((), (0, 1, 2))],
            {"f": lambda *_: [["Female"] * 3], "m": lambda *_: [["Male"] * 3]},
            [self.QUESTION],
        )
        assert base.accuracy.value == pytest.approx(1 / 3)
        assert other.accuracy.value == pytest.approx(2 / 3)
        assert other.f1 == pytest.approx((0.8 + 0) / 2)
        assert other.gain.value == pytest.approx(1 / 3)
        assert (other.accuracy.low, other.accuracy.high) == (0, 1)

    def test_any_of_several_answers_is_right(self) -> None:
        """Each of several answers of a person is right; no prediction is wrong."""
        spoken = [
            UserText("", str(n), {"Personality": frozenset(["calm", "shy"])}) for n in range(4)
        ]
        (row,) = evaluate_predictors(
            spoken,
            [Split((), (0, 1, 2, 3))],
            {"way": lambda *_: [["calm", "shy", "loud", ""]]},
            [Question("Personality", ("calm", "loud", "shy", "Others"))],
        )
        assert row.accuracy.value == 0.5

    def test_unknown_answers_do_not_count(self) -> None:
        """A conversation of a person without an answer to the field is in no figure."""
        spoken = [*corpus(ENGLISH), UserText("my beard", "x", {})]
        rows = evaluate_predictors(
            spoken,
            [Split(tuple(range(60)), (59, 60))],
            {"most frequent": most_frequent(spoken)},
            questions_for(spoken, spoken),
        )
        assert {row.conversations for row in rows} == {1}

    def test_the_same_weights_by_terms(self) -> None:
        """Solved in the dual form, by rows, the regression has the weights of the primal form, by columns."""
        rng = np.random.default_rng(0)
        rows, asked = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
        targets = rng.normal(size=(9, 2))
        means = targets.mean(axis=0)
        weights = np.linalg.solve(rows.T @ rows + np.eye(4), rows.T @ (targets - means))
        found = _ridge(rows @ rows.T, asked @ rows.T, targets)
        assert np.allclose(found, asked @ weights + means)


def test_scripts() -> None:
    """A text is split into characters when most of its letters are Chinese or Japanese."""
    assert is_signs(["用 iPhone 录音好不好呀请告诉我吧"])
    assert not is_signs(["I like 音乐 a lot", "and tea"])
