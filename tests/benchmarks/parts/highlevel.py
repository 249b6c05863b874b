"""The high-level interface of llama-cpp-python as a baseline for benchmarks: one sequence, one prompt after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from engine.model.interface import Logits


class HighLevel:
    """Weights in a `llama_cpp.Llama` of their own."""

    def __init__(self, path: Path, context: int, batch: int, threads: int | None) -> None:
        self._llama = llama_cpp.Llama(
            str(path), n_ctx=context, n_batch=batch, n_ubatch=batch, n_threads=threads,
            n_threads_batch=threads, verbose=False,
        )  # fmt: skip

    def prompt(self, tokens: Sequence[int]) -> Logits:
        """Reads a prompt from an empty cache; the logits after it, shape (vocabulary,)."""
        self._llama.reset()
        return self.go_on(tokens)

    def go_on(self, tokens: Sequence[int]) -> Logits:
        """Reads more tokens after what was read; the logits after them."""
        self._llama.eval(tokens)
        pointer = llama_cpp.llama_get_logits_ith(self._llama.ctx, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._llama.n_vocab(),))

    def close(self) -> None:
        """Frees the weights."""
        self._llama.close()
