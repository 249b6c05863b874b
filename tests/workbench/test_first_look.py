"""`workbench open FILE...`: one command from log files to a first result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.simulate.samples import sample_conversations, write_jsonl
from tests.command_line import data, workbench


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A file of five short sample conversations, and one that has no answer."""
    path = tmp_path / "logs.jsonl"
    shortest = sorted(sample_conversations(30), key=lambda one: sum(map(_length, one.messages)))
    write_jsonl(shortest[:5], path)
    with path.open("a", encoding="utf-8") as file:
        alone = {"id": "alone", "messages": [{"role": "user", "content": "Is anybody there?"}]}
        file.write(json.dumps(alone) + "\n")
    return path


def _length(message: object) -> int:
    return len(str(message))


@pytest.mark.usefixtures("tuned")
def test_one_command_leads_from_logs_to_a_result(logs: Path, tmp_path: Path) -> None:
    """It imports, scores and groups, names the set of scores, the groups and what to read first; again it does nothing
    twice and gives the same; another file is added to the same project."""
    project = tmp_path / "mine.wb"
    first = workbench("open", logs, "-o", project, "--json")
    assert first.returncode == 3  # one conversation has no answer, so it is unscored
    found = data(first)
    assert found["project"] == str(project)
    assert (found["counts"]["conversations"], found["scored"]) == (6, 5)
    assert found["in_force"]["mode"] == "tuned"  # too few for a probe
    assert sum(group["size"] for group in found["groups"]) == 6
    values = [line["p"] for line in found["read_first"]]
    assert values == sorted(values)
    assert all(value < 0.6 for value in values)

    again = workbench(logs, "-o", project, "--headless")
    assert again.returncode == 3
    assert b"6 unchanged" in again.stdout
    assert b"scores in force: set 1, tuned" in again.stdout
    assert b"What users wanted" in again.stdout

    more = tmp_path / "more.jsonl"
    write_jsonl(sample_conversations(31)[30:], more)
    added = data(workbench("open", more, "-o", project, "--json"))
    assert (added["counts"]["conversations"], added["scored"]) == (7, 6)


def test_files_without_conversations(tmp_path: Path) -> None:
    """Where nothing can be read it fails before any model is loaded, with what was found and the formats."""
    (tmp_path / "bad.jsonl").write_text('{"messages": 5}\n', encoding="utf-8")
    done = workbench("open", tmp_path / "bad.jsonl", "-o", tmp_path / "p.wb", "--headless")
    assert done.returncode == 1
    assert b"holds no conversations in a known format" in done.stderr
    assert b"Reading" not in done.stderr


def test_options_of_log_files_only(tmp_path: Path) -> None:
    """A missing file is named, a project is opened without --output, and log files are not opened read-only; nothing is
    made."""
    done = workbench("open", tmp_path / "p.wb", "-o", tmp_path / "q.wb")
    assert done.returncode == 2
    assert b"There is no file or folder" in done.stderr
    (tmp_path / "p.wb").touch()
    done = workbench("open", tmp_path / "p.wb", "-o", tmp_path / "q.wb")
    assert done.returncode == 2
    assert b"need log files" in done.stderr
    done = workbench("open", tmp_path, "--read-only")
    assert done.returncode == 2
    assert b"written into one" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "p.wb"]
