"""A standard output or a file that cannot be written: an exit code and one line, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import process, workbench

FULL = "Standard output cannot be written: No space left on device."


@pytest.mark.parametrize(
    ("redirected", "code", "line"),
    [
        (">/dev/full", 1, f"workbench: {FULL}\n"),
        (">&-", 1, "workbench: Standard output is closed.\n"),
        ("| head -c 0", 0, ""),
        (">/dev/full 2>/dev/full", 1, ""),
        (">&- 2>&- <&-", 1, ""),
    ],
)
def test_processes(redirected: str, code: int, line: str, tmp_path: Path) -> None:
    """A process ends so too, whichever standard streams are closed; a reader that has ended, as `head`, is no fault."""
    command = f'"$0" -m workbench help topics {redirected}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, line)


@pytest.mark.parametrize(
    "words",
    [
        ("export", "d/demo.wb", "table", "-o", "full.csv"),
        ("export", "d/demo.wb", "table", "-o", "full.parquet"),
        ("report", "d/demo.wb", "--force", "-o", "full.html"),
    ],
    ids=" ".join,
)
def test_files(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on a full device is named in an error, and the device stays a device."""
    monkeypatch.chdir(tmp_path)
    workbench("demo", "d", "--samples-only", "--count", "2")
    target = Path(words[-1])
    target.symlink_to("/dev/full")
    done = workbench(*words)

    assert done.returncode == 1
    error = done.stderr.decode()
    assert error.startswith("workbench: The disk is full, or a limit on file sizes is reached")
    assert f"{target} could not be written" in error
    assert target.is_char_device()


def test_a_pipe_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of `-o` that has ended is no fault; Parquet into a pipe is refused, and `-` is standard output."""
    monkeypatch.chdir(tmp_path)
    workbench("demo", "d", "--samples-only", "--count", "2")
    words = ("export", "d/demo.wb", "conversations", "-o")
    command = 'set -o pipefail; "$0" -m workbench "$@" | head -c 0'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, *words, "/dev/stdout"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    os.mkfifo("pipe.parquet")
    refused = workbench("export", "d/demo.wb", "table", "-o", "pipe.parquet")
    assert (refused.returncode, b"pipe.parquet is a pipe" in refused.stderr) == (2, True)
    assert workbench(*words, "-").stdout == workbench(*words[:-1]).stdout != b""


@pytest.mark.parametrize(
    "words",
    [
        ("list", "p.wb", "--filter", b"k\xf6ln"),
        ("import", "p.wb", b"\xff.jsonl"),
        ("answers", "p.wb", "note", "--give", "a", b"\xff"),
    ],
    ids=str,
)
def test_arguments_that_are_no_text(
    words: tuple[str | bytes, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are not UTF-8 end in an error that names the trouble, never in a result or a traceback."""
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text('{"id": "a", "messages": [{"role": "user", "content": "köln"}]}')
    workbench("import", "p.wb", "log.jsonl")
    done = workbench(*map(os.fsdecode, words))

    assert done.returncode in (1, 2)
    assert done.stdout == b""
    assert b"workbench: " in done.stderr


def test_letters_under_another_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under LC_ALL=C a filter with other letters works; where Python takes the locale at its word, it is refused."""
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text('{"id": "a", "messages": [{"role": "user", "content": "köln"}]}')
    workbench("import", "p.wb", "log.jsonl")
    monkeypatch.setenv("LC_ALL", "C")
    found = process("list", "p.wb", "--filter", "köln", "--json")
    monkeypatch.setenv("PYTHONUTF8", "0")
    refused = process("list", "p.wb", "--filter", "köln", "--json")

    assert json.loads(found.stdout)["id"] == "a"
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert "encoding" in json.loads(refused.stderr)["error"]
