"""`workbench analyse profiles`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.shared_data import original_folder
from workbench.cli import main

PEOPLE = 12
WORDS = {"Male": ("a boat with sails", "我想坐帆船"), "Female": ("a rose garden", "我喜欢玫瑰园")}


def simulated(number: int, *, translated: bool = True) -> dict[str, Any]:
    """A conversation of one of `PEOPLE`, in the schema of simulated users."""
    person = number % PEOPLE
    gender = "Male" if person % 2 else "Female"
    english, chinese = WORDS[gender]
    user: dict[str, Any] = {"role": "user", "content": f"I want {english} {number}"}
    if translated:
        user["content_zh"] = f"{chinese}{number}"
    return {
        "id": f"s{number}",
        "task": "preparing gifts",
        "task_context": "You look for a gift.",
        "preference_id": person,
        "preference": f"1. Gender: {gender}\n2. Age: {20 + person}",
        "profile_mapped": {"Gender": {"en": gender, "zh": "男" if gender == "Male" else "女"}},
        "history": [user, {"role": "assistant", "content": "Fine."}],
    }


def real(number: int) -> dict[str, Any]:
    """A conversation of a real person, in Chinese."""
    gender = "Male" if number % 2 else "Female"
    return {
        "id": f"r{number}",
        "task_type": "礼物准备",
        "task_context": "你想送礼物。",
        "profile": {"gender": gender, "age": 20 + number, "personality": ["冷静"]},
        "questionnaire": [],
        "history": [
            {"role": "user", "content": f"{WORDS[gender][1]}，第{number}次"},
            {"role": "assistant", "content": "好的。"},
        ],
    }


def project(path: Path, records: Sequence[Mapping[str, Any]]) -> str:
    lines = path.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    assert main(["import", str(path), str(lines)]) == 0
    return str(path)


def rows(capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads(capsys.readouterr().out)["profiles"]
    return {(one["field"], one["way"]): one for one in found}


def test_in_one_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody is predicted from other people's messages, and the table says what beats the most frequent answer."""
    path = project(tmp_path / "s.wb", [simulated(n) for n in range(3 * PEOPLE)])
    capsys.readouterr()
    assert main(["analyse", "profiles", path]) == 0
    told = capsys.readouterr()
    assert "fitted to other people" in told.err
    assert told.out.splitlines()[-1].startswith(
        "Better than the most frequent answer: Gender (linear)"
    )
    assert main(["analyse", "profiles", path, "--json"]) == 0
    found = rows(capsys)
    assert found["Gender", "linear"]["accuracy"]["value"] == 1
    assert found["Gender", "linear"]["people"] == PEOPLE
    assert {field for field, _ in found} == {"Gender"}


def test_fitted_to_simulated_people_and_tested_on_real_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prediction works across languages, with the translations and the answers of both vocabularies joined."""
    train = project(tmp_path / "s.wb", [simulated(n) for n in range(2 * PEOPLE)])
    test = project(tmp_path / "r.wb", [real(n) for n in range(6)])
    capsys.readouterr()
    assert main(["analyse", "profiles", train, "--test", test, "--json"]) == 0
    told = capsys.readouterr()
    assert "Chinese translations" in told.err
    found = {(one["field"], one["way"]): one for one in json.loads(told.out)["profiles"]}
    assert found["Gender", "linear"]["accuracy"]["value"] == 1
    assert found["Gender", "nearest (tfidf)"]["accuracy"]["value"] == 1
    assert found["Gender", "most frequent"]["conversations"] == 6


def test_without_translations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without translations the words of another script predict nothing, and the command says so."""
    train = project(tmp_path / "s.wb", [simulated(n, translated=False) for n in range(2 * PEOPLE)])
    test = project(tmp_path / "r.wb", [real(n) for n in range(6)])
    capsys.readouterr()
    assert main(["analyse", "profiles", train, "--test", test]) == 0
    assert "no translation" in capsys.readouterr().err


def test_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit predicts that many conversations, drawn by the seed."""
    path = project(tmp_path / "s.wb", [simulated(n) for n in range(3 * PEOPLE)])
    capsys.readouterr()
    assert main(["analyse", "profiles", path, "--limit", "7", "--json"]) == 0
    assert {one["conversations"] for one in rows(capsys).values()} == {7}


def test_nobody_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without profiles, or with too few people of the same answer, the error says what is needed."""
    plain = [{"id": str(n), "messages": [{"role": "user", "content": f"hi {n}"}]} for n in range(3)]
    path = project(tmp_path / "p.wb", plain)
    few = project(tmp_path / "f.wb", [simulated(n) for n in range(4)])
    capsys.readouterr()
    assert main(["analyse", "profiles", path]) == 2
    assert "profile_mapped" in capsys.readouterr().err
    assert main(["analyse", "profiles", few, "--test", path]) == 2
    assert "has no profiles" in capsys.readouterr().err
    assert main(["analyse", "profiles", few]) == 2
    assert "five people" in capsys.readouterr().err


ORIGINAL = original_folder("recllmsim")

if ORIGINAL is not None:

    def test_the_original_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """All three schemas give people with the same fields and answers."""
        from engine.conversations.filters import Filter
        from engine.project.project import Project
        from engine.results.metrics.profile_prediction import FIELDS
        from engine.results.metrics.profile_predictors import is_signs
        from engine.simulate.profiles.user_texts import within

        path = str(tmp_path / "o.wb")
        assert main(["import", path, str(ORIGINAL)]) == 0
        with Project.open(path, read_only=True) as opened:
            asked = within(opened, Filter(), seed=0, limit=None)
        assert len(asked.spoken) == 11
        for one in asked.spoken:
            assert set(one.traits) == set(FIELDS)
            for answers in one.traits.values():
                assert not is_signs(sorted(answers))
