"""Runs the parts of the bench and puts their figures into one result."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.errors import NotFound
from engine.model.catalog import Catalog
from engine.store.health import sqlite_facts
from engine.worker.client import ModelProcess
from workbench.bench.completeness import bench_completeness
from workbench.bench.goals import SIZES, bench_goals
from workbench.bench.http import bench_http
from workbench.bench.importing import bench_import
from workbench.bench.listing import ROWS, bench_list
from workbench.bench.startup import bench_startup
from workbench.bench.training import bench_training
from workbench.bench.trees import bench_trees
from workbench.bench.tuning import bench_tune
from workbench.bench.watching import bench_watch

PARTS = ("startup", "import", "list", "tune", "completeness", "watch", "trees", "goals", "training")
ON_REQUEST = ("http",)
"""Parts that are measured only when they are named: they need packages that the program does not need."""

QUICK_ROWS = 300
PACKAGES = (
    "conversation-workbench",
    "llama-cpp-python",
    "textual",
    "numpy",
    "scikit-learn",
    "hnswlib",
)


def run(
    which: Collection[str] | None,
    progress: Callable[[str], None],
    *,
    data: Path,
    cache: Path,
    quick: bool = False,
    file: Path | None = None,
    rows: int | None = None,
) -> dict[str, Any]:
    """Measures parts of the program.

    Args:
        which: Some of `PARTS` and `ON_REQUEST`; None measures all of `PARTS`.
        progress: Called with a few words on what is being measured.
        data, cache: The folders of the model catalogue and of tuned models.
        quick: Measure little and once: figures of the right kind that are good for nothing else.
        file: What the import reads instead of generated conversations: JSON Lines in the uniform form.
        rows: Conversations in the list, and vectors of the largest clustering, that are measured; None for as many as
            a minute or two allow.

    Returns:
        One entry for each part, see the functions of this package; `part_seconds`, how long each part took; `machine`.

    Raises:
        UsageError: There is no such part.
        WorkbenchError: A part cannot run on this machine.
    """
    wanted = set(PARTS if which is None else which)
    if unknown := wanted.difference(PARTS, ON_REQUEST):
        raise NotFound(
            f"There is no part {', '.join(sorted(unknown))} of the bench.",
            f"Parts are {', '.join((*PARTS, *ON_REQUEST))}.",
        )
    size: dict[str, int]
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {"part_seconds": seconds}
    if "startup" in wanted:
        with _timed(seconds, "startup"):
            found["startup"] = bench_startup(progress, rounds=2 if quick else 5)
    if "import" in wanted:
        with _timed(seconds, "import"):
            size = {"messages": 300, "rounds": 1} if quick else {}
            found["import"] = bench_import(progress, file=file, **size)
    if "list" in wanted:
        with _timed(seconds, "list"):
            found["list"] = bench_list(progress, rows=rows or (QUICK_ROWS if quick else ROWS))
    if "goals" in wanted:
        with _timed(seconds, "goals"):
            sizes = (
                (QUICK_ROWS,)
                if quick
                else (*SIZES, *((rows,) if rows and rows > SIZES[-1] else ()))
            )
            found["goals"] = bench_goals(progress, sizes=sizes)
    if "training" in wanted:
        with _timed(seconds, "training"):
            size = {"examples": 2, "batch": 2} if quick else {}
            found["training"] = bench_training(progress, **size)
    process = ModelProcess(cache / "logs" / "bench.log")
    try:
        found["machine"] = machine(process)
        catalog = Catalog(data, cache)
        if "tune" in wanted:
            with _timed(seconds, "tune"):
                size = {"chars": 1_200, "rounds": 1} if quick else {}
                found["tune"] = bench_tune(catalog, process, progress, **size)
        if "completeness" in wanted:
            with _timed(seconds, "completeness"):
                size = {"chars": 900, "long": 1, "turns": 2, "rounds": 1, "fitted": 20}
                found["completeness"] = bench_completeness(
                    catalog, process, progress, **(size if quick else {})
                )
        if "watch" in wanted:
            with _timed(seconds, "watch"):
                size = {"logs": 1, "turns": 2, "rounds": 1} if quick else {}
                found["watch"] = bench_watch(catalog, process, progress, **size)
        if "trees" in wanted:
            with _timed(seconds, "trees"):
                size = {"prompts": 2, "reprompted": 1} if quick else {}
                found["trees"] = bench_trees(catalog, process, progress, **size)
        if "http" in wanted:
            with _timed(seconds, "http"):
                size = {"replies": 2} if quick else {}
                log = cache / "logs" / "bench-server.log"
                found["http"] = bench_http(catalog, process, progress, log=log, **size)
    finally:
        process.close()
    return found


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - start


def machine(process: ModelProcess) -> dict[str, Any]:
    """The machine and the versions that the figures were measured with."""
    return {
        "llama_cpp": process.machine()["system"],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite_facts().version,
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }
