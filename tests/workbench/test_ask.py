"""`workbench ask` and `questions`: a question of any kind on logs, answered by patterns and by people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.project.project import Project
from tests.engine.project.support import fill, talk
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Project.open(tmp_path / "p.wb", create=True) as project:
        said = ["Sure.", "I am unable to do that.", "Done.", "I'm afraid not."]
        fill(project, [talk(f"c{n}", f"Lamp {n}?", text) for n, text in enumerate(said)])
    return str(tmp_path / "p.wb")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def names(capsys: pytest.CaptureFixture[str], path: str, filter: str) -> list[str]:
    capsys.readouterr()
    assert main(["list", path, "--filter", filter, "--json"]) == 0
    return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]


def test_a_pattern_answers_once(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern answers on everything with the places, not again on what it read, and a person's answer goes before."""
    assert run(capsys, "ask", path, "refused", "--estimate")["conversations"] == 4
    asked = run(capsys, "ask", path, "refused", "--limit", "2")
    assert (asked["answered"], asked["answers"]) == (
        2, [{"by": "pattern", "counts": {"no": 1, "yes": 1}}],
    )  # fmt: skip
    assert run(capsys, "ask", path, "refused")["answered"] == 2
    assert run(capsys, "ask", path, "refused")["answered"] == 0
    rows = run(capsys, "answers", path, "refused")["answers"]
    assert [(row["value"], row["cites"]) for row in rows] == [
        ("no", []), ("yes", [1]), ("no", []), ("yes", [1]),
    ]  # fmt: skip
    assert names(capsys, path, "refused:yes") == ["c1", "c3"]
    main(["answers", path, "refused", "--give", "c3", "no", "--annotator", "Ana B"])
    assert names(capsys, path, "refused:yes") == ["c1"]
    assert names(capsys, path, "refused@pattern:yes refused@ana-b:no") == ["c3"]
    assert names(capsys, path, "refused@person:none -c2") == ["c0", "c1", "c2"]
    agreement = run(capsys, "questions", path, "--agreement", "refused")
    assert agreement["people"] == {"pattern": 4, "Ana B": 1}
    assert agreement["shared"] == 1


def test_a_question_in_words(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a question makes a yes-no question, which people answer; a word that is none is refused."""
    asked = run(capsys, "ask", path, "Is the lamp broken?")
    assert asked == {"question": "is-the-lamp-broken", "by": "person", "conversations": 4}
    assert main(["answers", path, "is-the-lamp-broken", "--give", "c1", "yes"]) == 0
    assert names(capsys, path, "is-the-lamp-broken:yes") == ["c1"]
    assert main(["ask", path, "broken"]) == 2
    assert "Questions are" in capsys.readouterr().err
    assert main(["list", path, "--filter", "nothing:x"]) == 2
    assert "There is no field and no question “nothing”" in capsys.readouterr().err


def test_a_file_of_ones_own(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file is added, shown as it is, asked again after a change, and removed; its answers stay."""
    file = tmp_path / "polite.toml"
    file.write_text('text = "Polite?"\n[[patterns]]\nwords = ["sure"]\n', "utf-8")
    assert main(["questions", path, "--add", str(file)]) == 0
    assert run(capsys, "questions", path, "--show", "polite")["file"] == file.read_text("utf-8")
    assert run(capsys, "ask", path, "polite")["answered"] == 4
    file.write_text('text = "Polite?"\n[[patterns]]\nwords = ["sure", "done"]\n', "utf-8")
    assert run(capsys, "ask", path, str(file))["answered"] == 4
    assert names(capsys, path, "polite:yes") == ["c0", "c2"]
    assert main(["questions", path, "--remove", "polite"]) == 0
    assert names(capsys, path, "polite:yes") == ["c0", "c2"]
    file.rename(tmp_path / "succeeded.toml")
    assert main(["questions", path, "--add", str(tmp_path / "succeeded.toml")]) == 2


def test_rates_by_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each who answered has a row for each value of a field, numbers in their order, with the share of each answer and
    the mean of numbers; --by alone and a question without answers are refused."""
    path = str(tmp_path / "r.wb")
    with Project.open(tmp_path / "r.wb", create=True) as project:
        talks = [
            talk(f"c{n}", *[f"Lamp {n}?", "Yes."] * (10 if n == 3 else 2), truth={"grade": n % 3})
            for n in range(4)
        ]
        fill(project, talks)
    run(capsys, "answers", path, "diversity", "--from", "truth.grade")
    run(capsys, "answers", path, "diversity", "--give", "c1", "0")
    rates = run(capsys, "questions", path, "--rates", "diversity", "--by", "turns")["rates"]
    assert [(row["value"], row["by"], row["answered"], row["mean"], row["2"]) for row in rates] == [
        ("2", "people", 1, 0.0, 0.0), ("2", "truth", 3, 1.0, pytest.approx(1 / 3)), ("10", "truth", 1, 0.0, 0.0),
    ]  # fmt: skip
    assert rates[1]["ci"]["mean"] == pytest.approx(
        [1 - 1.96 / 3**0.5, 1 + 1.96 / 3**0.5], abs=0.001
    )
    run(capsys, "ask", path, "repeated-itself")
    (only,) = run(capsys, "questions", path, "--rates", "repeated-itself", "--filter", "turns>2")[
        "rates"
    ]
    assert (only["value"], only["yes"], only["answered"]) == ("all", 1.0, 1)
    for words in (
        ["--by", "turns"],
        ["--rates", "unsafe"],
        ["--rates", "diversity", "--by", "goal"],
    ):
        assert main(["questions", path, *words]) == 2
