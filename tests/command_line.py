"""Running commands of the program in tests."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.cli import main


def workbench(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs a command in this process, which saves a second of imports; `process` runs one in its own.

    Returns:
        What `subprocess.run` would return: exit code and what was written to standard output and standard error.
    """
    arguments = list(map(str, words))
    out, err = io.BytesIO(), io.BytesIO()
    environment = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8", write_through=True))
        patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8", write_through=True))
        try:
            code = main(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            written = (
                out.getvalue(),
                err.getvalue(),
            )  # before a wrapper is collected, which closes it
            os.environ.clear()
            os.environ.update(environment)
    return subprocess.CompletedProcess(arguments, code, *written)


def process(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs the program as a person would, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, words)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=600,
    )


def data(done: subprocess.CompletedProcess[bytes]) -> Any:
    """What a command printed as JSON; shows its narration when it is not."""
    assert done.stdout, done.stderr.decode()
    return json.loads(done.stdout)


def result(*words: str | Path, code: int = 0) -> Any:
    """The JSON that a command prints; asserts that it ends with this exit code."""
    done = workbench(*words, "--json")
    assert done.returncode == code, done.stderr.decode()
    return data(done)
