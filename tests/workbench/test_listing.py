"""`list`, `status`, and `--filter` of other commands, as a script uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from engine.base.conversation import Conversation, Message
from engine.conversations.records import QuarantineRow
from engine.project.project import Project
from engine.simulate.demo import write_jsonl
from tests.command_line import data, workbench
from tests.engine.project.support import begin_run
from workbench import cli
from workbench.commands.listing import quarantine_lines
from workbench.surroundings import Output

TABLE = """\
state       p  trouble  turns  messages  length  date        succeeded  tags  signs       source   name   opening
not scored  –     −0.8      1         2      26  2026-03-14  –          –     –           a.jsonl  web/1  Refund my lamp.
not scored  –     +0.6      2         4      33  –           –          –     long        a.jsonl  web/2  日本語 ok
not scored  –     +0.2      1         1      12  2026-04-01  –          –     unanswered  a.jsonl  app/3  ␛[2J refund?\
"""  # noqa: E501


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three conversations, one of them with a control sequence in its first message."""
    monkeypatch.chdir(tmp_path)
    conversations = [
        Conversation(
            "web/1",
            (Message("user", "Refund my lamp."), Message("assistant", "It is done.")),
            created_at="2026-03-14T10:00:00Z",
        ),
        Conversation(
            "web/2",
            (
                Message("user", "日本語 ok"),
                Message("assistant", "Which order?"),
                Message("user", "The last."),
                Message("assistant", "Found."),
            ),
        ),
        Conversation(
            "app/3", (Message("user", "\x1b[2J refund?"),), created_at="2026-04-01T00:00:00Z"
        ),
    ]
    write_jsonl(conversations, tmp_path / "a.jsonl")
    path = tmp_path / "p.wb"
    assert workbench("import", path, "a.jsonl").returncode == 0
    return path


class TestList:
    def test_table(self, project: Path) -> None:
        """The table is aligned by the cells of a terminal and holds no control character."""
        done = workbench("list", project)

        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().rstrip("\n") == TABLE

    def test_no_line_is_wider_than_the_terminal(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Columns without room are left out and named, those with nothing in them first; the opening is cut."""
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(Output, "isatty", lambda _: True, raising=False)
        assert cli.main(["list", str(project)]) == 0
        shown = capsys.readouterr()
        titles, *rows = shown.out.splitlines()
        assert titles.split()[-3:] == ["signs", "name", "opening"]
        assert max(map(cell_len, [titles, *rows])) <= 80
        assert "shows all): tags, succeeded, p, " in shown.err

    def test_filter_sort_limit(self, project: Path) -> None:
        """Filter, order and limit are those of the list on the screen."""

        def names(*words: str) -> list[str]:
            lines = workbench("list", project, "--json", *words).stdout.splitlines()
            return [json.loads(line)["id"] for line in lines]

        assert names("--filter", "refund") == ["web/1", "app/3"]
        assert names("--filter", "refund date<2026-04") == ["web/1"]
        assert names("--sort", "turns", "--reverse", "--limit", "1") == ["web/2"]
        assert names("--sort", "date") == ["web/1", "app/3", "web/2"]
        assert names("--filter", "state:ended") == []

    def test_counts_by_a_field(self, project: Path) -> None:
        """--by counts what matches by the values of a field; one that is not there is refused with what is near."""
        done = workbench("list", project, "--by", "month", "--filter", "name:web,app")
        assert [line.split() for line in done.stdout.decode().splitlines()] == [
            ["month", "conversations"],
            ["2026-04", "1"],
            ["2026-03", "1"],
        ]
        lines = workbench("list", project, "--by", "state", "--json").stdout.splitlines()
        assert {"state": "unscored", "conversations": 3} in map(json.loads, lines)
        done = workbench("list", project, "--by", "modle")
        assert (done.returncode, b"model" in done.stderr) == (2, True)
        done = workbench("list", project, "--by", "meta.channel")
        assert (done.returncode, done.stdout) == (1, b"")

    def test_json_line(self, project: Path) -> None:
        """A JSON line has every field of the table, uncut and as imported."""
        done = workbench("list", project, "--json", "--filter", "name:app")

        assert json.loads(done.stdout) == {
            "id": "app/3",
            "source": "a.jsonl",
            "state": "unscored",
            "p_end": None,
            "p_end_normalised": None,
            "p_succeeded": None,
            "reason": None,
            "turns": 1,
            "messages": 1,
            "length": len("\x1b[2J refund?"),
            "created_at": "2026-04-01T00:00:00Z",
            "trouble": pytest.approx(0.239, abs=0.001),
            "signs": [
                {"messages": [0], "reason": "the user has the last word", "sign": "unanswered"}
            ],
            "succeeded": None,
            "tags": [],
            "opening": "\x1b[2J refund?",
        }


class TestStatus:
    def test_a_run_runs_while_somebody_writes(self, project: Path) -> None:
        """An unfinished run is running while its project is open for writing, and interrupted after that."""
        with Project.open(project) as opened:
            opened.write(lambda conn: begin_run(conn, "complete", "x"))
            during = data(workbench("status", project, "--json"))["runs"][0]["state"]
            assert opened.is_written()
        after = data(workbench("status", project, "--json"))["runs"][0]["state"]

        assert (during, after) == ("running", "interrupted")
        assert "complete interrupted" in workbench("status", project).stdout.decode()


class TestFilterOption:
    def test_mistake_shows_its_place(self, project: Path) -> None:
        """An invalid filter is printed with a caret under the position; exit code 2."""
        done = workbench("list", project, "--filter", "日本 turns>5 turnz:3")
        told = done.stderr.decode().splitlines()

        assert (done.returncode, done.stdout) == (2, b"")
        assert told[0] == "workbench: There is no field “turnz”."
        assert told[1] == "  日本 turns>5 turnz:3"
        assert told[2] == "  " + " " * len("xxxx turns>5 ") + "^"


def test_quarantined_records_of_one_reason_stand_on_one_line() -> None:
    """Records of one file and one reason are one line with the first one's place; what is not read is counted."""
    reasons = ("no role", "no role", "no text")
    rows = [QuarantineRow("a.csv", n + 1, reason, b"") for n, reason in enumerate(reasons)]
    assert quarantine_lines(rows, 5) == [
        "  quarantined: a.csv:1 and 1 record after it: no role",
        "  quarantined: a.csv:3: no text",
        "  quarantined: 2 more, in `Q` on the overview",
    ]
