"""The profiles and situations of the program."""

from __future__ import annotations

from engine.simulate.recsim.people import FIELDS, TASKS, profiles, situations, vocabulary


def test_profiles() -> None:
    """There are twelve profiles, each with nine numbered lines in both languages and a value of the vocabulary in each
    field.
    """
    assert [one.id for one in profiles()] == list(range(12))
    for one in profiles():
        for language, names in (("en", list(FIELDS)), ("zh", list(FIELDS.values()))):
            lines = one.text[language].split("\n")  # type: ignore[index]
            assert [line.split(". ", 1)[0] for line in lines] == [str(n) for n in range(1, 10)]
            assert all(name in line for name, line in zip(names, lines, strict=True))
        assert set(one.mapped) == set(FIELDS)
        for field, words in vocabulary().items():
            said = one.mapped[field]
            for pair in said if isinstance(said, list) else [said]:
                assert words[pair["en"]] == pair["zh"]


def test_situations() -> None:
    """Every task has at least two, each in both languages."""
    for task in TASKS:
        found = [one for one in situations() if one.task == task]
        assert len(found) >= 2
        assert all(one.text["en"] and one.text["zh"] for one in found)
    assert len({one.id for one in situations()}) == len(situations())
