"""`workbench ask` and `questions`: a question of any kind on logs, answered by patterns, people and models."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import Cancelled
from engine.conversations.selection import Selection
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.questions.question import parse_question, read_built_in
from engine.questions.service.asking import AskRequest, unanswered_ids
from tests.command_line import result, workbench
from tests.engine.model.endpoints.scripted_server import KINDS, scripted
from tests.engine.project.support import fill, talk
from workbench.api.project import Project as ApiProject
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Project.open(tmp_path / "p.wb", create=True) as project:
        said = ["Sure.", "I am unable to do that.", "Done.", "I'm afraid not."]
        fill(project, [talk(f"c{n}", f"Lamp {n}?", text) for n, text in enumerate(said)])
    return str(tmp_path / "p.wb")


def names(path: str, filter: str) -> list[str]:
    lines = workbench("list", path, "--filter", filter, "--json").stdout.splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_a_pattern_answers_once(path: str) -> None:
    """A pattern answers on everything with the places, not again on what it read, and a person's answer goes before."""
    assert result("ask", path, "refused", "--estimate")["conversations"] == 4
    asked = result("ask", path, "refused", "--limit", "2")
    assert (asked["answered"], asked["answers"]) == (
        2, [{"by": "pattern", "counts": {"no": 1, "yes": 1}}],
    )  # fmt: skip
    assert result("ask", path, "refused")["answered"] == 2
    assert result("ask", path, "refused")["answered"] == 0
    rows = result("answers", path, "refused")["answers"]
    assert [(row["value"], row["cites"]) for row in rows] == [
        ("no", []), ("yes", [1]), ("no", []), ("yes", [1]),
    ]  # fmt: skip
    assert names(path, "refused:yes") == ["c1", "c3"]
    main(["answers", path, "refused", "--give", "c3", "no", "--annotator", "Ana B"])
    assert names(path, "refused:yes") == ["c1"]
    assert names(path, "refused@pattern:yes refused@ana-b:no") == ["c3"]
    assert names(path, "refused@person:none -c2") == ["c0", "c1", "c2"]
    agreement = result("questions", path, "--agreement", "refused")
    assert agreement["people"] == {"pattern": 4, "Ana B": 1}
    assert agreement["shared"] == 1


