"""`workbench open FILE...`: one command from log files to a first result."""

from __future__ import annotations

import functools
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from engine.base import folders
from engine.base.conversation import Conversation
from engine.completeness.stages import refining
from engine.model import catalog
from engine.opener.open_project import OpenProject
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from screens.shell.picker import Beginning
from tests.command_line import data, workbench
from tests.engine.model.tuned import tune
from workbench import launcher, narration
from workbench.cli import main
from workbench.commands.first_look import first_look


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


def _shortest(count: int, of: int) -> list[Conversation]:
    """The shortest of so many sample conversations."""
    made = sample_conversations(of)
    return sorted(made, key=lambda one: sum(map(_length, one.messages)))[:count]


def _length(message: object) -> int:
    return len(str(message))


@pytest.mark.usefixtures("tuned")
def test_one_command_leads_from_logs_to_a_result(logs: Path, tmp_path: Path) -> None:
    """It imports, scores and groups, names the set of scores, the groups and what to read first; again it does nothing
    twice and gives the same."""
    project = tmp_path / "mine.wb"
    first = workbench("open", logs, "-o", project, "--json")
    assert first.returncode == 3  # one conversation has no answer, so it is unscored
    found = data(first)
    assert found["project"] == str(project)
    assert (found["counts"]["conversations"], found["scored"]) == (6, 5)
    # too few for a probe of their own
    assert (found["in_force"]["mode"], found["in_force"]["adapter"]) == ("probe", "samples")
    assert sum(group["size"] for group in found["groups"]) == 6
    runs_of_first = data(workbench("status", project, "--json"))["runs"]
    assert {run["state"] for run in runs_of_first} == {"done"}
    troubles = [line["trouble"] for line in found["read_first"]]
    assert troubles == sorted(troubles, reverse=True)

    again = workbench(logs, "-o", project, "--headless")
    assert again.returncode == 3
    assert b"6 already here" in again.stdout
    assert b"scores in force: set 1, probe" in again.stdout
    assert b"What users wanted" in again.stdout


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A file of forty short sample conversations, more than one block of them."""
    path = tmp_path / "many.jsonl"
    write_jsonl(_shortest(40, of=60), path)
    return path


@pytest.mark.usefixtures("tuned_shallow")
def test_words_come_first(many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goals and scores of all conversations by their words come before a model has read anything; then scores by words
    and states, fitted anew at each doubling of what was read. Nothing is read twice, and of the sets on the way none
    is left."""
    monkeypatch.setattr(refining, "FIRST_READ", 10)
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
        read = [int(message.split()[1]) for (message,) in reads if message.startswith("Read ")]
        ((kept,),) = conn.execute("SELECT count(*) FROM hidden_state")
        sets = conn.execute("SELECT features FROM score_config ORDER BY features").fetchall()
    assert stages.index("fit") < stages.index("read")
    assert sum(read) == kept == 40
    assert sets == [("both",), ("words",)]
    told = done.stderr.decode()
    assert len(set(re.findall(r"(\d+) of 40 conversations · fitting to states", told))) > 1
    assert "left" in told
    assert " · " in text.split("Read these first")[1]


def test_words_only_needs_no_model(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --minutes 0 a machine without a model gives goals and scores of all conversations, and says what to read
    first."""
    monkeypatch.setattr(catalog, "_EMBEDDED_PACKAGE", "not_installed")
    project = tmp_path / "mine.wb"
    first = data(workbench("open", many, "-o", project, "--minutes", "0", "--json"))
    assert (first["in_force"]["mode"], first["in_force"]["scored"]) == ("words", 40)
    assert sum(group["size"] for group in first["groups"]) == 40
    assert first["read_first"]
    with closing(sqlite3.connect(project)) as conn:
        assert conn.execute("SELECT count(*) FROM hidden_state").fetchall() == [(0,)]


def test_the_rest_runs_on_the_project_that_the_screens_open(many: Path, tmp_path: Path) -> None:
    """What is left after the first result is done in the project as it is opened anew: each run of it ends well."""
    project = tmp_path / "mine.wb"
    looked = first_look([many], project, as_json=False, screens=True, minutes=0)
    assert looked.go_on is not None
    with OpenProject(project) as workspace:
        looked.go_on(workspace)
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


def test_cancelled_it_goes_on(tmp_path: Path, shallow_weights: Path) -> None:
    """ctrl+c keeps what was read and says how to go on; the same command reads the rest only."""
    tune(shallow_weights, folders.data_dir(), folders.cache_dir(), tokens_per_s=2000.0)
    project, logs, count = tmp_path / "mine.wb", tmp_path / "logs.jsonl", 56
    # Blocks enough that the signal comes before the last one however fast the machine is.
    write_jsonl(_shortest(count, of=1000), logs)
    words = ["open", str(logs), "-o", str(project), "--headless"]
    running = subprocess.Popen(
        [sys.executable, "-m", "workbench", *words],
        stderr=subprocess.PIPE,
        text=True,
        # A shell that started the tests in the background lets its children ignore ctrl+c.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("Reading"):
            break
    deadline = time.monotonic() + 300
    while _kept(project) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    rest = running.stderr.read()
    assert running.wait(60) == 130
    assert "goes on from there" in rest
    before = _kept(project)
    assert 0 < before < count

    again = workbench(*words)
    assert again.returncode == 0
    assert f"{before} were read before".encode() in again.stderr
    assert _kept(project) == count


def _kept(project: Path) -> int:
    """Conversations whose hidden states are kept."""
    with closing(sqlite3.connect(project)) as conn:
        ((count,),) = conn.execute("SELECT count(*) FROM hidden_state").fetchall()
    return int(count)


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
