"""`workbench models` with adapters, on the real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.model.adapter_files import AdapterOrigin, base_fingerprint
from engine.model.catalog import DEFAULT_MODEL, embedded_model
from engine.model.gguf_file import read_gguf
from engine.project.project import Project
from tests.command_line import data, workbench
from tests.engine.model.small_adapters import adapter_file
from tests.engine.model.tiny import write_sliding
from tests.engine.project.support import fill, talk


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a training run on the default model, with adapter and card."""
    folder = tmp_path / "p.training" / "first run"
    folder.mkdir(parents=True)
    origin = AdapterOrigin(
        base_fingerprint(read_gguf(embedded_model())) or "", DEFAULT_MODEL, "sha256:1", "boundary"
    )
    adapter_file(folder / "adapter.gguf", origin=origin)
    (folder / "card.json").write_text(json.dumps({"auroc": 0.9314}))
    return folder


class TestAdding:
    def test_a_run(self, run: Path) -> None:
        """The adapter of a run is loaded on its base, then added, and listed with its training facts."""
        added = workbench("models", "add", run, "--json")
        assert added.returncode == 0, added.stderr.decode()
        assert f"An adapter for {DEFAULT_MODEL}" in added.stderr.decode()
        (one,) = data(added)["models"]
        assert (one["name"], one["kind"]) == ("first run", "adapter")
        assert one["note"].startswith(f"for {DEFAULT_MODEL}, recipe boundary, AUROC 0.931")

        listed = workbench("models", "list").stdout.decode()
        (line,) = [line for line in listed.splitlines() if line.startswith("first run")]
        assert f"adapter for {DEFAULT_MODEL}, recipe boundary, AUROC 0.931" in line

    def test_what_a_file_says_is_made_safe(self, tmp_path: Path) -> None:
        """Control bytes in an adapter's metadata do not reach the terminal."""
        origin = AdapterOrigin("n1:0000", "big\x1b[2J\x9b1m")
        added = workbench("models", "add", adapter_file(tmp_path / "a.gguf", origin=origin))
        assert added.returncode == 0
        assert b"big" in added.stdout
        assert b"\x1b" not in added.stdout + added.stderr
        assert "\x9b" not in (added.stdout + added.stderr).decode()


class TestUsing:
    def test_refused_for_another_base(self, run: Path, tmp_path: Path) -> None:
        """Scoring another model with a run's adapter fails with the names of both."""
        project, other = tmp_path / "p.wb", write_sliding(tmp_path / "other.gguf")
        with Project.open(project, create=True) as opened:
            fill(opened, [talk("a", "hi", "hello")])
        done = workbench(
            "run", "complete", project, "--model", other, "--adapter", run, "--no-tune"
        )
        assert done.returncode == 1
        assert "adapter.gguf is not an adapter for other.gguf" in done.stderr.decode()
