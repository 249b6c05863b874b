"""When a run measures the speed of its model again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engine.completeness import conversation_logs as logs
from engine.completeness.conversation_logs import MIN_CONVERSATIONS_TO_MEASURE, noise_of
from engine.model.catalog import LoadableModel
from engine.model.interface import LoadOptions
from engine.model.process.requests import Measure
from engine.model.stages import ModelWork
from engine.project.project import Project

MODEL = LoadableModel("m", Path("m.gguf"), LoadOptions(), None, {}, noise=0.01, tokens_per_s=900.0)


class Work:
    """The work of a stage whose model reads 500 tokens a second."""

    def __init__(self, model: LoadableModel) -> None:
        self.model, self.process = model, self

    def ask(self, request: Measure) -> tuple[float, float]:
        return 500.0, 0.02


@pytest.mark.parametrize(
    ("model", "count", "busy", "measured"),
    [
        pytest.param(
            MODEL, MIN_CONVERSATIONS_TO_MEASURE, False, [(500.0, 0.01)], id="a longer run"
        ),
        pytest.param(MODEL, MIN_CONVERSATIONS_TO_MEASURE - 1, False, [], id="a short run"),
        pytest.param(MODEL, MIN_CONVERSATIONS_TO_MEASURE, True, [], id="a busy machine"),
        pytest.param(
            replace(MODEL, adapter=Path("a.gguf")),
            MIN_CONVERSATIONS_TO_MEASURE,
            False,
            [],
            id="an adapter",
        ),
        pytest.param(replace(MODEL, noise=None), 1, True, [(500.0, 0.02)], id="never measured"),
    ],
)
def test_what_is_measured(
    model: LoadableModel,
    count: int,
    busy: bool,
    measured: list[tuple[float, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A longer run without an adapter measures the speed again on an idle machine, and keeps the noise that is known;
    what was never measured is measured always."""
    monkeypatch.setattr(logs, "busy", lambda cores: busy)
    monkeypatch.setattr(logs, "logs_of", lambda project, ids: [])
    found: list[tuple[float, float]] = []
    work: Any = Work(model)
    noise = noise_of(
        cast(Project, None),
        cast(ModelWork, work),
        range(count),
        lambda model, speed, noise: found.append((speed, noise)),
    )
    assert found == measured
    assert noise == (0.02 if model.noise is None else 0.01)
