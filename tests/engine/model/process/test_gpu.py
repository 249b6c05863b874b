"""The number of layers on a GPU, by the memory that its driver reports; drivers are scripts here."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.memory_plan import GPU_OVERHEAD, first_gpu, plan_layers, with_layers_that_fit


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the driver with a script, or removes it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "nvidia-smi"


def says(driver: Path, script: str) -> None:
    """Makes the driver print this."""
    driver.write_text(f"#!/bin/sh\n{script}\n")
    driver.chmod(0o755)


class TestDriver:
    def test_first_of_two(self, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first GPU that is not hidden is used; a comma in its name is part of the name."""
        says(driver, 'echo "NVIDIA H200, 141GB, 143000"; echo "other, 5"')
        assert first_gpu() == ("NVIDIA H200, 141GB", 143000 << 20)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
        assert first_gpu() == ("other", 5 << 20)


class TestLayers:
    def test_some(self, driver: Path, shipped: Path) -> None:
        """Otherwise as many layers are on the GPU as the plan says."""
        free = GPU_OVERHEAD + (250 << 20)
        says(driver, f"echo 'gpu, {free >> 20}'")
        found = with_layers_that_fit(shipped, LoadOptions()).gpu_layers
        assert found == plan_layers(read_gguf(shipped), free).layers
        assert 0 < found < 31
