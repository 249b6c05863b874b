"""The interface of embedders, and how one is made from its name or from its stored state.

The embedder `mixed` concatenates MiniLM and TF-IDF: the meaning of a text, and the words that the goals of this project
differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from engine.base.errors import ModelError, NotFound, UsageError
from engine.model.embedders.sentence import MiniLmEmbedder
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import TextsToRows, Vectors, embed_in_batches, unit_rows


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
        from engine.model.embedders.sentence import MiniLmEmbedder

        return MiniLmEmbedder()
    if name == "mixed":
        return ConcatEmbedder(seed=seed)
    if name.startswith(("http://", "https://")):
        from engine.model.embedders.sentence import HttpEmbedder

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
