"""The command line as a script uses it: arguments, exit codes, data on standard output; on the real model."""

from __future__ import annotations

import functools
import json
import os
import pkgutil
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.command_line import data, process, workbench
from workbench import commands
from workbench.command_table import COMMANDS

SHARED = frozenset({"growth_options"})
"""Declares options for two commands."""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Six short sample conversations and one without an answer."""
    chosen = sorted(
        sample_conversations(60), key=lambda c: sum(len(m.content) for m in c.messages)
    )[:6]
    alone = Conversation("nobody/1", (Message("user", "Is anybody there?"),))
    path = tmp_path / "samples.jsonl"
    write_jsonl([*chosen, alone], path)
    return path


class TestWords:
    def test_help_is_quiet_and_quick_to_import(self) -> None:
        """--help lists every command and imports neither screens nor models."""
        done = workbench("--help")
        text = done.stdout.decode()

        assert done.returncode == 0
        for command in ("demo", "import", "run", "status", "export", "models", "doctor", "bench"):
            assert command in text

    @pytest.mark.parametrize(
        "words", [("import",), ("run", "complete"), ("export", "x.wb", "nothing"), ("nowhere",)]
    )
    def test_wrong_words_are_usage(self, words: tuple[str, ...]) -> None:
        """Invalid arguments give exit code 2 and a message on standard error only."""
        done = workbench(*words)

        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr

    def test_no_words_show_the_main_path(self) -> None:
        """Without words or a terminal the program shows, on half a screen, what to do first; that is no error."""
        done = workbench()
        shown = done.stdout.decode()

        assert (done.returncode, done.stderr) == (0, b"")
        assert len(shown.splitlines()) <= 14
        for step in ("workbench demo", "workbench import", "workbench run complete"):
            assert step in shown

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            (("opne", "x.wb"), "workbench open x.wb"),
            (("improt", "x.wb", "my logs"), "workbench import x.wb 'my logs'"),
            (("run", "complte", "x.wb"), "workbench run complete x.wb"),
            (("train", "sttus", "x.wb"), "workbench train status x.wb"),
            (("--offline", "opne", "x.wb"), "workbench open x.wb"),
        ],
    )
    def test_misspelt_command_gets_a_suggestion(self, words: tuple[str, ...], meant: str) -> None:
        """A misspelt command is refused with the whole line that was most likely meant."""
        done = workbench(*words)

        assert (done.returncode, done.stdout) == (2, b"")
        assert "There is no command" in done.stderr.decode()
        assert f"`{meant}`" in done.stderr.decode()

    def test_misspelt_project_is_not_made(self, tmp_path: Path) -> None:
        """A project that is not there is refused without a terminal, with the file that was meant, and none is made."""
        workbench(
            "import", tmp_path / "october.wb", "-", stdin=b'[{"role": "user", "content": "hi"}]'
        )
        done = workbench(tmp_path / "octobre.wb")

        assert done.returncode == 2
        assert f"Did you mean {tmp_path / 'october.wb'}?" in done.stderr.decode()
        assert "--create" in done.stderr.decode()
        assert not list(tmp_path.glob("octobre*"))

    def test_logs_that_are_not_there_are_no_new_project(self, tmp_path: Path) -> None:
        """A path that ends like a file of logs and leads nowhere is refused; no project of its name is offered."""
        done = workbench(tmp_path / "nosuch.jsonl")

        assert done.returncode == 2
        assert "There is no file" in done.stderr.decode()
        assert "--create" not in done.stderr.decode()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--read-only", "none.wb"), "none.wb"),
            (("--read-only", "logs.jsonl"), "--read-only is for a project"),
            (("--theme", "dim", "none.wb"), "open: argument --theme"),
            (("-o", "made.wb", "none.jsonl"), "There is no file or folder none.jsonl"),
            (("--read-only", "demo"), "`workbench help demo` lists them"),
            (("--json", "status", "none.wb"), "`workbench help status` lists them"),
        ],
    )
    def test_options_before_a_path_are_those_of_open(
        self, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Options before a path open it, as they do behind it; before a command they are refused with their place."""
        monkeypatch.chdir(tmp_path)
        Path("logs.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
        done = workbench(*words)

        assert done.returncode in (1, 2)
        assert said in done.stderr.decode()

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (("status", "none.wb"), 1),
            (("run", "complete"), 2),
            (("opne", "none.wb"), 2),
            (("none.wb",), 2),
        ],
    )
    def test_errors_are_json_with_json(
        self, words: tuple[str, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With --json the last line on standard error is the error as JSON, with the exit code."""
        monkeypatch.chdir(tmp_path)
        done = workbench(*words, "--json")
        error = json.loads(done.stderr.splitlines()[-1])

        assert (done.returncode, done.stdout) == (code, b"")
        assert set(error) == {"error", "hint", "exit_code", "code"}
        assert (error["exit_code"], bool(error["error"]), bool(error["hint"])) == (code, True, True)

    def test_adapter_with_another_mode_is_usage(self, tmp_path: Path) -> None:
        """An adapter with mode base is refused before anything is loaded."""
        done = workbench(
            "run", "complete", tmp_path / "p.wb", "--adapter", "a.gguf", "--mode", "base"
        )

        assert done.returncode == 2

    def test_commands_are_where_the_table_says(self) -> None:
        """Every command's function is in the named module, and no options are declared that belong to no command."""
        used = set()
        for command in COMMANDS:
            name, function = command.run.split(":")
            module = import_module(f"workbench.commands.{name}")
            assert callable(getattr(module, function))
            used.add((name, f"{function}_options"))
        for found in pkgutil.iter_modules(commands.__path__):
            module = import_module(f"workbench.commands.{found.name}")
            declared = {
                name for name in vars(module) if name.endswith("_options") and name[:5] != "read_"
            }
            own = {name for name in declared if getattr(module, name).__module__ == module.__name__}
            assert {(found.name, name) for name in own - SHARED} <= used


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["help"], b"exit codes: 0 done"),
        (["help", "goals"], b"rename"),
        (["help", "goals", "merge"], b"the project file"),
    ],
)
def test_help_is_a_command(words: list[str], shown: bytes) -> None:
    """`help`, alone or before a command, is what `--help` prints."""
    done = workbench(*words)
    assert (done.returncode, shown in done.stdout) == (0, True)


