"""The public Python API on real files, with the model that comes with the program."""

from __future__ import annotations

import ast
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench
from engine.base.errors import FormatError, ProjectReadOnly, UsageError
from engine.completeness.stages import reading_states
from workbench.api import messages as of_messages
from workbench.api import project as of_projects

REPOSITORY = Path(__file__).resolve().parents[3]
NOTEBOOK = REPOSITORY / "docs/guide/first-notebook.ipynb"

LOGS = {
    "a": ["Book a table for two tonight.", "It is booked.", "Thanks, bye!", "Goodbye!"],
    "b": [
        "I want a refund for my order.",
        "Which order?",
        "The refund of order 17.",
        "One moment.",
    ],
    "c": ["How do I reset my password?", "Follow the link that I sent you. Anything else?"],
}


def logged(id: str) -> list[dict[str, Any]]:
    """The messages of a conversation, in turn of the user and of the assistant."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(LOGS[id])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of three conversations."""
    lines = [json.dumps({"id": id, "messages": logged(id)}) for id in LOGS]
    (tmp_path / "logs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the model process after the test; the noise of the model is not measured, which takes seconds."""
    monkeypatch.setattr(reading_states, "noise_of", lambda *_: None)
    yield
    workbench.end_model()


def ran(module: Any) -> int:
    """Runs the doctests of a module and returns how many examples there were."""
    found = doctest.testmod(module)
    assert found.failed == 0
    return found.attempted


def test_importing_the_package_loads_no_module_of_it() -> None:
    """`import workbench` loads nothing but its own first module; the names come when they are used."""
    code = (
        "import sys, workbench; own = [n for n in sys.modules if n.startswith(('engine', 'workbench.'))];"
        "assert not own, own; assert set(workbench.__all__) <= set(dir(workbench)); workbench.WorkbenchError"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_the_examples_of_a_project_hold(folder: Path) -> None:
    """Every example in the documentation of `open` does what it says."""
    assert ran(of_projects) >= 8


def test_the_page_names_the_methods() -> None:
    """The page on Python names every method of a project, and none that it does not have."""
    page = (REPOSITORY / "docs/python.md").read_text("utf-8")
    _, table = page.partition("| | methods |")[::2]
    named = set(re.findall(r"`(\w+)[`(]", table.partition("\n\n")[0]))
    assert named == {name for name in vars(of_projects.Project) if name[0] != "_"} - {
        "path",
        "read_only",
    }


def test_the_examples_of_messages_hold_and_a_project_gives_the_same_curve(
    folder: Path, model: None
) -> None:
    """The examples of `score` and `complete` hold, and a scoring run of a project gives each conversation the same
    curve as `score` gives its messages, to the bit where it is scored alone."""
    assert ran(of_messages) >= 6
    found = workbench.score(logged("b"))
    only = folder / "only.jsonl"
    only.write_text(json.dumps({"id": "b", "messages": logged("b")}), encoding="utf-8")
    with workbench.open("only.wb", create=True) as p:
        p.import_files(only)
        seen: list[str] = []
        made = p.score(tune=False, remaining=False, progress=lambda one: seen.append(one.stage))
        (line,) = p.curves()
    assert made is not None
    assert (made.mode, made.model, made.adapter) == (found.mode, found.model, found.adapter)
    assert "read" in seen
    assert [point["p_end_normalised"] for point in line["curve"]] == [
        point.p_end_normalised for point in found.curve
    ]
    assert len(found.curve) == 2


def test_what_is_no_conversation_is_refused_or_unscored() -> None:
    """Messages that cannot be read raise; a conversation without an answer has no number, and `complete` says why."""
    for bad in ([], [{"role": "nobody", "content": "hi"}], [{"role": "user", "content": object()}]):
        with pytest.raises(FormatError, match="messages"):
            workbench.score(bad)
    found = workbench.score([{"role": "user", "content": "Hello?"}])
    assert (found.p, found.curve) == (None, ())
    silent = [{"role": "user", "content": ""}, {"role": "assistant", "content": " "}]
    assert (found := workbench.score(silent)).p is None
    assert "no message has any text" in str(found)
    with pytest.raises(workbench.WorkbenchError, match="not scored: no assistant step"):
        workbench.complete([{"role": "user", "content": "Hello?"}])
    workbench.end_model()


def test_a_probability_says_what_measured_it() -> None:
    """What `complete` returns compares as a number, and its `repr`, which a failing assert shows, names the model."""
    p = workbench.Probability(0.25, "probe · m (not tuned to your conversations)")
    assert p < 0.8
    assert repr(p) == "0.250 by probe · m (not tuned to your conversations)"


def test_a_project_keeps_its_lock_and_its_errors(folder: Path) -> None:
    """While a project is open for writing, a second one cannot write it and one can read it; ids are checked."""
    with workbench.open("p.wb", create=True) as p:
        p.import_files("logs.jsonl")
        assert p.read_only is None
        with workbench.open("p.wb") as reader:
            assert reader.read_only is not None
            assert reader.counts()["unscored"] == 3
            with pytest.raises(ProjectReadOnly):
                reader.give("a", "yes")
        with pytest.raises(UsageError, match="no conversation 'z'"):
            p.give("z", "yes")
        with pytest.raises(UsageError, match="no verdict 'good'"):
            p.give("a", "good")
        assert p.answer("turns>1", "long") == p.count("tag:long") == 2
    with workbench.open("p.wb") as again:
        assert again.read_only is None


def test_the_notebook_runs(folder: Path, model: None) -> None:
    """Every cell of the notebook runs in order on a small file, and its outputs are not kept in it."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    assert not any(cell["outputs"] for cell in cells)
    space: dict[str, Any] = {}
    shown: list[Any] = []
    for cell in cells:
        body = ast.parse("".join(cell["source"]))
        last = body.body[-1]
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(body.body[:-1], []), NOTEBOOK.name, "exec"), space)
            shown.append(eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), space))
        else:
            exec(compile(body, NOTEBOOK.name, "exec"), space)
    assert shown[2]["conversations"] == 3
    assert shown[2]["unscored"] == 0
    assert 1 in shown  # the verdict


def test_what_cannot_be_stored_or_counted(tmp_path: Path) -> None:
    """A note or a tag that is no text, a filter with half a letter, a negative limit and an unknown order are errors
    in words."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": "a", "messages": [{"role": "user", "content": "hello"}]}\n', "utf-8")
    with workbench.open(tmp_path / "new.wb", create=True) as project:
        project.import_files(log)
        wrong: list[Any] = [b"bytes", "half \ud800"]
        for text in wrong:
            with pytest.raises(UsageError, match="no text"):
                project.give("a", "yes", text)
        with pytest.raises(UsageError, match="encoding"):
            project.count("half \ud800")
        with pytest.raises(UsageError, match="There is no conversation"):
            project.give("\ud800", "yes")
        for act in (project.table, project.grow_trees):
            with pytest.raises(UsageError, match="limit is -1"):
                act(limit=-1)
        unknown: Any = "nonsense"
        with pytest.raises(UsageError, match="sort is 'nonsense'") as caught:
            project.table(sort=unknown)
        assert "id, name, source" in caught.value.hint
        assert project.answers("succeeded") == []
        assert len(project.table(limit=1)) == 1
