"""What code of a model cannot do: every test runs it in the real sandbox of this system."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.simulate.sharded import confined
from engine.simulate.sharded.confined import Limits, Outcome, require_confinement, run_function

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux", reason="code is run on Linux only, elsewhere it is refused"
)

USUAL = Limits()


def run(body: str, *arguments: Any, limits: Limits = USUAL) -> Outcome:
    """Runs a function with this body and parameter `arguments`."""
    return run_function(
        f"def f(*arguments):\n{indent(dedent(body), '    ')}", "f", arguments, limits
    )


class TestRunning:
    def test_a_function_gets_its_arguments_and_returns(self) -> None:
        """JSON goes in, JSON comes out; a tuple comes out as a list."""
        assert run("return arguments", 1, "é", [None, {"a": 2.5}]) == Outcome(
            "returned", [1, "é", [None, {"a": 2.5}]]
        )

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ("return 1 / 0", "ZeroDivisionError"),
            ("raise SystemExit(0)", "SystemExit"),
            ("return {1, 2}", "no JSON"),
        ],
    )
    def test_what_it_raises_is_its_outcome(self, body: str, error: str) -> None:
        """Any exception, an exit, and a result that is no JSON are outcomes, not errors of the caller."""
        outcome = run(body)
        assert outcome.ended == "raised"
        assert error in outcome.error

    def test_the_standard_library_is_there_and_nothing_else(self) -> None:
        """The standard library can be imported, installed packages cannot."""
        body = """
            import bisect, collections, datetime, decimal, functools, hashlib, heapq, itertools, json, math, random, re
            import statistics, string, typing
            return hashlib.sha256(b"").hexdigest()[:4]
        """
        assert run(body).value == "e3b0"
        assert "ModuleNotFoundError" in run("import numpy").error

    def test_nothing_of_this_process_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The environment is empty but for Python's locale, and the working folder is an empty one."""
        monkeypatch.setenv("SECRET_TOKEN", "x")
        body = "import os\nreturn [sorted(os.environ), os.listdir(), os.getcwd()]"
        names, files, folder = run(body).value
        assert set(names) <= {"LC_CTYPE"}
        assert files == []
        assert not Path(folder).exists()


