"""The command line as a script uses it: arguments, exit codes, data on standard output; on the real model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.command_line import data, workbench


class TestWords:
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
            (("improt", "x.wb", "my logs"), "workbench import x.wb 'my logs'"),
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

        assert done.returncode == 1
        assert f"Did you mean {tmp_path / 'october.wb'}?" in done.stderr.decode()
        assert "--create" in done.stderr.decode()
        assert not list(tmp_path.glob("octobre*"))

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
            (("none.wb",), 1),
            (("answers", "none.wb", "succeeded", "--name", "x"), 2),
            (("list", "none.wb", "--filter", "--"), 2),
            (("list", "none.wb", "--limit=--"), 2),
            (("import", "none.wb", "logs", "--most-unpacked=1e308"), 2),
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

    def test_a_name_that_no_file_can_have(self) -> None:
        """A name that is too long for the system is refused as any other that is not there."""
        done = workbench("models", "add", "a" * 5000)
        assert (done.returncode, b"too long for the name of a file" in done.stderr) == (2, True)

    @pytest.mark.parametrize("first", ['{"debug": true}', '{"messages": []}'])
    def test_a_name_forges_no_line(self, first: str, tmp_path: Path) -> None:
        """A line break in the name of a file stays within the line, in narration, results, errors and their hints."""
        log = tmp_path / "odd\nworkbench: all is well.jsonl"
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        log.write_text(f"{first}\n{json.dumps({'messages': messages})}")
        for words in (["import"], ["import", "--dry-run"], ["open", "--headless", "-o"]):
            done = workbench(*words, tmp_path / "p\nworkbench: all is well.wb", log)
            lines = (done.stdout + done.stderr).decode().splitlines()
            assert [line for line in lines if line.startswith("workbench: all is well")] == []

    def test_a_folder_that_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """In a folder that was deleted nothing can be named, and that is said."""
        monkeypatch.chdir(tmp_path)
        tmp_path.rmdir()
        done = workbench("status", "p.wb")
        assert (done.returncode, b"no longer there" in done.stderr) == (2, True)


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
