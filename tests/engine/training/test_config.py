"""The config of a training run is read, or refused with the field that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.training.config import VERSION, ConfigError, TrainConfig


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"epochs": 10**400}, "epochs: Number out of range"),
        ({"batch": 2**63}, "batch: Expected `int` <="),
        ({"epochs": "3"}, "epochs: Expected `float`, got `str`"),
        ({"ranks": 4}, "unknown field `ranks`"),
    ],
)
def test_refused(tmp_path: Path, field: dict[str, object], says: str) -> None:
    """A number that no arithmetic can hold, another type and an unknown name are refused."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"version": VERSION, "base": "model", **field}))
    with pytest.raises(ConfigError, match=says):
        TrainConfig.load(file)