class TestNetwork:
    def test_it_cannot_connect(self) -> None:
        """A connection to a listener on this machine is refused by the system."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.2)
            port = server.getsockname()[1]
            body = "import socket\nsocket.create_connection(('127.0.0.1', arguments[0]))"
            assert "PermissionError" in run(body, port).error
            with pytest.raises(TimeoutError):
                server.accept()


ESCAPES = {
    "read and write another process": {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312},
    "take files of another process": {"pidfd_open": 434, "pidfd_getfd": 438, "recvmsg": 47},
    "start one": {"clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "clone3": 435},
    "signal one": {"kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "pidfd_send_signal": 424},
    "leave namespaces or the folder": {"unshare": 272, "setns": 308, "chroot": 161, "pivot_root": 155, "mount": 165},
    "open past the checked flags": {"openat2": 437, "creat": 85, "open_by_handle_at": 304, "io_uring_setup": 425},
    "make files in memory": {"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "mq_open": 240},
    "write where it is open": {"pwrite64": 18, "pwritev": 296, "sendfile": 40, "splice": 275, "copy_file_range": 326},
    "load code into the kernel": {"bpf": 321, "init_module": 175, "finit_module": 313, "kexec_load": 246},
    "watch the system": {"perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300, "syslog": 103},
    "change rights, limits and filters": {
        "prctl": 157, "seccomp": 317, "setuid": 105, "capset": 126, "setrlimit": 160, "prlimit64": 302,
    },
    "connect": {"socket": 41, "socketpair": 53, "connect": 42, "bind": 49, "listen": 50},
    "use keys, clocks and power": {"add_key": 248, "keyctl": 250, "settimeofday": 164, "reboot": 169},
    "use the numbers of another interface (x32)": {"x32 socket": 0x40000000 + 41, "x32 execve": 0x40000000 + 520},
}  # fmt: skip
"""Ways out, by what they would be good for: system calls by their numbers on x86-64."""


class TestEscapes:
    @pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
    def test_every_written_way_out_is_refused(self) -> None:
        """Each call of the list, made by native code, fails with EPERM, which the filter answers."""
        numbers = {name: number for calls in ESCAPES.values() for name, number in calls.items()}
        body = """
            import ctypes, errno
            libc = ctypes.CDLL(None, use_errno=True)
            passed = []
            for name, number in arguments[0].items():
                ctypes.set_errno(0)
                result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
                if result != -1 or ctypes.get_errno() != errno.EPERM:
                    passed.append([name, result, ctypes.get_errno()])
            return passed
        """
        assert run(body, numbers).value == []

    def test_writable_code_stays_confined(self) -> None:
        """Memory can be made executable, and what runs there is refused as well; the old interface of 32 bits kills."""
        body = """
            import ctypes, mmap
            code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            code.write(bytes(arguments[0]))
            start = ctypes.addressof(ctypes.c_char.from_buffer(code))
            return ctypes.CFUNCTYPE(ctypes.c_long)(start)()
        """
        if platform.machine() != "x86_64":
            pytest.skip("the code is that of x86-64")
        fork = b"\xb8\x39\x00\x00\x00\x0f\x05\xc3"  # mov eax, 57; syscall; ret
        assert run(body, list(fork)).value == -1  # -EPERM
        old_fork = b"\xb8\x02\x00\x00\x00\xcd\x80\xc3"  # mov eax, 2; int 0x80; ret
        assert run(body, list(old_fork)).ended == "died"


class TestFiles:
    @pytest.mark.parametrize(
        "attempt",
        [
            "open(path, 'w')",
            "os.open(path, os.O_RDONLY | os.O_CREAT)",
            "os.remove(path)",
            "os.chmod(path, 0)",
            "os.mkdir(path + '2')",
        ],
    )
    def test_it_changes_no_file_anywhere(self, attempt: str, tmp_path: Path) -> None:
        """Writing, creating, renaming, removing and changing modes or times of files is refused everywhere."""
        file = tmp_path / "kept"
        file.write_text("as it was")
        before = file.stat()
        outcome = run(f"import os\npath = arguments[0]\n{attempt}", str(file))
        assert "PermissionError" in outcome.error
        assert file.read_text() == "as it was"
        assert (file.stat().st_mode, file.stat().st_mtime_ns) == (
            before.st_mode,
            before.st_mtime_ns,
        )
        assert [one.name for one in tmp_path.iterdir()] == ["kept"]

    def test_what_it_can_read_is_what_is_said(self, tmp_path: Path) -> None:
        """Where the outcome says that only libraries can be read, a file of this user cannot be."""
        file = tmp_path / "private"
        file.write_text("secret")
        outcome = run("return open(arguments[0]).read()", str(file))
        if outcome.reads_only_libraries:
            assert "PermissionError" in outcome.error
        else:
            assert outcome.value == "secret"


class TestLimits:
    def test_a_loop_without_end_is_killed(self) -> None:
        """A loop is killed at its limit of processor time, also if it ignores the signal."""
        brief = Limits(seconds=1)
        assert run("while True: pass", limits=brief).ended == "limit"
        stubborn = """
            import signal
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)
            while True: pass
        """
        assert run(stubborn, limits=brief).ended in ("limit", "died")

    def test_a_huge_allocation_ends_with_it(self) -> None:
        """A huge allocation fails in the process and affects no other."""
        outcome = run("return len([0] * 10**10)", limits=Limits(memory_bytes=200 * 2**20))
        assert outcome.ended in ("raised", "died")
        assert outcome.ended == "died" or "MemoryError" in outcome.error


class TestRefusal:
    def test_this_system_is_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Confinement is tried on this system; where something was reached that it must refuse, no code is run."""
        require_confinement()
        reached = Outcome("returned", ["network"])
        monkeypatch.setattr(confined, "run_function", lambda *_: reached)
        with pytest.raises(UsageError, match="did not hold: network"):
            require_confinement.__wrapped__()

    def test_on_an_unknown_system_nothing_is_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where there is no filter of system calls, code is refused with a hint and never run unconfined."""
        monkeypatch.setattr(platform, "system", lambda: "Plan9")
        monkeypatch.setattr(subprocess, "Popen", lambda *_: pytest.fail("a process was started"))
        with pytest.raises(UsageError, match="Plan9"):
            run("return 1")

    def test_an_unknown_machine_runs_nothing(self, tmp_path: Path) -> None:
        """The child process refuses a machine whose system calls it does not know."""
        child = Path(confined.__file__).with_name("confined_child.py")
        script = (
            "import runpy, platform; platform.machine = lambda: 'vax';"
            f"runpy.run_path({str(child)!r}, run_name='__main__')"
        )
        request = (
            '{"source": "def f(): return 1", "function": "f", "arguments": [], "seconds": 1,'
            ' "memory_bytes": 200000000, "result_bytes": 1000}'
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=request,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "unconfined" in done.stdout
        assert "value" not in done.stdout

    def test_nothing_is_left_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No temporary folder and no process stays, also after a run that was killed."""
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        run("while True: pass", limits=Limits(seconds=0.2))
        assert list(tmp_path.iterdir()) == []
        running = [one.read_bytes() for one in Path("/proc").glob(f"{os.getpid()}/task/*/children")]
        children = [pid for line in running for pid in line.decode().split()]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children]
        assert not any(b"confined_child" in command for command in commands)
