"""What keeps tests apart from the person who runs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault(
    "OMP_WAIT_POLICY", "passive"
)  # as in the model process, and before llama.cpp is loaded


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test, and every process that it starts, has an empty home, data and cache folder of its own."""
    home: Path = tmp_path_factory.mktemp("home")
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("WORKBENCH_DATA", str(home / "data"))
    monkeypatch.setenv("WORKBENCH_CACHE", str(home / "cache"))
