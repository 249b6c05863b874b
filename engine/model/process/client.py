"""What can be asked of the model process: the requests of every `ModelClient`, and those on files and on itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.jobs.threaded_work import (
    OnProgress,
)
from engine.model.catalog import RunnableModel
from engine.model.interface import LoadOptions
from engine.model.process.model_client import (
    ModelClient,
)
from engine.model.process.process import WorkerProcess
from engine.model.process.requests import (
    Embed,
    Expand,
    Machine,
    Memory,
    ReadTokens,
    TokenDistribution,
    Tokenize,
    Tune,
)

__all__ = ["ModelProcess", "OnProgress"]


class ModelProcess(WorkerProcess, ModelClient):
    """The model process with a method for each request. Requests are answered one at a time; any thread may ask."""

    def client_for(self, model: RunnableModel) -> ModelClient:
        """The client for a model: this process."""
        return self

    def spent(self) -> str:
        """Nothing but time."""
        return ""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length embeddings, shape (texts, dimensions); the model must be loaded with `embedding`."""
        return self.ask(Embed(texts))

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts; control tokens in them are read as text, and none are put in front."""
        return self.ask(Tokenize(texts))

    def read_tokens(
        self,
        items: Sequence[Sequence[int]],
        also: Sequence[int] = (),
        progress: OnProgress | None = None,
    ) -> list[list[TokenDistribution]]:
        """The distribution of the next token after every token of texts, each read on its own.

        Args:
            items: Token ids.
            also: Tokens whose log-probability is wanted everywhere.
        """
        return self.ask(ReadTokens(items, also), progress)

    def expand(self, path: Path, target: Path) -> None:
        """Writes the weights of a GGUF file in F32; see `engine.model.tuning.expand`."""
        self.ask(Expand(path, target))

    def tune(
        self, path: Path, folder: Path, text: str, progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Finds the fastest faithful format and thread count; see `engine.model.tuning.tune`."""
        return self.ask(Tune(path, folder, text), progress)

    def memory(self, path: Path, options: LoadOptions) -> dict[str, Any]:
        """Bytes that loading a model will take: `weights`, `cache`, and what is `available` (None if unknown)."""
        return self.ask(Memory(path, options))

    def machine(self) -> dict[str, Any]:
        """`system`: llama.cpp's line about the CPU; `gpu_offload`: whether it can use a GPU."""
        return self.ask(Machine())