class TestMainJob:
    @pytest.mark.usefixtures("tuned")
    def test_import_score_export(self, samples: Path, tmp_path: Path) -> None:
        """Commands alone lead from a file to scores of every imported id."""
        project = tmp_path / "p.wb"
        imported = workbench("import", project, samples, "--json")
        assert (imported.returncode, data(imported)["new"]) == (0, 7)

        scored = process("run", "complete", project, "--no-tune", "--no-remaining", "--json")
        assert scored.returncode == 3, scored.stderr.decode()
        assert data(scored)["counts"]["unscored"] == 1
        assert data(scored)["scored"] == 6

        exported = workbench("export", project, "scores")
        lines = [json.loads(line) for line in exported.stdout.splitlines()]
        ids = [json.loads(line)["id"] for line in samples.read_text("utf-8").splitlines()]
        assert [line["id"] for line in lines] == ids
        for line in lines[:-1]:
            assert line["state"] in ("complete", "incomplete", "borderline")
            assert line["curve"][-1]["p_end"] == line["p_end"]
            assert 0 <= line["p_end_normalised"] <= 1
            # so few that a probe of their own cannot be fitted
            assert (line["mode"], line["model"]) == ("probe", "smollm2-135m (q8_0, 14 layers)")
        assert (lines[-1]["state"], lines[-1]["p_end"]) == ("unscored", None)
        assert "assistant" in lines[-1]["reason"]

        again = workbench("run", "complete", project, "--no-tune", "--no-remaining", "--json")
        assert b"7 were read before" in again.stderr
        assert workbench("export", project, "scores").stdout == exported.stdout

    def test_quarantine_is_said(self, tmp_path: Path) -> None:
        """An invalid record gives exit code 3; status names its file, line and reason."""
        source, project = tmp_path / "broken.jsonl", tmp_path / "p.wb"
        source.write_text(
            '{"messages": [{"role": "user", "content": "hi"}]}\n{"messages": 5}\n', "utf-8"
        )
        done = workbench("import", project, source, "--json")
        assert (done.returncode, data(done)["quarantined"]) == (3, 1)

        status = data(workbench("status", project, "--json"))
        assert status["quarantine"][0]["line"] == 2
        assert status["counts"]["conversations"] == 1

    @pytest.mark.usefixtures("tuned")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupt_is_130(self, number: signal.Signals, tmp_path: Path) -> None:
        """Ctrl-C and SIGTERM while scoring give exit code 130; the next run resumes."""
        project, samples = tmp_path / "p.wb", tmp_path / "samples.jsonl"
        # Some seconds of work, so that the signal comes in the midst of it however late it is sent.
        write_jsonl(sample_conversations(6), samples)
        workbench("import", project, samples)
        child = subprocess.Popen(
            [sys.executable, "-m", "workbench", "run", "complete", str(project), "--no-tune"],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A shell that started the tests in the background lets its children ignore ctrl+c.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        assert child.stderr is not None
        while b"Reading" not in child.stderr.readline():
            assert child.poll() is None
        os.kill(child.pid, number)
        child.communicate(timeout=60)

        assert child.returncode == 130
        assert workbench("run", "complete", project, "--no-tune").returncode == 0

    def test_closed_pipe_is_no_fault(self, samples: Path, tmp_path: Path) -> None:
        """A reader that closes the pipe, as `head` does, ends an export without an error."""
        project = tmp_path / "p.wb"
        workbench("import", project, samples)
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            done = subprocess.run(
                [sys.executable, "-m", "workbench", "export", str(project), "conversations"],
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
                timeout=60,
            )

        assert (done.returncode, done.stderr) == (0, b"")


class TestPrompts:
    def test_edit_and_reset(self, tmp_path: Path) -> None:
        """An edited prompt is stored in the project and can be reset."""
        project, file = tmp_path / "p.wb", tmp_path / "base.toml"
        source = tmp_path / "one.json"
        source.write_text('[{"role": "user", "content": "hi"}]', "utf-8")
        workbench("import", project, source)
        shipped = workbench("prompts", project, "base").stdout
        file.write_bytes(shipped.replace(b"Concisely", b"Briefly"))

        assert workbench("prompts", project, "base", "--set", file).returncode == 0
        assert b"Briefly" in workbench("prompts", project, "base").stdout
        assert workbench("prompts", project, "base", "--reset").returncode == 0
        assert workbench("prompts", project, "base").stdout == shipped

    def test_broken_prompt_is_refused(self, tmp_path: Path) -> None:
        """An invalid prompt file changes nothing, and the error names the field."""
        project, file = tmp_path / "p.wb", tmp_path / "bad.toml"
        workbench("import", project, "-", stdin=b'[{"role": "user", "content": "hi"}]')
        file.write_text("chat = 5\n", "utf-8")
        done = workbench("prompts", project, "base", "--set", file)

        assert done.returncode == 2
        assert b"chat" in done.stderr


def test_what_commands_write_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever commands write (projects, samples, exports, backups, reports, logs, caches) is for its owner only; a
    folder that was there stays as it is."""
    monkeypatch.chdir(tmp_path)
    caches = Path(os.environ["WORKBENCH_CACHE"])
    before = os.umask(0o022)
    try:
        Path("mine").mkdir()
        for words in (
            "demo mine --samples-only --count 4",
            "import new.wb mine/samples.jsonl",
            "export new.wb table -o t.csv",
            "export new.wb conversations --as label-studio -o tasks.json",
            "report new.wb -o r.html",
            "backup new.wb",
            "repair new.wb -o saved.wb",
            "merge new.wb mine/demo.wb -o all.wb",
            "run cluster new.wb --no-labels",
        ):
            assert workbench(*words.split()).returncode in (0, 3)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)

    written = [*tmp_path.rglob("*"), caches, *caches.rglob("*")]
    open_ones = {path.name for path in written if path.stat().st_mode & 0o077}
    assert open_ones == {"mine"}
    assert len(written) > 12
