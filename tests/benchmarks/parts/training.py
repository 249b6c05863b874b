"""Measures the speed of training, compared with a plain loop, in a process of its own that imports the libraries."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.base.conversation import render_log
from engine.base.errors import WorkbenchError
from engine.base.network_guard import child_environment
from engine.completeness.scoring import log_item
from engine.model.catalog import embedded_model
from engine.simulate.demo import sample_conversations
from engine.training.config import TrainConfig
from engine.training.run_directory import RunDirectory
from tests.benchmarks.tool import REPOSITORY

EXAMPLES, BATCH = 6, 2

LONGEST = 512
"""Token limit of the conversations. The plain loop keeps the activations of a padded batch and several times its
logits, 49,152 for each token: eight whole conversations at once took 11 GB."""

EQUAL = 256
"""Token limit that makes the conversations equally long: most samples are longer."""


def bench_training(
    progress: Callable[[str], None], *, examples: int = EXAMPLES, batch: int = BATCH,
    most: int = 3, seconds: float = math.inf,
) -> dict[str, Any]:  # fmt: skip
    """Trains an adapter for the default model on sample conversations for one epoch, in both loops by turns.

    Args:
        most, seconds: Rounds, and time for all.

    Returns:
        The figures of `training_times.bench`, and under `equal_lengths` the same with logs of at most `EQUAL`
        tokens; `{"skipped": why}` without the libraries.

    Raises:
        WorkbenchError: The process failed.
    """
    if importlib.util.find_spec("peft") is None:
        return {"skipped": "pip install 'conversation-workbench[train]'"}
    progress("training an adapter, and the same with a plain loop")
    base = TrainConfig(base=str(embedded_model()), batch=batch, max_tokens=LONGEST)
    end = time.monotonic() + seconds
    found = _measured(base, examples, most, seconds * LONGEST / (LONGEST + EQUAL))
    progress("the same on conversations of equal length")
    equal = replace(base, max_tokens=EQUAL, batch=batch * LONGEST // EQUAL)
    return {**found, "equal_lengths": _measured(equal, examples, most, end - time.monotonic())}


def _measured(config: TrainConfig, examples: int, most: int, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as folder:
        run = RunDirectory(Path(folder))
        config.save(run.config)
        items = [log_item(render_log(one.messages)) for one in sample_conversations(examples)]
        run.train.write_text(
            "".join(
                json.dumps({"id": str(number), **asdict(one)}) + "\n"
                for number, one in enumerate(items)
                if one.boundaries
            ),
            "utf-8",
        )
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.benchmarks.parts.training_times",
                folder,
                str(most),
                str(seconds),
            ],
            env=child_environment(),
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
        )
    if done.returncode:
        raise WorkbenchError(f"The bench of training failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
