"""Measures the speed of the list in a project with many conversations."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base.errors import WorkbenchError
from tests.benchmarks.parts.list_project import write_list_project
from tests.benchmarks.tool import REPOSITORY

ROWS = 100_000


PROBE_ROWS = 2_000
"""Conversations that tell how many can be made in time."""

WRITING = 0.7
"""Share of the time that making the project may take."""


def bench_list(
    progress: Callable[[str], None], *, rows: int | None = None, seconds: float = math.inf
) -> dict[str, Any]:
    """Makes a project of many conversations and times, in a fresh process, what the list asks of it.

    Args:
        rows: How many; None takes `ROWS`, or as many as can be made in the time.
        seconds: Time for everything.

    Returns:
        `rows`, `messages`, `write_s` (making the project) and `file_mb` (10^6 bytes); in milliseconds `open_ms` (from
        opening the file to the first screen of rows), `page_ms_p95` (200 rows at random places), `sort_ms` and
        `filter_ms` (the slowest kind), `search_ms` (a word in a hundredth of the conversations), `counts_ms` (of the
        project) and `kinds`, all times that these are taken from; `rss_mb`, the most memory the process had.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        if rows is None:
            began = time.perf_counter()
            write_list_project(Path(name) / "few.wb", PROBE_ROWS, progress)
            each = (time.perf_counter() - began) / PROBE_ROWS
            rows = round(min(ROWS, max(PROBE_ROWS, WRITING * seconds / each)))
        project = Path(name) / "list.wb"
        began = time.perf_counter()
        messages = write_list_project(project, rows, progress)
        took = time.perf_counter() - began
        progress(f"listing {rows:,} conversations")
        kinds = _measured(project)
        size = project.stat().st_size
    return {
        "rows": rows,
        "messages": messages,
        "write_s": took,
        "file_mb": size / 1e6,
        "open_ms": kinds.pop("open_ms"),
        "page_ms_p95": kinds.pop("page_ms_p95"),
        "sort_ms": max(kinds["sort"].values()),
        "filter_ms": max(kinds["filter"].values()),
        "search_ms": kinds["search"]["rare"],
        "counts_ms": kinds["counts"]["project"],
        "rss_mb": kinds.pop("rss_mb"),
        "kinds": kinds,
    }


def _measured(project: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.parts.list_times", str(project)]
    done = subprocess.run(
        command,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    if done.returncode != 0:
        last = done.stderr.strip().rsplit("\n", 1)[-1]
        raise WorkbenchError(f"The list could not be measured: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
