"""Importing files into a project."""

from __future__ import annotations

import fcntl
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, Message
from engine.conversations import stages as importing
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.stages import ImportStage
from engine.conversations.tables import conversations, selecting, sources
from engine.formats.records import Account, Detection, Parsed, Rejected, SourceReport, Unread
from engine.jobs.runner import JobRunner, RunOutcome
from engine.opener import conversations as conversation_store
from engine.project import runs
from engine.project.project import Project
from tests.engine.project.support import REPOSITORY, check_whole, content, in_child


def line(name: str, *contents: str, **more: Any) -> str:
    """One conversation in the uniform form."""
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(contents)
    ]
    return json.dumps({"id": name, "dataset": "d", "messages": messages, **more}) + "\n"


def execute(project: Project, *paths: str | Path, **options: Any) -> tuple[ImportStage, RunOutcome]:
    """Imports paths; returns the stage with the outcome."""
    stage = ImportStage(project, [str(path) for path in paths], **options)
    return stage, JobRunner(project, lambda event: None).run(stage)


def counted(stage: ImportStage) -> tuple[int, int, int, int, int]:
    """(read, new, duplicate, unchanged, quarantined)."""
    counts = stage.counts
    return counts.read, counts.new, counts.duplicate, counts.unchanged, counts.quarantined


class TestCounting:
    def test_every_record_is_counted_once(self, project: Project, tmp_path: Path) -> None:
        """New, duplicate, unchanged and quarantined records add up to those read, and the summary says so."""
        path = tmp_path / "a.jsonl"
        path.write_text(
            line("1", "hi", "hello")
            + line("2", "bye", "goodbye", truth={"reward": 1})
            + "not json\n"
            + line("3", "hi", "hello")
        )
        stage, outcome = execute(project, path)
        assert counted(stage) == (4, 2, 1, 0, 1)
        assert outcome.state == "done"
        assert outcome.message.startswith(
            "Read 4: 2 new, 0 grew, 0 changed, 0 already here, 1 duplicate, 1 quarantined"
        )
        (bad,) = project.read(sources.quarantine_rows, 200)
        assert (bad.source, bad.line, bad.raw) == (str(path), 3, b"not json")

    def test_the_same_content_elsewhere_keeps_its_id_bytes_and_truth(
        self, project: Project, tmp_path: Path
    ) -> None:
        """A duplicate in another file is stored as an alias with its id, bytes and truth."""
        (tmp_path / "a.jsonl").write_text(line("1", "a"))
        (tmp_path / "b.jsonl").write_text(line("other", "a", truth={"goal": "g"}))
        stage, _ = execute(project, tmp_path / "a.jsonl", tmp_path / "b.jsonl")
        assert counted(stage) == (2, 1, 1, 0, 0)
        (alias,) = content(Path(project.path))["alias"]
        assert "other" in alias
        assert line("other", "a", truth={"goal": "g"}).strip().encode() in alias
        assert '{"goal":"g"}' in alias

    def test_the_run_keeps_the_counter(self, project: Project, tmp_path: Path) -> None:
        """The run record ends with all bytes counted, its parameters and the summary."""
        path = tmp_path / "a.jsonl"
        path.write_text("".join(line(str(n), str(n)) for n in range(1200)))
        stage, outcome = execute(project, path)
        (run,) = project.read(runs.all_runs)
        assert (run.stage, run.state, run.message) == ("import", "done", outcome.message)
        assert run.done == run.total == path.stat().st_size
        assert run.params == {
            "paths": [str(path)],
            "format": None,
            "replace": False,
        }
        assert stage.unit == "bytes"


class TestInputs:
    def test_a_folder(self, project: Project, tmp_path: Path) -> None:
        """A folder's files are one source each; those that hold no conversations are named together."""
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "b.jsonl").write_text(line("b", "b"))
        (folder / "a.jsonl").write_text(line("a", "a"))
        (folder / "notes.txt").write_text("x" * 1000)
        _, outcome = execute(project, folder)
        assert outcome.state == "done"
        assert project.read(sources.labels) == [
            str(folder / "a.jsonl"),
            str(folder / "b.jsonl"),
            str(folder),
        ]
        (run,) = project.read(runs.all_runs)
        assert run.done == run.total

    def test_one_of_several_cannot_be_opened(self, project: Project, tmp_path: Path) -> None:
        """Where one of several files cannot be opened, the others are imported and the summary names it."""
        (tmp_path / "a.jsonl").write_text(line("1", "a"))
        stage, outcome = execute(project, tmp_path / "missing.jsonl", tmp_path / "a.jsonl")
        assert outcome.state == "done"
        assert stage.counts.new == 1
        assert "not read" in outcome.message
        assert "missing.jsonl" in outcome.message

    def test_a_name_that_is_not_utf8(self, project: Project, tmp_path: Path) -> None:
        """A file whose name is not UTF-8 can be imported."""
        path = str(tmp_path) + "/\udcff.jsonl"
        try:
            Path(path).write_text(line("1", "a"))
        except OSError:
            pytest.skip("the file system takes UTF-8 names only")
        stage, outcome = execute(project, path)
        assert outcome.state == "done"
        assert stage.counts.new == 1


