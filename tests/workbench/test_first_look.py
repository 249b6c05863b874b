"""`workbench open FILE...`: one command from log files to a first result."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from engine.base import folders
from engine.base.conversation import Conversation
from engine.completeness.tables import hidden_states
from engine.jobs import contract
from engine.model import catalog
from engine.opener.open_project import OpenProject
from engine.simulate.demo import sample_conversations, write_jsonl
from screens.shell.picker import Beginning
from tests.command_line import data, workbench
from tests.engine.model.tuned import tune
from workbench import launcher, narration
from workbench.cli import main
from workbench.commands.first_look import first_look


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A file of three short sample conversations, and one that has no answer."""
    path = tmp_path / "logs.jsonl"
    write_jsonl(_shortest(3, of=60), path)
    with path.open("a", encoding="utf-8") as file:
        alone = {"id": "alone", "messages": [{"role": "user", "content": "Is anybody there?"}]}
        file.write(json.dumps(alone) + "\n")
    return path


def _shortest(count: int, of: int) -> list[Conversation]:
    """The shortest of so many sample conversations."""
    return sorted(sample_conversations(of), key=_text_length)[:count]


def _text_length(conversation: Conversation) -> int:
    """The length of all messages, written out."""
    return sum(len(str(message)) for message in conversation.messages)


@pytest.mark.usefixtures("tuned")
def test_one_command_leads_from_logs_to_a_result(logs: Path, tmp_path: Path) -> None:
    """It imports, scores and groups, names the set of scores, the groups and what to read first; again it does nothing
    twice and gives the same."""
    project = tmp_path / "mine.wb"
    first = workbench("open", logs, "-o", project, "--json")
    assert first.returncode == 3  # one conversation has no answer, so it is unscored
    result = data(first)
    assert result["project"] == str(project)
    assert (result["counts"]["conversations"], result["scored"]) == (4, 3)
    # too few for a probe of their own
    assert (result["in_force"]["mode"], result["in_force"]["adapter"]) == ("probe", "samples")
    assert sum(group["size"] for group in result["groups"]) == 4
    runs_of_first = data(workbench("status", project, "--json"))["runs"]
    assert {run["state"] for run in runs_of_first} == {"done"}
    troubles = [line["trouble"] for line in result["read_first"]]
    assert troubles == sorted(troubles, reverse=True)

    again = workbench(logs, "-o", project, "--headless")
    assert again.returncode == 3
    assert b"4 already here" in again.stdout
    assert b"scores in force: set 1, probe" in again.stdout
    assert b"What users wanted" in again.stdout


MANY = 24


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A file of short sample conversations, as many as scores by words and states need."""
    path = tmp_path / "many.jsonl"
    write_jsonl(_shortest(MANY, of=60), path)
    return path


def test_words_come_first(
    many: Path, tmp_path: Path, single_layer_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goals and scores of all conversations by their words come before a model has read anything; then scores by words
    and states. Nothing is read twice."""
    tune(single_layer_weights, folders.data_dir(), folders.cache_dir())
    monkeypatch.setattr(narration, "LINE_SECONDS", 0.0)
    project = tmp_path / "mine.wb"
    done = workbench("open", many, "-o", project, "--headless")
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    parts = ["before a model has read anything", "What users wanted", "After the model has read"]
    places = [text.index(part) for part in [*parts, "Read these first"]]
    assert places == sorted(places)
    first, refined = text.split("After the model has read")
    assert "scores in force: set 1, words" in first
    assert "scores in force: set 2, probe" in refined
    with closing(sqlite3.connect(project)) as conn:
        stages = [stage for (stage,) in conn.execute("SELECT stage FROM run ORDER BY id")]
        reads = conn.execute("SELECT message FROM run WHERE stage = 'read' AND message <> ''")
        read_counts = [
            int(message.split()[1]) for (message,) in reads if message.startswith("Read ")
        ]
        ((states,),) = conn.execute("SELECT count(*) FROM hidden_state")
        sets = conn.execute("SELECT features FROM score_config ORDER BY features").fetchall()
    assert stages.index("fit") < stages.index("read")
    assert sum(read_counts) == states == MANY
    assert sets == [("both",), ("words",)]
    assert "left" in done.stderr.decode()
    assert " · " in text.split("Read these first")[1]


def test_words_only_needs_no_model(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --minutes 0 a machine without a model gives goals and scores of all conversations, and says what to read
    first."""
    monkeypatch.setattr(catalog, "_EMBEDDED_PACKAGE", "not_installed")
    project = tmp_path / "mine.wb"
    first = data(workbench("open", many, "-o", project, "--minutes", "0", "--json"))
    assert (first["in_force"]["mode"], first["in_force"]["scored"]) == ("words", MANY)
    assert sum(group["size"] for group in first["groups"]) == MANY
    assert first["read_first"]
    with closing(sqlite3.connect(project)) as conn:
        assert conn.execute("SELECT count(*) FROM hidden_state").fetchall() == [(0,)]


def test_the_rest_runs_on_the_project_that_the_screens_open(many: Path, tmp_path: Path) -> None:
    """What is left after the first result is done in the project as it is opened anew: each run of it ends well."""
    project = tmp_path / "mine.wb"
    looked = first_look([many], project, as_json=False, screens=True, minutes=0)
    assert looked.start_rest is not None
    with OpenProject(project) as workspace:
        looked.start_rest(workspace)
        while workspace.runner.active():
            time.sleep(0.02)
    with closing(sqlite3.connect(project)) as conn:
        runs = conn.execute("SELECT stage, state FROM run ORDER BY id").fetchall()
    assert ("check", "done") in runs
    assert {state for _, state in runs} == {"done"}


def test_words_only_reads_nothing_where_words_need_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --minutes 0 no model reads either where the conversations are too few for words; the result says so."""
    monkeypatch.setattr(catalog, "_EMBEDDED_PACKAGE", "not_installed")
    project, logs = tmp_path / "few.wb", tmp_path / "few.jsonl"
    write_jsonl(sample_conversations(5), logs)
    done = workbench("open", logs, "-o", project, "--headless", "--minutes", "0")
    assert done.returncode == 3, done.stderr.decode()
    text = done.stdout.decode()
    assert "no conversation is scored; there are too few for words" in text
    assert "After the model has read" not in text


def test_cancelled_it_goes_on(
    many: Path, tmp_path: Path, single_layer_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ctrl+c keeps what was read and says how to go on; the same command reads the rest only."""
    monkeypatch.setattr(contract, "BLOCK_CHARS", 1)  # blocks of four, so that some are left
    tune(single_layer_weights, folders.data_dir(), folders.cache_dir(), tokens_per_s=2000.0)
    project = tmp_path / "mine.wb"
    words = ["open", str(many), "-o", str(project), "--headless"]
    store = hidden_states.add

    def store_and_interrupt(*values: Any) -> None:
        """Presses ctrl+c as soon as the states of the first conversations are there."""
        store(*values)
        os.kill(os.getpid(), signal.SIGINT)

    before_test = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # jobs of a shell ignore it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(hidden_states, "add", store_and_interrupt)
            cancelled = workbench(*words)
    finally:
        signal.signal(signal.SIGINT, before_test)
    assert cancelled.returncode == 130, cancelled.stderr.decode()
    assert b"goes on from there" in cancelled.stderr
    before = _read_count(project)
    assert 0 < before < MANY

    again = workbench(*words)
    assert again.returncode == 0
    assert f"{before} were read before".encode() in again.stderr
    assert _read_count(project) == MANY


def _read_count(project: Path) -> int:
    """The number of conversations whose hidden states are stored."""
    with closing(sqlite3.connect(f"file:{project}?mode=ro", uri=True)) as conn:
        ((count,),) = conn.execute("SELECT count(*) FROM hidden_state").fetchall()
    return int(count)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("config.json", "more.json"), "config.json holds no conversations in a known format"),
        (("note.txt",), "1 file holds no conversations: note.txt"),
        ((), "The folder logs holds no conversations"),
    ],
)
def test_where_nothing_is_read_it_ends_with_the_reason(
    files: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without conversations is not clustered: the error says why its first file was not read, and no project
    is left."""
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    for name in files:
        Path("logs", name).write_text('{"debug": true}' if name.endswith("json") else "Dear diary")
    done = workbench("open", "logs", "-o", "p.wb", "--headless")
    assert (done.returncode, reason in done.stderr.decode()) == (1, True)
    assert os.listdir() == ["logs"]


def test_options_of_log_files_only(tmp_path: Path) -> None:
    """A missing file is named, a project is opened without --output, and log files are not opened read-only; nothing is
    made."""
    done = workbench("open", tmp_path / "p.wb", "-o", tmp_path / "q.wb")
    assert done.returncode == 1
    assert b"There is no file or folder" in done.stderr
    (tmp_path / "p.wb").touch()
    done = workbench("open", tmp_path / "p.wb", "-o", tmp_path / "q.wb")
    assert done.returncode == 2
    assert b"Only with log files: --output" in done.stderr
    done = workbench("open", tmp_path, "--read-only")
    assert done.returncode == 2
    assert b"written into one" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "p.wb"]


def test_screens_need_a_terminal(tmp_path: Path) -> None:
    """Without a terminal a project is not opened, instead of waiting for keys that cannot come; nor is the first
    screen."""
    for words in (["open", tmp_path / "p.wb", "--create"], ["open"]):
        done = workbench(*words)
        assert done.returncode == 2
        assert b"need a terminal" in done.stderr
        assert done.stdout == b""


@pytest.mark.parametrize("kind", ["demo", "logs"])
def test_what_writes_does_not_begin_read_only(
    kind: Literal["demo", "logs"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a path, --read-only refuses to make the demo's project and to read logs, once they are chosen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "choose_beginning", lambda theme: Beginning(kind, "logs"))
    assert main(["open", "--read-only"]) == 2
    assert "written into one" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
