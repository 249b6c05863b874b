"""Measures the speed of training, compared with a plain loop, in a process of its own that imports the libraries."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.completeness.block import log_item
from engine.conversation import render_log
from engine.errors import WorkbenchError
from engine.model.catalog import embedded_model
from engine.network_guard import child_environment
from engine.run_directory.config import TrainConfig
from engine.run_directory.events import RunDirectory
from engine.simulate.samples import sample_conversations

EXAMPLES, BATCH = 32, 8

EQUAL = 256
"""Token limit that makes the conversations equally long: most samples are longer."""


def bench_training(
    progress: Callable[[str], None], *, examples: int = EXAMPLES, batch: int = BATCH
) -> dict[str, Any]:
    """Trains an adapter for the default model on sample conversations for one epoch, in both loops.

    Returns:
        The figures of `training.bench.bench`, and under `equal_lengths` the same with logs of at most `EQUAL` tokens;
        `{"skipped": why}` without the libraries.

    Raises:
        WorkbenchError: The process failed.
    """
    if importlib.util.find_spec("peft") is None:
        return {"skipped": "pip install 'conversation-workbench[train]'"}
    progress("training an adapter, and the same with a plain loop")
    base = TrainConfig(base=str(embedded_model()), batch=batch)
    found = _measured(base, examples)
    progress("the same on conversations of equal length")
    return {**found, "equal_lengths": _measured(replace(base, max_tokens=EQUAL), examples)}


def _measured(config: TrainConfig, examples: int) -> dict[str, Any]:
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
            [sys.executable, "-m", "training.bench", folder],
            env=child_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise WorkbenchError(f"The bench of training failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