class _EndlessInput:
    """An input without end, which signals when enough of it has been read."""

    label = "endless"
    size = None
    companion_files = ()
    detection = Detection("uniform", "made up")

    def __init__(self) -> None:
        self.flowing = threading.Event()

    def position(self) -> int:
        return 0

    def records(self) -> Iterator[Parsed | Rejected]:
        number = 0
        while True:
            number += 1
            if number == 1001:
                self.flowing.set()
            text = str(number)
            yield Parsed(number, text.encode(), Conversation(text, (Message("user", text),)))


class TestStopping:
    def test_cancel(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        """A cancelled import stops, keeps whole batches, and its summary says what was imported."""
        endless = _EndlessInput()
        monkeypatch.setattr(importing, "open_inputs", lambda *a, **k: iter([endless]))
        monkeypatch.setattr(importing, "BATCH_SECONDS", 3600.0)
        stage = ImportStage(project, ["-"])
        runner = JobRunner(project, lambda event: None)
        outcomes: list[RunOutcome] = []
        thread = threading.Thread(target=lambda: outcomes.append(runner.run(stage)))
        thread.start()
        assert endless.flowing.wait(60)
        runner.cancel(1)
        thread.join()
        (outcome,) = outcomes
        assert outcome.state == "cancelled"
        assert stage.counts.read >= 1000
        assert stage.counts.read % importing.BATCH_RECORDS == 0
        found = project.read(selecting.ids, ListQuery())
        assert list(found) == list(range(1, stage.counts.read + 1))

    def test_an_error_in_the_middle_keeps_what_was_committed(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error of the reader in the middle fails the run; earlier batches stay."""

        class BreakingInput(_EndlessInput):
            def records(self) -> Iterator[Parsed | Rejected]:
                for record in super().records():
                    if record.line == 700:
                        raise RuntimeError("half-way")
                    yield record

        monkeypatch.setattr(importing, "open_inputs", lambda *a, **k: iter([BreakingInput()]))
        monkeypatch.setattr(importing, "BATCH_SECONDS", 3600.0)
        _, outcome = execute(project, "-")
        assert outcome.state == "failed"
        assert "half-way" in outcome.message
        assert len(project.read(selecting.ids, ListQuery())) == 500


@pytest.fixture(scope="module")
def to_import(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with duplicates and invalid lines."""
    rng = random.Random(20)
    words = ["the", "of", "order", "flight", "book", "cancel", "ticket", "☂", "42"]
    source = tmp_path_factory.mktemp("in") / "in.jsonl"
    with source.open("w") as file:
        for number in range(1000):
            text = " ".join(rng.choices(words, k=60))
            file.write(line(f"c{number}", text, f"answer {number % 3500}", truth={"n": number}))
            if number % 7 == 0:
                file.write(line(f"twin of {number}", text, f"answer {number % 3500}"))
            if number % 50 == 0:
                file.write(f"broken {number}\n")
    return source


@pytest.fixture(scope="module")
def uninterrupted(to_import: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The content after an uninterrupted import."""
    path = to_import.parent / "whole.wb"
    with Project.open(path, create=True) as project:
        stage, _ = execute(project, to_import)
    assert (stage.counts.new, stage.counts.duplicate, stage.counts.quarantined) == (1000, 143, 20)
    return content(path)


def test_a_kill_at_any_moment_loses_nothing(
    tmp_path: Path, to_import: Path, uninterrupted: dict[str, list[tuple[Any, ...]]]
) -> None:
    """After kill -9 at random moments, a last import leaves the same content, bit for bit.

    The first kill may come while the project is being made, the others during the import.
    """
    rng = random.Random(1)
    killed = tmp_path / "killed.wb"
    conversation_counts = []
    for number in range(3):
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.engine.conversations.import_child",
                str(killed),
                str(to_import),
            ],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        if number:
            for _ in range(rng.randrange(1, 55)):
                child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.01 if number else 0.4))
        child.kill()
        child.wait()
        child.stdout.close()
        if number:
            check_whole(killed)
            conversation_counts.append(len(content(killed)["conversation"]))
    assert conversation_counts == sorted(conversation_counts)

    with Project.open(killed) as project:
        assert all(run.state in ("interrupted", "done") for run in project.read(runs.all_runs))
        execute(project, to_import)
    check_whole(killed)
    assert content(killed) == uninterrupted


class TestSharedText:
    PROMPT = (
        "You are an agent that works for a shop. Every round I will give you an observation, and you"
        " have to respond with one action. Do not ask, and do not explain what you do or why."
    )

    def _lines(self, numbers: range) -> str:
        return "".join(
            line(f"a{n}", f"{self.PROMPT}\nBuy {n} blue lamps", f"Bought {n}.") for n in numbers
        )

    def _openings(self, project: Project) -> list[str]:
        with project.reading() as conn:
            return [
                one.opening
                for one in conversation_store.rows(conn, selecting.ids(conn, ListQuery()))
            ]

    def test_openings_go_without_it(self, project: Project, tmp_path: Path) -> None:
        """Openings begin with what a conversation says itself, whenever it came; messages and search stay whole."""
        path = tmp_path / "a.jsonl"
        path.write_text(self._lines(range(4)))
        execute(project, path)
        assert all(text.startswith("You are") for text in self._openings(project))
        path.write_text(self._lines(range(9)))
        stage, _ = execute(project, path)
        assert "1 text that many share left out of lists and goals" in stage.summary()
        assert sorted(self._openings(project)) == [f"Buy {n} blue lamps" for n in range(9)]
        path.write_text(self._lines(range(11)))
        execute(project, path)
        assert sorted(self._openings(project))[2] == "Buy 10 blue lamps"
        with project.reading() as conn:
            assert conversations.messages(conn, 1)[0].content == f"{self.PROMPT}\nBuy 0 blue lamps"
            assert len(selecting.ids(conn, ListQuery(parse_filter('"observation, and"')))) == 11

    def test_it_is_let_go(self, project: Project, tmp_path: Path) -> None:
        """Where later conversations leave it to few, openings are whole again."""
        path = tmp_path / "a.jsonl"
        path.write_text(self._lines(range(5)))
        execute(project, path)
        assert self._openings(project)[0] == "Buy 0 blue lamps"
        path.write_text(
            "".join(line(f"b{n}", f"What is {n} times {n}?", str(n)) for n in range(60))
        )
        execute(project, path)
        assert self._openings(project)[0].startswith(self.PROMPT[:20])

    def test_wholly_shared(self, project: Project, tmp_path: Path) -> None:
        """The opening is the first message that says more; if none does, it is the first of the user."""
        path = tmp_path / "a.jsonl"
        lines = [line(f"a{n}", self.PROMPT, "OK.", f"Buy {n}") for n in range(6)]
        path.write_text("".join([*lines, line("b", self.PROMPT, "OK.")]))
        execute(project, path)
        found = self._openings(project)
        assert found == [*(f"Buy {n}" for n in range(6)), self.PROMPT]


def test_a_project_is_no_log(tmp_path: Path) -> None:
    """A folder that holds the project is imported without it, which is named as skipped, and stays locked; so it is
    with another project, whose tables would be read as if they were all."""
    path = tmp_path / "p.db"
    other = tmp_path / "other.db"
    Project.open(other, create=True).close()
    (tmp_path / "a.jsonl").write_text(line("a", "hello", "hi"))
    (tmp_path / "link.db").symlink_to(path)
    with Project.open(path, create=True) as project:
        stage, outcome = execute(project, tmp_path)
        assert outcome.state == "done"
        assert "hold no conversations: link.db, other.db, p.db" in stage.sources[1].detection.why
        assert stage.counts.new == 1
        for refused in (path, other):
            stage, outcome = execute(project, refused)
            assert outcome.state == "failed"
            assert "is a project and not read as a log" in stage.refused[0].message
        assert in_child(lambda: is_locked(path))


def is_locked(path: Path) -> bool:
    """Whether SQLite in another process has locks on a database."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 512, 1 << 30)
        except OSError:
            return True
    return False


def test_a_report_comes_back_whole() -> None:
    """Every part of an account, with each kind of example in it, is the same after it was written and read."""
    unread = Unread(2, 30, "an example")
    account = Account({"messages": 10, "nowhere": 1}, {"a.b": unread}, {"audio": unread})
    account.hidden["truth-field reward"] = unread
    report = SourceReport("a.jsonl", Detection("openai", "it says so"), 1, 2, 3, account, {"no": 3})
    again = SourceReport.from_json(report.to_json())
    assert again == report
    assert all(
        isinstance(one, Unread)
        for kind in (
            again.account.lost,
            again.account.unknown,
            again.account.hidden,
        )
        for one in kind.values()
    )


def test_an_import_says_first_what_a_folder_has(project: Project, tmp_path: Path) -> None:
    """Before anything is read, the name of the run says how many sessions of a known program a folder has."""
    for number in range(2):
        path = tmp_path / "projects" / "-w" / f"00000000-0000-4000-8000-00000000000{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    stage = ImportStage(project, [str(tmp_path / "projects")])
    assert stage.title == "Importing projects (2 sessions of 1 project of Claude Code)"
