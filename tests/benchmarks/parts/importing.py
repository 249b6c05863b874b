"""Measures the speed of the import, compared with the simplest program that fills the same tables."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base.errors import WorkbenchError
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from tests.benchmarks.parts.bare_import import bare_import
from tests.benchmarks.parts.datasets import write_import_file
from tests.benchmarks.rounds import rounds

MESSAGES = 20_000


def bench_import(
    progress: Callable[[str], None], *, messages: int = MESSAGES, most: int = 3,
    seconds: float = math.inf,
) -> dict[str, Any]:  # fmt: skip
    """Imports a file with the program and with the baseline by turns, each time into a new project.

    Args:
        messages: Size of the generated file.
        most, seconds: Rounds, and time for them.

    Returns:
        `messages`, `messages_per_s` and `bare_messages_per_s` (medians), `fraction_of_bare_sqlite` (median of the
        ratios of neighboring rounds) and `fractions`.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as name:
        folder = Path(name)
        source = folder / "samples.jsonl"
        progress(f"writing {messages:,} messages")
        write_import_file(source, messages)
        ours, bare = [], []
        count = 0
        for number in rounds(most, seconds):
            progress(f"importing, round {number + 1} of at most {most}")
            ours.append(_import(folder / f"ours-{number}.wb", source))
            yardstick = folder / f"bare-{number}.wb"
            Project.open(yardstick, create=True).close()
            count, took = bare_import(yardstick, source)
            bare.append(took)
    fractions = [b / o for o, b in zip(ours, bare, strict=True)]
    return {
        "messages": count,
        "messages_per_s": count / statistics.median(ours),
        "bare_messages_per_s": count / statistics.median(bare),
        "fraction_of_bare_sqlite": statistics.median(fractions),
        "fractions": fractions,
    }


def _import(path: Path, source: Path) -> float:
    with Project.open(path, create=True) as project:
        stage = ImportStage(project, [str(source)])
        runner = JobRunner(project, lambda event: None)
        start = time.perf_counter()
        outcome = runner.run(stage)
        seconds = time.perf_counter() - start
    if outcome.state != "done" or stage.counts.quarantined:
        raise WorkbenchError(f"The import to be measured failed: {outcome.message}")
    return seconds
