"""Weights that the stages can run on quickly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.stages import scored


@pytest.fixture(scope="session", autouse=True)
def weights(quick_weights: Path) -> Iterator[None]:
    """The stages here, and those of programs started here, run on the shipped weights in Q8_0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(quick_weights))
        yield
