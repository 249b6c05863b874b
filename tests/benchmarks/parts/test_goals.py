"""`tests.benchmarks.parts.goals` on few vectors: every figure is there with the right type; no size is asserted."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.parts.goals import TASKS
from tests.benchmarks.parts.runner import run


def test_figures(tmp_path: Path) -> None:
    """Every task has seconds and memory, clustering and search also their quality, beside the baselines."""
    notes: list[str] = []
    found = run(
        ["goals"], notes.append, data=tmp_path / "data", cache=tmp_path / "cache", quick=True
    )
    ((size, part),) = json.loads(json.dumps(found["goals"])).items()
    assert (size, part["rows"]) == ("300", 300)
    assert part["goals"] < part["k"] < part["dimensions"]
    for task in TASKS:
        assert part[task]["seconds"] > 0, task
        assert part[task]["peak_mb"] > 1, task
        assert any(task in note for note in notes), task
    for task in ("cluster", "sklearn"):
        assert 0 < part[task]["inertia"] < 1
        assert 0.5 < part[task]["v_measure"] < 1.001
        assert 0.5 < part[task]["homogeneity"] < 1.001
    assert part["propose_k"]["proposed"] > 1
    assert part["index"]["recall"] == 1
    assert part["speedup"] > 0
    assert part["search_speedup"] > 0
