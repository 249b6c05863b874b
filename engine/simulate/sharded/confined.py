"""Runs a function that a model wrote, in a process that can do next to nothing.

What is confined, on Linux on x86-64 and ARM64: a filter of system calls (seccomp) leaves reading files, memory and the
clock; so there is no network and no socket of any kind, no second process or thread, no other program, no signal, and
nothing is written, made, renamed or removed anywhere. Where the kernel has Landlock, only Python's own library and the
system's can be read. Memory, processor time, the clock, open files and the size of the result are limited. The
environment is empty, the folder is an empty temporary one, output goes nowhere. Only the standard library is there.

What is not: the load on one processor core and on memory within the limits; without Landlock, the reading of what this
user may read (it could only come out in a result of a few kilobytes, which is compared and stored). An answer that sets
out to find the channel of the result may forge its own result. On other systems nothing is run (`require_confinement`).
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.errors import UsageError

_CHILD = Path(__file__).with_name("confined_child.py")
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


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use.

    Attributes:
        seconds: Processor time, rounded up to whole seconds; by the clock three times as much.
        memory_bytes: Address space.
        result_bytes: Length of the result as JSON.
    """

    seconds: float = 6.0
    memory_bytes: int = 512 * 2**20
    result_bytes: int = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        ended: `returned`; `raised` an exception; at a `limit` of time; `died` (memory, a crash, a refused result).
        value: What it returned, as JSON keeps it (a tuple is a list).
        error: The exception, if it raised one.
    """

    ended: Literal["returned", "raised", "limit", "died"]
    value: Any = None
    error: str = ""


def run_function(
    source: str, function: str, arguments: Sequence[Any], limits: Limits = Limits()
) -> Outcome:
    """Runs `source` as a module in confinement, and calls one of its functions.

    Args:
        arguments: JSON values, by position.

    Raises:
        UsageError: This system cannot confine it. Nothing was run.
    """
    return _run(source, function, arguments, limits)[0]


@cache
def require_confinement() -> str:
    """Tries the confinement once for this process.

    Returns:
        What is confined on this system, one sentence.

    Raises:
        UsageError: Answers in code cannot be run here safely.
    """
    with tempfile.TemporaryDirectory() as folder:
        outcome, files = _run(_PROBE, "probe", [folder], Limits())
    if outcome.value != []:
        what = ", ".join(outcome.value or [outcome.error or outcome.ended])
        raise _unconfined(f"it was tried and did not hold: {what}")
    reading = "reads only libraries" if files else "reads what this user may read"
    return (
        "Code of models runs without network, writing, processes and threads, within limits of time and memory; "
        f"it {reading}."
    )


def _run(
    source: str, function: str, arguments: Sequence[Any], limits: Limits
) -> tuple[Outcome, bool]:
    if platform.system() != "Linux":
        raise _unconfined(f"{platform.system() or 'this system'} has no filter of system calls")
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
        tempfile.TemporaryFile() as asked,
        tempfile.TemporaryFile() as result,
    ):
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        in_time = _child(folder, asked.fileno(), result.fileno(), limits.seconds * 3)
        result.seek(0)
        raw = result.read(limits.result_bytes)
    return _outcome(raw, in_time)


def _child(folder: str, asked: int, result: int, seconds: float) -> bool:
    """Runs the child; False if a limit of time ended it."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_CHILD)],
        stdin=asked,
        stdout=result,
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
        # It cannot have made others. Once it has ended this does nothing.
        process.kill()
        process.wait()


def _outcome(raw: bytes, in_time: bool) -> tuple[Outcome, bool]:
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        return Outcome("died" if in_time else "limit"), False
    if "unconfined" in answer:
        raise _unconfined(str(answer["unconfined"]))
    files = bool(answer.get("files"))
    if "error" in answer:
        return Outcome("raised", error=str(answer["error"])), files
    return Outcome("returned", answer.get("value")), files


def _unconfined(why: str) -> UsageError:
    return UsageError(
        f"Answers in code cannot be confined on this system ({why}), so none is run.",
        "Run the code tasks on Linux with seccomp (x86-64 or ARM64), or leave them out.",
    )
