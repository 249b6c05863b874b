"""What the commands write when a person looks: on a terminal nothing of a project acts, elsewhere nothing is lost."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.command_line import workbench
from tests.terminal import hostile
from tests.terminal.payloads import NAME, PAYLOADS
from tests.terminal.pty import said

RECORDS = [("scores", "csv"), ("conversations", "jsonl")]
"""Exports, each kind of file once."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hostile project with a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / f"{NAME}.wb"
    hostile.make(path, folder)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("list",), ("list", "--json"),
        *[("export", kind, "--format", form) for kind, form in RECORDS],
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_acts_on_a_terminal(project: Path, words: tuple[str, ...]) -> None:
    """Whatever a command shows of a hostile project, a terminal gets letters only, and no text for its clipboard."""
    command, *rest = words
    status, screen = said(command, str(project), *rest)

    assert status == 0, screen.text()
    assert screen.copied == []


def test_errors_name_hostile_files_safely(project: Path, tmp_path: Path) -> None:
    """An error that names a file, a folder or a word of the person shows it without obeying it."""
    for words in (
        ("status", str(tmp_path / f"none{NAME}.wb")),
        ("import", str(tmp_path / "new.wb"), str(tmp_path / NAME)),
        ("list", str(project), "--filter", f"state:{NAME}"),
        ("status", str(project), f"--{NAME}"),
        ("export", str(project), NAME),
    ):
        status, screen = said(*words, columns=400)
        assert status in (1, 2), screen.text()
        assert "]52;c" in screen.text()
        assert "Traceback" not in screen.text()
        assert screen.copied == []


def test_import_narrates_hostile_files_safely(tmp_path: Path) -> None:
    """Importing from a file with a hostile name, with bytes that are no letters, shows a bar and the counts only."""
    source = bytes(tmp_path / NAME) + b"\xff\xfe\x9b5n.jsonl"
    line = json.dumps(hostile.conversation("only", PAYLOADS["clipboard"])) + "\n"
    with open(source, "w") as out:
        out.write(line + "broken\x1b[5n\n")
    new = str(tmp_path / "new.wb")

    status, screen = said("import", new, source.decode("utf-8", "surrogateescape"), columns=200)
    again, listed = said("list", new)

    assert (status, again) == (3, 0), screen.text()
    assert "1 new" in screen.text()
    assert "only" in listed.text()


@pytest.mark.parametrize(("kind", "form"), RECORDS)
def test_a_pipe_gets_the_text_as_it_is(project: Path, kind: str, form: str) -> None:
    """An export that no terminal shows holds every id as imported, controls and all."""
    text = workbench("export", project, kind, "--format", form).stdout.decode("utf-8")
    if form == "jsonl":
        ids = {json.loads(line)["id"] for line in text.split("\n") if line}
    else:
        csv.field_size_limit(1 << 24)
        ids = {row["id"] for row in csv.DictReader(text.splitlines(keepends=True))}

    assert any(PAYLOADS["clipboard"] in name for name in ids)
    if form == "jsonl":
        assert any(PAYLOADS["device strings"] in name for name in ids)
