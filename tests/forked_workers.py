"""A plugin of pytest: after one collection, the tests run in processes that are forked from it, side by side.

To collect takes ten seconds, most of them imports, which each process of another kind would spend again. A file of
tests stays in one process, so that what its tests share is made once; files are handed out in the order of collection.
"""

from __future__ import annotations

import atexit
import os
import signal
import traceback
from collections.abc import Iterator
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import pytest

WORKERS = (os.cpu_count() or 1) + 2
"""Two processes more than cores: a screen test waits for half of its time."""

DIGITS = 5


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Runs all tests, and passes on what the processes report as if they had run here.

    Raises:
        session.Interrupted: A file could not be collected.
        session.Failed: So many tests failed that pytest is to stop.
        ChildProcessError: A process of the tests broke down.
    """
    if session.testsfailed:
        raise session.Interrupted(f"{session.testsfailed} errors while collecting")
    config: Any = session.config
    if config.option.collectonly:
        return True
    folder: Path = config._tmp_path_factory.getbasetemp()
    files = [list(items) for _, items in groupby(session.items, attrgetter("path"))]
    numbers, end = os.pipe()
    os.write(end, b"".join(b"%*d" % (DIGITS, number) for number in range(len(files))))
    os.close(end)
    pids: dict[Connection, int] = {}
    try:
        for number in range(min(WORKERS, len(files))):
            reports, sender = Pipe(duplex=False)
            pid = os.fork()
            if not pid:
                _be_worker(config, folder / f"worker{number}", _items(files, numbers), sender)
            sender.close()
            pids[reports] = pid
        _pass_on(session, pids)
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
    return True


def _pass_on(session: pytest.Session, pids: dict[Connection, int]) -> None:
    """Passes on reports until each process has ended; `pids` are those of the processes, by what they send."""
    config, hook = session.config, session.config.hook
    last: dict[Any, str] = {}
    while pids:
        for reports in wait(list(pids)):
            assert isinstance(reports, Connection)
            try:
                report = hook.pytest_report_from_serializable(config=config, data=reports.recv())
            except EOFError:
                _, status = os.waitpid(pids.pop(reports), 0)
                if status:
                    code = os.waitstatus_to_exitcode(status)
                    raise ChildProcessError(f"{code} after {last.get(reports)}") from None
                continue
            last[reports] = report.nodeid
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


class _Sender:
    """Sends reports to the process that collected."""

    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self._config = config
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._reports.send(hook.pytest_report_to_serializable(config=self._config, report=report))


def _be_worker(
    config: Any, folder: Path, items: Iterator[pytest.Item], reports: Connection
) -> NoReturn:
    """Makes this process, just forked, run tests; `folder` is for what they write."""
    code = 1
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        atexit._clear()  # what the other process cleans up at its end
        capture.stop_global_capturing()  # into a file that all processes share
        capture.start_global_capturing()
        config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115
        config.pluginmanager.register(_Sender(config, reports))
        folder.mkdir()  # of each process: tests number their folders by those that are there
        config._tmp_path_factory._basetemp = folder
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the other process may go on in here
        capture.stop_global_capturing()
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _items(files: list[list[pytest.Item]], numbers: int) -> Iterator[pytest.Item]:
    """Yields the tests of the next file that no process has taken, when they have run those of another, and so on."""
    while number := os.read(numbers, DIGITS):
        yield from files[int(number)]