def test_a_question_in_words(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a question makes a yes-no question, which people answer, or a pattern beside it; a word that is
    none is refused."""
    printed = result("ask", path, "Is the lamp broken?")
    assert printed == {"question": "is-the-lamp-broken", "by": "person", "conversations": 4}
    assert main(["answers", path, "is-the-lamp-broken", "--give", "c1", "yes"]) == 0
    assert names(path, "is-the-lamp-broken:yes") == ["c1"]
    for pattern in ("unable, afraid", "/unable|afraid/"):
        printed = result("ask", path, "Was it refused?", "--pattern", pattern)
        assert {"by": "pattern", "counts": {"no": 2, "yes": 2}} in printed["answers"]
    assert main(["ask", path, "refused", "--pattern", "sorry"]) == 2
    assert main(["ask", path, "broken"]) == 2
    assert "Questions are" in capsys.readouterr().err
    assert main(["list", path, "--filter", "nothing:x"]) == 2
    assert "There is no field and no question “nothing”" in capsys.readouterr().err


def test_a_file_of_ones_own(path: str, tmp_path: Path) -> None:
    """A file is added, shown as it is, asked again after a change, whose answers are in force until it is changed back,
    and removed; its answers stay. A pattern that cannot be read and answers of another kind are refused.
    """
    file = tmp_path / "polite.toml"
    file.write_text('text = "Polite?"\n[[patterns]]\nwords = ["sure"]\n', "utf-8")
    assert main(["questions", path, "--add", str(file)]) == 0
    assert result("questions", path, "--show", "polite")["file"] == file.read_text("utf-8")
    assert result("ask", path, "polite")["answered"] == 4
    file.write_text('text = "Polite?"\n[[patterns]]\nwords = ["sure", "done"]\n', "utf-8")
    assert result("ask", path, str(file))["answered"] == 4
    assert names(path, "polite:yes") == names(path, "polite@pattern:yes")
    assert names(path, "polite:yes") == ["c0", "c2"]
    file.write_text('text = "Polite?"\n[[patterns]]\nwords = ["sure"]\n', "utf-8")
    back = result("ask", path, str(file))
    assert (back["answered"], back["answers"][0]["counts"]) == (0, {"no": 3, "yes": 1})
    assert names(path, "polite@pattern:no") == ["c1", "c2", "c3"]
    for other in (
        'kind = "text"',
        '[[patterns]]\nregex = "("',
        "between = [10, 0]",
        '[labels]\n"two\\nlines" = ""',
    ):
        file.write_text(f'text = "Polite?"\n{other}\n', "utf-8")
        assert main(["questions", path, "--add", str(file)]) in (1, 2)
    assert main(["questions", path, "--remove", "polite"]) == 0
    assert names(path, "polite:yes") == ["c0"]
    file.rename(tmp_path / "succeeded.toml")
    assert main(["questions", path, "--add", str(tmp_path / "succeeded.toml")]) == 2


def said(value: object, *cites: int, why: str = "So it is.") -> str:
    """A reply of a model."""
    return json.dumps({"explanation": why, "cites": cites, "value": value})


def lamp(body: dict[str, Any]) -> int:
    """The number of the conversation that a request is about."""
    match = re.search(r"Lamp (\d)", body["messages"][0]["content"])
    assert match
    return int(match[1])


def add(url: str) -> None:
    assert main(["models", "add", url, "--name", "one"]) == 0


def test_a_model_answers(path: str) -> None:
    """A model is asked once about each conversation, with the guidance and the labels; filters, agreement and Python
    have its answers, and the cost is told before."""
    replies = [said("no"), said("yes", 2), said("no"), said("unsure", 1, 2)]
    with scripted(KINDS["vllm"], lambda body: replies[lamp(body)]) as server:
        add(server.url)
        server.bodies.clear()
        words = ("ask", path, "refused", "--model", "one")
        estimate = result(*words, "--estimate")
        assert (estimate["conversations"], estimate["costs"][0]["requests"]) == (4, 4)
        assert not server.bodies
        assert result(*words, "--limit", "3")["answered"] == 3
        with ApiProject(path) as project:
            assert "1 conversation read: unsure 1." in project.ask("refused", model="one")
            rows = project.answers("refused", "refused@one:yes")
        assert len(server.bodies) == 4
    asked = server.bodies[0]["messages"][0]["content"]
    assert (
        f"Question: {read_built_in()['refused'].text}\n{read_built_in()['refused'].guidance}"
        in asked
    )
    assert [(row.conversation, row.cites, row.explanation) for row in rows] == [
        ("c1", (1,), "So it is."),
    ]  # fmt: skip
    assert names(path, "refused@model:unsure") == ["c3"]
    result("ask", path, "refused", "--by", "pattern")
    agreement = result("questions", path, "--agreement", "refused")
    assert agreement["people"] == {"one": 4, "pattern": 4}


def test_wrong_replies(path: str) -> None:
    """A step that does not exist, a value beyond the range and what is no reply are asked for once more, with what is
    wrong; what stays wrong is counted, retained with the reply, and asked again with --fresh."""
    replies = {
        0: [said(11), said(4, 1)],
        1: [said(3, 7), said(3, 2)],
        2: ["I cannot say.", "Really not."],
        3: [said(3, 9), said(3, 9)],
    }

    def script(body: dict[str, Any]) -> str:
        return replies[lamp(body)][len(body["messages"]) // 3]

    file = Path(path).with_name("stars.toml")
    file.write_text('text = "How many stars?"\nkind = "number"\nbetween = [0, 10]\n', "utf-8")
    with scripted(KINDS["vllm"], script) as server:
        add(server.url)
        server.bodies.clear()
        words = ["ask", path, str(file), "--model", "one"]
        assert result(*words, code=3)["without_answer"] == 2
        repairs = [m[2]["content"] for body in server.bodies if len(m := body["messages"]) > 1]
        assert any("Answers are a number from 0 to 10." in text for text in repairs)
        assert any(
            "There is no STEP 7 in the log; it has the STEPs 1, 2." in text for text in repairs
        )
        rows = result("answers", path, "stars")["answers"]
        assert [(row["value"], row["cites"]) for row in rows] == [
            ("4", [0]), ("3", [1]), ("", []), ("", []),
        ]  # fmt: skip
        assert rows[2]["note"].endswith("The model wrote: Really not.")
        assert "There is no STEP 9" in rows[3]["note"]
        assert names(path, "stars>3") == ["c0"]
        count = len(server.bodies)
        assert main(words) == 0
        assert len(server.bodies) == count
        replies[2] = replies[3] = [said(5)]
        assert main([*words, "--fresh"]) == 0
    assert names(path, "stars:5") == ["c2", "c3"]


def test_votes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Votes are sampled with seeds of their own; votes on texts are refused, and so is the built-in model."""
    with scripted(KINDS["vllm"], lambda body: said("yes" if body["seed"] else "no", 1)) as server:
        add(server.url)
        server.bodies.clear()
        words = ("ask", path, "refused", "--model", "one", "--votes", "3")
        result(*words, "--limit", "1")
        assert [body["seed"] for body in server.bodies] == [0, 1, 2]
        (row,) = result("answers", path, "refused")["answers"]
        assert (row["value"], row["p"], row["note"]) == (
            "yes",
            pytest.approx(2 / 3),
            "2 of 3 votes",
        )
        file = Path(path).with_name("why.toml")
        file.write_text('text = "Why?"\nkind = "text"\nvotes = 2\n', "utf-8")
        assert main(["ask", path, str(file), "--model", "one"]) == 2
    assert "Votes on texts" in capsys.readouterr().err
    assert main(["ask", path, "refused", "--by", "model"]) == 2
    assert "--anyway" in capsys.readouterr().err


def test_long_logs(tmp_path: Path) -> None:
    """A log that does not fit is read in parts, whose answers are joined; or its last part alone is read."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        texts = [f"{number} " + "word " * 200 for number in range(20)]
        fill(project, [talk("long", *texts[:9], "I am unable to do that.", *texts[9:])])

    def script(body: dict[str, Any]) -> str:
        place = re.search(r"STEP (\d+), [^\n]*\nI am unable", body["messages"][0]["content"])
        return said("yes", int(place[1])) if place else said("no")

    with scripted(KINDS["vllm"], script) as server:
        add(server.url)
        words = ("ask", str(path), "refused", "--model", "one", "--context", "4500")
        assert result(*words)["answers"][0]["counts"] == {"yes": 1}
        (row,) = result("answers", str(path), "refused")["answers"]
        assert row["cites"] == [9]
        assert re.match(r"read in \d parts", row["note"])
        result(*words, "--windows", "last")
        newest = result("answers", str(path), "refused")["answers"][0]
    assert newest["value"] == "no"
    assert "of 21 steps left out" in newest["note"]


def test_cancelled(path: str) -> None:
    """A run that is cancelled while a slow server replies keeps what was answered; the next asks for the rest."""
    waiting, release = threading.Event(), threading.Event()

    def script(body: dict[str, Any]) -> str:
        if lamp(body) == 3:
            waiting.set()
            release.wait()
        return said("no")

    question = parse_question("rude", 'text = "Rude?"')
    with scripted(KINDS["vllm"], script) as server, OpenProject(Path(path)) as workspace:
        add(server.url)
        stage, stages = workspace.asking.stages(question, AskRequest("model", "one"))

        def interrupt() -> None:
            waiting.wait()
            stage.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(Cancelled):
            workspace.run(stages)
        release.set()
        thread.join()
        stage, stages = workspace.asking.stages(question, AskRequest("model", "one"))
        key = stage.config_hash
        assert 4 in unanswered_ids(workspace.project, key, Selection())
        workspace.run(stages)
        assert unanswered_ids(workspace.project, key, Selection()) == []


def test_rates_by_a_field(tmp_path: Path) -> None:
    """Each who answered has a row for each value of a field, numbers in their order, with the share of each answer and
    the mean of numbers; --by alone and a question without answers are refused."""
    path = str(tmp_path / "r.wb")
    with Project.open(tmp_path / "r.wb", create=True) as project:
        talks = [
            talk(f"c{n}", *[f"Lamp {n}?", "Yes."] * (10 if n == 3 else 2), truth={"grade": n % 3})
            for n in range(4)
        ]
        fill(project, talks)
    result("answers", path, "diversity", "--from", "truth.grade")
    result("answers", path, "diversity", "--give", "c1", "0")
    rates = result("questions", path, "--rates", "diversity", "--by", "turns")["rates"]
    assert [(row["value"], row["by"], row["answered"], row["mean"]["value"]) for row in rates] == [
        ("2", "people", 1, 0.0), ("2", "truth", 3, 1.0), ("10", "truth", 1, 0.0),
    ]  # fmt: skip
    shares = {share["answer"]: share["value"] for share in rates[1]["shares"]}
    assert shares == pytest.approx(dict.fromkeys("012", 1 / 3))
    assert rates[1]["mean"]["low"] == pytest.approx(1 - 1.96 / 3**0.5, abs=0.001)
    result("ask", path, "repeated-itself")
    (only,) = result("questions", path, "--rates", "repeated-itself", "--filter", "turns>2")[
        "rates"
    ]
    assert (only["value"], only["shares"][0]["value"], only["answered"]) == ("all", 1.0, 1)
    for words in (
        ["--by", "turns"],
        ["--rates", "unsafe"],
        ["--rates", "diversity", "--by", "goal"],
    ):
        assert main(["questions", path, *words]) == 2


def test_what_no_person_answered_takes_no_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --annotator, answers that came with the conversations are refused, and nothing is stored."""
    path = str(tmp_path / "p.wb")
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("c1", "Lamp?", "Yes.", truth={"grade": 1})])
    words = ["answers", path, "diversity"]
    assert main([*words, "--from", "truth.grade", "--annotator", "Ada"]) == 2
    assert "--annotator" in capsys.readouterr().err
    assert result(*words)["answers"] == []
