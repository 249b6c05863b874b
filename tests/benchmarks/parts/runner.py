"""Runs the parts of the bench and puts their figures into one result."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Machine
from tests.benchmarks.parts.completeness import bench_completeness
from tests.benchmarks.parts.goals import SIZES, bench_goals
from tests.benchmarks.parts.importing import bench_import
from tests.benchmarks.parts.training import bench_training
from tests.benchmarks.parts.trees import bench_trees

SECONDS = {
    "import": 70,
    "completeness": 205,
    "trees": 185,
    "goals": 60,
    "training": 80,
}
"""How much of `BUDGET` each part gets."""

PARTS = tuple(SECONDS)
BUDGET = 10.0
"""Minutes that all of `PARTS` may take."""

LATE = 1.1
"""A part that takes this many times its budget is named."""

QUICK_ROWS = 300
PACKAGES = (
    "conversation-workbench", "llama-cpp-python", "textual", "numpy", "scikit-learn", "hnswlib",
)  # fmt: skip


def run(
    which: Collection[str] | None,
    progress: Callable[[str], None],
    *,
    data: Path,
    cache: Path,
    quick: bool = False,
    rows: int | None = None,
    minutes: float = BUDGET,
) -> dict[str, Any]:
    """Measures parts of the program.

    Args:
        which: Some of `PARTS`; None measures all of `PARTS`.
        progress: Called with a few words on what is being measured.
        data, cache: The folders of the model catalog and of tuned models.
        quick: Measure little and once: figures of the right kind that are good for nothing else.
        rows: Vectors of the largest clustering, however long that takes; None for as many as the time allows.
        minutes: Time for all of `PARTS`; each part has its share of it, also when it is measured alone. A part repeats
            its rounds and chooses its sizes so that it keeps its time. It measures everything once even where that
            takes longer.

    Returns:
        One entry for each part, see the functions of this package; `part_seconds`, how long each part took;
        `part_budget_seconds`, how long it was meant to take; `machine`.

    Raises:
        UsageError: There is no such part.
        WorkbenchError: A part cannot run on this machine.
    """
    names = set(PARTS if which is None else which)
    if unknown := names.difference(PARTS):
        raise NotFound(
            f"There is no part {', '.join(sorted(unknown))} of the bench.",
            f"Parts are {', '.join(PARTS)}.",
        )
    given = {part: share * minutes / BUDGET for part, share in SECONDS.items() if part in names}
    if rows:  # that many, however long it takes
        given.pop("goals", None)
    took: dict[str, float] = {}
    result: dict[str, Any] = {"part_seconds": took, "part_budget_seconds": given}

    def measured(part: str, work: Callable[..., dict[str, Any]], **size: Any) -> None:
        if part not in names:
            return
        start = time.perf_counter()
        if part in given:
            size["seconds"] = given[part]
        result[part] = work(progress=progress, **size)
        took[part] = time.perf_counter() - start
        if part in given and took[part] > given[part] * LATE:
            progress(f"{part} took {took[part]:.0f} s, more than its {given[part]:.0f} s")

    once = {"most": 1} if quick else {}
    little = {"messages": 300} if quick else {}
    measured("import", bench_import, **little, **once)
    sizes = (QUICK_ROWS,) if quick else (*SIZES, *((rows,) if rows and rows > SIZES[-1] else ()))
    measured("goals", bench_goals, sizes=sizes)
    little = {"examples": 2, "batch": 2} if quick else {}
    measured("training", bench_training, **little, **once)
    process = ModelProcess(cache / "logs" / "bench.log")
    try:
        result["machine"] = machine(process)
        model = {"catalog": Catalog(data, cache), "process": process}
        little = {"chars": 900, "long": 1, "turns": 2, "rounds": 1} if quick else {}
        measured("completeness", bench_completeness, **model, **little)
        measured("trees", bench_trees, **model, **({"prompts": 1} if quick else {}))
    finally:
        process.close()
    return result


def machine(process: ModelProcess) -> dict[str, Any]:
    """The machine and the versions that the figures were measured with."""
    return {
        "llama_cpp": process.ask(Machine())["system"],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }
