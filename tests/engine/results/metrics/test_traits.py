"""Profiles of all schemas, read as the same fields."""

from __future__ import annotations

import pytest

from engine.results.metrics.profile_prediction import age_group, names_in, person_of, traits_of

SIMULATED = {
    "preference": "1. Gender: Male\n2. Age: 22",
    "profile_mapped": {
        "Gender": {"en": "Male", "zh": "男"},
        "Age": {"en": "22", "zh": "22"},
        "Occupation": {"en": "Student", "zh": "学生"},
        "Personality": [{"en": "Calm", "zh": "冷静"}, {"en": "Others", "zh": "其他"}],
    },
}
REAL = {
    "profile": {
        "gender": "Male",
        "age": 22,
        "occupation": "学生",
        "personality": ["冷静", "其他"],
        "complete_tid": {"旅行规划": [1]},
    }
}


def test_a_real_person_and_a_simulated_one() -> None:
    """Answers in Chinese are translated by the pairs that simulated profiles contain, so that both can be compared."""
    names = names_in([SIMULATED, {}, {"profile_mapped": "?"}])
    assert names["Occupation"] == {"学生": "Student"}
    assert traits_of(REAL, names) == traits_of(SIMULATED, {})
    assert traits_of(REAL, names) == {
        "Gender": {"Male"},
        "Age": {"under 25"},
        "Occupation": {"Student"},
        "Personality": {"Calm", "Others"},
    }


def test_an_answer_without_a_translation() -> None:
    """An answer without a translation stays as it is."""
    assert traits_of(REAL, {})["Occupation"] == {"学生"}


def test_free_words() -> None:
    """Without closed answers the numbered lines are parsed; lines that are no field are left out."""
    text = (
        "1. Gender: female\n2. Age: 55\n3. Personality: Calm, curious, and kind\n"
        "4. Occupation: Astronomer and poet\n5. Nonsense: x\nhello"
    )
    assert traits_of({"preference": text}, {}) == {
        "Gender": {"Female"},
        "Age": {"55 and over"},
        "Personality": {"calm", "curious", "kind"},
        "Occupation": {"Astronomer and poet"},
    }
    assert traits_of({}, {}) == {}


@pytest.mark.parametrize(
    ("age", "group"),
    [(3, "under 25"), (24, "under 25"), (25, "25 to 34"), (54, "45 to 54"), (55, "55 and over")],
)
def test_ages(age: int, group: str) -> None:
    """An age group begins with its first number and ends before the next group's."""
    assert age_group(age) == group


def test_who_it_is() -> None:
    """The same profile is the same person, whatever tasks the person has completed since."""
    later = {"profile": {**REAL["profile"], "complete_tid": {}}}
    assert person_of(REAL) == person_of(later)
    other = {"profile": {**REAL["profile"], "age": 23}}
    assert person_of(REAL) != person_of(other)
    assert person_of(SIMULATED) != person_of({**SIMULATED, "preference": "2. Age: 22"})
