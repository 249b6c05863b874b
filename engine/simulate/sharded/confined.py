"""Runs a function that a model wrote, in a confined process.

On Linux on x86-64 and ARM64 a filter of system calls (seccomp) allows only reading files, memory and the clock. So the
process has no network and no sockets, cannot start processes, threads or programs, sends no signals, and cannot write,
create, rename or delete files. If the kernel has Landlock, it can read only the libraries of Python and of the system.
Memory, processor time, elapsed time, open files and the size of the result are limited. The environment is empty, the
working folder is an empty temporary one, output is discarded, and only the standard library can be imported.

Not prevented: load on one processor core and on memory within the limits; without Landlock, reading files that this
user may read (they could leave only through a result of a few kilobytes, which is compared and stored); and an answer
that searches for the channel of the result may forge its own result. On other systems nothing is run
(`require_confinement`).
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import UsageError

_CHILD = Path(__file__).with_name("confined_child.py")
"""The program of the confined process."""

_PROBE = """
def probe(folder):
    import os, socket
    reached = []
    for name, attempt in {
        "network": lambda: socket.socket(),
        "files": lambda: open(os.path.join(folder, "probe"), "w"),
        "processes": os.fork,
    }.items():
        try:
            attempt()
            reached.append(name)
        except OSError:
            pass
    return reached
"""
"""Code that tries what must be refused, and returns what was not."""


_ELAPSED_PER_CPU_SECOND = 3
"""Limit of elapsed time as a multiple of that of processor time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run.

    Attributes:
        seconds: Processor time, rounded up to whole seconds; the limit of elapsed time is three times as long.
        memory_bytes: Address space.
        result_bytes: Length of the result as JSON.
    """

    seconds: float = 6.0
    memory_bytes: int = 512 * 2**20
    result_bytes: int = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        ended: `returned`; `raised` an exception; at a `limit` of time; `died` (memory, a crash, a refused result).
        value: The returned value after a round trip through JSON (a tuple is a list).
        error: The exception, if it raised one.
        reads_only_libraries: Whether the kernel has Landlock, so that no other file could be read.
    """

    ended: Literal["returned", "raised", "limit", "died"]
    value: Any = None
    error: str = ""
    reads_only_libraries: bool = field(default=False, compare=False)


def run_function(
    source: str, function: str, arguments: Sequence[Any], limits: Limits = Limits()
) -> Outcome:
    """Runs `source` as a module in confinement, and calls one of its functions.

    Args:
        arguments: JSON values, by position.

    Raises:
        UsageError: This system cannot confine it. Nothing was run.
    """
    if platform.system() != "Linux":
        raise _not_confined(f"{platform.system() or 'this system'} has no filter of system calls")
    request = {
        "source": source,
        "function": function,
        "arguments": list(arguments),
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "result_bytes": limits.result_bytes,
    }
    with (
        tempfile.TemporaryDirectory(prefix="confined-") as folder,
        tempfile.TemporaryFile() as request_file,
        tempfile.TemporaryFile() as result_file,
    ):
        request_file.write(json.dumps(request).encode())
        request_file.seek(0)
        in_time = _run_child(
            folder,
            request_file.fileno(),
            result_file.fileno(),
            limits.seconds * _ELAPSED_PER_CPU_SECOND,
        )
        result_file.seek(0)
        raw = result_file.read(limits.result_bytes)
    return _outcome(raw, in_time)


@cache
def require_confinement() -> None:
    """Tests the confinement, once in the life of this process.

    Raises:
        UsageError: Code written by models cannot be run safely on this system.
    """
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_function(_PROBE, "probe", [folder])
    if outcome.value != []:
        failures = ", ".join(outcome.value or [outcome.error or outcome.ended])
        raise _not_confined(f"it was tried and did not hold: {failures}")


def _run_child(
    folder: str, request_descriptor: int, result_descriptor: int, seconds: float
) -> bool:
    """Runs the child process; returns False if a time limit ended it.

    Args:
        folder: Its working folder.
        request_descriptor, result_descriptor: The files that are its standard input and output.
        seconds: Limit of elapsed time.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_CHILD)],
        stdin=request_descriptor,
        stdout=result_descriptor,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        start_new_session=True,
    )
    try:
        return process.wait(timeout=seconds) != -signal.SIGXCPU
    except subprocess.TimeoutExpired:
        return False
    finally:
        # Killing the child is enough, since it cannot start processes. After its end this does nothing.
        process.kill()
        process.wait()


def _outcome(raw: bytes, in_time: bool) -> Outcome:
    """Returns what the child process wrote as an outcome."""
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        return Outcome("died" if in_time else "limit")
    if "unconfined" in answer:
        raise _not_confined(str(answer["unconfined"]))
    reads_only_libraries = bool(answer.get("files"))
    if "error" in answer:
        return Outcome("raised", None, str(answer["error"]), reads_only_libraries)
    return Outcome("returned", answer.get("value"), "", reads_only_libraries)


def _not_confined(why: str) -> UsageError:
    """Returns the error that code cannot be run safely here."""
    return UsageError(
        f"Answers in code cannot be confined on this system ({why}), so none is run.",
        "Run the code tasks on Linux with seccomp (x86-64 or ARM64), or leave them out.",
    )
