"""The program of the child process of `confined`: drops all rights it does not need, then runs the model's code.

Reads one JSON object from standard input: `source`, `function`, `arguments`, and the limits. Writes one JSON object to
the file that is its standard output: `{"value": ...}` or `{"error": "..."}`. Imports the standard library only.

Files are hidden by Landlock, and system calls are refused by seccomp: a filter, written as a small program for the
kernel's packet filter (BPF), decides on each call by its number and arguments. The numbers are those of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import platform
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from typing import Any

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
"""Steps of a filter: load a number of the call; jump by whether it equals another, or shares a bit with it; decide."""

_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
"""Decisions of a filter: allow the call, kill the process, or return an error, whose number is added."""

_OFFSET_OF_NUMBER, _OFFSET_OF_ARCHITECTURE, _OFFSET_OF_ARGUMENTS = 0, 4, 16
"""Where the data of a call have its number, the architecture and the arguments, in bytes."""

_ARGUMENT_BYTES = 8
"""Size of an argument."""

_STEP_FORMAT = "=HBBI"
"""Layout of a step of a filter, for `struct`."""

_STEP_BYTES = struct.calcsize(_STEP_FORMAT)
"""Size of a step."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags of `open` with which a file would be changed."""

_TERMINAL_QUERIES = (0x5401, 0x5450, 0x5451)
"""What Python asks of its files with `ioctl`: TCGETS, FIONCLEX and FIOCLEX."""

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
"""Requests to `prctl`, and the mode in which seccomp uses a filter."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
"""Numbers of the system calls of Landlock."""

_READ_FILE, _READ_FOLDER = 0b101, 0b1101
"""Rights of Landlock: to execute (map) and read a file; and to list a folder too."""

_EVERY_ACCESS = (1 << 13) - 1
"""Every right that Landlock can take away."""


# `arch` is the number of the architecture, `open` has the calls that open a file with the index of their flags (allowed
# only for reading), `ioctl` its number (allowed only for terminal queries), `calls` the calls that are allowed whatever
# their arguments. All others are refused: sockets, new processes and threads, programs, signals, every change of a file
# system, of limits, of others' memory.
_X86_64 = {
    "arch": 0xC000003E,
    "open": {2: 1, 257: 2},
    "ioctl": 16,
    "calls": (
        0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 23, 24, 25, 28, 32, 35, 39, 60, 63, 72, 79,
        89, 96, 97, 98, 99, 100, 102, 104, 107, 108, 110, 131, 186, 202, 204, 217, 218, 228, 229, 230, 231, 262, 267,
        269, 270, 271, 273, 318, 324, 332, 334, 436, 439,
    ),
}  # fmt: skip
"""The numbers of the system calls on x86-64."""

_AARCH64 = {
    "arch": 0xC00000B7,
    "open": {56: 2},
    "ioctl": 29,
    "calls": (
        17, 23, 25, 48, 57, 61, 62, 63, 64, 65, 66, 67, 72, 73, 78, 79, 80, 93, 94, 96, 98, 99, 101, 113, 114, 115, 123,
        124, 132, 134, 135, 139, 153, 160, 165, 169, 172, 173, 174, 175, 176, 177, 178, 179, 214, 215, 216, 222, 226,
        233, 278, 283, 291, 293, 436, 439,
    ),
}  # fmt: skip
"""The same on ARM64."""

_MACHINES: dict[str, dict[str, Any]] = {
    "x86_64": _X86_64,
    "amd64": _X86_64,
    "aarch64": _AARCH64,
    "arm64": _AARCH64,
}
"""The numbers of the system calls by the name of the machine type."""


_MAX_OPEN_FILES = 32
"""Most files that are open at once."""

_MAX_ERROR_CHARS = 500
"""Most characters of an error in the answer."""


def _limit(request: dict[str, Any]) -> None:
    """Limits memory, time, files and processes of this process."""
    seconds = math.ceil(request["seconds"])
    for kind, amount in (
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_FSIZE, request["result_bytes"]),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (amount, amount))
    # The hard limit, one second later, sends SIGKILL, which cannot be ignored.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _readable() -> Iterator[str]:
    """Yields the paths that Python has to read while it runs."""
    yield from {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib")}
    yield os.path.join(sys.base_exec_prefix, "lib")
    yield from (
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/usr/share/zoneinfo",
        "/etc/ld.so.cache",
    )
    yield from ("/dev/null", "/dev/urandom", os.getcwd())


def _words(numbers: Sequence[int]) -> list[ctypes.c_ulong]:
    """Returns arguments of a system call as unsigned longs; shorter types would leave their upper halves undefined."""
    return [ctypes.c_ulong(number) for number in numbers]


def _hide_files(libc: ctypes.CDLL) -> bool:
    """Allows reading only the paths of `_readable`, with Landlock; returns False if the kernel has no Landlock."""
    handled = ctypes.c_uint64(_EVERY_ACCESS)
    rules = libc.syscall(
        *_words((_CREATE_RULESET, ctypes.addressof(handled), ctypes.sizeof(handled), 0))
    )
    if rules < 0:
        return False
    for path in _readable():
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        access = _READ_FOLDER if os.path.isdir(path) else _READ_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, descriptor))
        libc.syscall(*_words((_ADD_RULE, rules, 1, ctypes.addressof(rule), 0)))
        os.close(descriptor)
    is_restricted = bool(libc.syscall(*_words((_RESTRICT, rules, 0))) == 0)
    os.close(rules)
    return is_restricted


def _program(machine: dict[str, Any]) -> bytes:
    """Returns the filter of system calls as a program of the kernel's packet filter (BPF).

    A step has an operation, how many steps are skipped if its comparison holds and if it does not, and a number.
    """

    def argument(index: int) -> int:
        """Returns the offset of an argument in the data of a call."""
        return _OFFSET_OF_ARGUMENTS + _ARGUMENT_BYTES * index

    refused = _ERROR | errno.EPERM
    steps = [
        (_LOAD, 0, 0, _OFFSET_OF_ARCHITECTURE),
        (_EQUAL, 1, 0, machine["arch"]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_OF_NUMBER),
    ]
    for call in machine["calls"]:
        steps += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ALLOW)]
    for call, flags_index in machine["open"].items():
        steps += [
            (_EQUAL, 0, 4, call),
            (_LOAD, 0, 0, argument(flags_index)),
            (_ANY_BIT, 0, 1, _WRITING),
            (_RETURN, 0, 0, refused),
            (_RETURN, 0, 0, _ALLOW),
        ]
    steps += [(_EQUAL, 0, 3 + len(_TERMINAL_QUERIES), machine["ioctl"]), (_LOAD, 0, 0, argument(1))]
    # Each comparison skips those after it and the refusal, so the last of them skips one step.
    query_count = len(_TERMINAL_QUERIES)
    for index, query in enumerate(_TERMINAL_QUERIES):
        steps.append((_EQUAL, query_count - index, 0, query))
    steps += [(_RETURN, 0, 0, _ERROR | errno.ENOTTY), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, refused))
    return b"".join(struct.pack(_STEP_FORMAT, *step) for step in steps)


def _refuse_calls(libc: ctypes.CDLL) -> None:
    """Refuses all system calls but the listed ones.

    Raises:
        OSError: The kernel accepts no filter, or the machine type is unknown.
    """
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    program = _program(machine)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(program) // _STEP_BYTES, ctypes.addressof(buffer))
    )
    for request in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _FILTER, ctypes.addressof(header), 0, 0),
    ):
        if libc.prctl(*_words(request)) != 0:
            raise OSError(ctypes.get_errno(), "the kernel refuses the filter")


def _write_answer(descriptor: int, answer: dict[str, Any]) -> None:
    """Writes the answer to a file; an error in its place if it is no JSON."""
    try:
        data = json.dumps(answer).encode()
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        data = json.dumps({"error": f"the result is no JSON: {error}"[:_MAX_ERROR_CHARS]}).encode()
    while data:
        data = data[os.write(descriptor, data) :]


def _call_function(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the code and calls its function; returns the value or the error."""
    space: dict[str, Any] = {"__name__": "answer"}
    try:
        exec(compile(request["source"], "answer.py", "exec"), space)
        return {"value": space[request["function"]](*request["arguments"])}
    except BaseException as error:  # noqa: BLE001 - whatever the answer raises is its outcome
        return {"error": f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]}


def main() -> None:
    """Confines this process, runs the request, and ends without any clean-up that the answer could have changed."""
    request = json.loads(sys.stdin.read())
    result, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    # The answer may write to standard output; the result goes to a copy of its descriptor.
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        _limit(request)
        libc.prctl(*_words((_NO_NEW_PRIVILEGES, 1, 0, 0, 0)))
        files_are_hidden = _hide_files(libc)
        _refuse_calls(libc)
    except (OSError, ValueError) as error:
        _write_answer(result, {"unconfined": str(error)})
        os._exit(1)
    _write_answer(result, {"files": files_are_hidden, **_call_function(request)})
    os._exit(0)


if __name__ == "__main__":
    main()
