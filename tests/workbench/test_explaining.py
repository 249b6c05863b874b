"""`workbench help`: codes of errors, words, pages."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from engine.project.project import Project
from tests import command_reference
from tests.command_line import result
from workbench.cli import main
from workbench.command_result import EXIT_CANCELLED, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, exit_code
from workbench.commands import explaining

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = ("engine", "screens", "training", "workbench")


def test_the_page_of_errors_is_that_of_the_classes() -> None:
    """`docs/reference/errors.md` is what `python -m tests.command_reference` writes."""
    assert command_reference.ERRORS.read_text(encoding="utf-8") == explaining.errors_page()


def test_a_code_says_what_happened_why_and_what_to_do() -> None:
    """Each class of errors has the three paragraphs, and help finds it in any case."""
    for code in explaining.error_classes():
        (topic,) = explaining.topics_of(code.upper())
        assert topic.kind == "error", code
        what, *rest = topic.text.split("\n\n")[1:]
        assert what.endswith("."), code
        parts = [text.partition(":")[0] for text in rest]
        assert parts == ["*Why", "*What to do", "Exit code"], code


def test_every_error_for_a_person_has_a_code() -> None:
    """No class outside `engine/base/errors.py` is an error for a person, and each code is one that something raises."""
    codes = explaining.error_classes()
    raised, elsewhere = set(), set()
    for path in (path for root in ROOTS for path in (REPOSITORY / root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                raised.add(node.func.id)
            if isinstance(node, ast.ClassDef) and path.name != "errors.py":
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                elsewhere |= {node.name} if bases & set(codes) else set()
    assert elsewhere == set()
    assert set(codes) - raised == set()


def test_an_error_is_printed_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal the code stands below the message, with --json in a field; help knows it and its exit code."""
    words = ["status", str(tmp_path / "none.wb")]
    exits = exit_code(explaining.error_classes()["ProjectMissing"])
    assert main(words) == exits
    assert "(ProjectMissing: `workbench help ProjectMissing` says more)" in capsys.readouterr().err
    assert main([*words, "--json"]) == exits
    assert json.loads(capsys.readouterr().err)["code"] == "ProjectMissing"
    project = str(tmp_path / "empty.wb")
    Project.open(tmp_path / "empty.wb", create=True).close()
    assert main(["list", project, "--filter", "turns>", "--json"]) == EXIT_USAGE
    assert json.loads(capsys.readouterr().err)["code"] == "FilterError"
    assert exit_code(explaining.error_classes()["FilterError"]) == EXIT_USAGE
    assert main(["nonsense"]) == exit_code(explaining.error_classes()["UsageError"]) == EXIT_USAGE
    assert exit_code(explaining.error_classes()["Cancelled"]) == EXIT_CANCELLED


def test_a_word_and_a_page_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Each word of the glossary is a topic, each field of filters and page of the documentation too; a mistyped one
    names similar ones."""
    assert main(["help", "leak guard"]) == EXIT_DONE
    assert "keeps them from models; the original does not change\n" in capsys.readouterr().out
    assert result("help", "leak", "guard")["topics"][0]["kind"] == "word"
    assert main(["help", "uncertainty"]) == EXIT_DONE
    assert capsys.readouterr().out.startswith("# Response trees and truth")
    assert main(["help", "like"]) == EXIT_DONE
    assert "(field of filters) the 50 conversations" in capsys.readouterr().out
    assert main(["help", "topics"]) == EXIT_DONE
    listed = capsys.readouterr().out
    for word in (*explaining.glossary(), *explaining.error_classes(), "filters.md"):
        assert word in listed
    assert main(["help", "fitlers"]) == EXIT_USAGE != EXIT_FAILED
    assert "filters" in capsys.readouterr().err
