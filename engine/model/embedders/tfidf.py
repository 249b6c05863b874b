"""The default embedder: TF-IDF of words and word pairs, reduced to few dimensions by latent semantic analysis.

A term is a word or a pair of words. TF-IDF weighs each term of a text by how often it is in the text and by how rare it
is among all texts (its rarity, the inverse document frequency). Counts are sublinear: 1 + log of the count. A truncated
singular value decomposition reduces the weights (Deerwester et al. 1990, Indexing by latent semantic analysis, JASIS
41) to positions on a few axes, each a mixture of terms. The embedder is fitted on the project's own texts and stored in
the project. Its state is not a pickle, because unpickling runs code and a project file may come from anybody.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from engine.base.errors import ModelError, UsageError
from engine.model.embedders.vectors import Floats, Vectors, unit_rows

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

DIMENSIONS = 32
"""Number of dimensions of a vector. With more, axes of single phrases outweigh axes of goals: k-means with the true k
on the user texts of 1,000 `star` and 300 `sgd` dialogues reached V-measures of .89 and .86 with 32 axes, .88 and .75
with 128."""

MAX_TERMS = 20_000
"""Most terms of the vocabulary, of which the most frequent ones are taken; with 32 dimensions the state is then about 3
MB."""

MAX_FIT_TEXTS = 100_000
"""Most texts to which TF-IDF is fitted; of more, a random sample is used."""

MAX_TEXT_CHARS = 8_000
"""Characters of a text that are read, which bounds the memory that one very long text takes."""

MIN_TEXTS_FOR_RARITY = 50
"""Number of texts from which on a term has to occur in two of them to count."""

MIN_AXIS_SIZE = 1e-5
"""Least size of an axis (its singular value), as a share of the largest; smaller ones are rounding errors."""

MAX_STATE_NUMBER = 1e6
"""Largest plausible number in a state."""

SAMPLE_SALT = 0x7466
"""Second part of the seed of the sample, so that it does not repeat other draws with the same seed; `tf` in ASCII."""

TEXTS_PER_BATCH = 4_096
"""Texts whose counts are in memory together."""

_SPACELESS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Ranges of the characters of scripts without spaces, for a regular expression."""

_TERM = rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])[^\W\d_]){{2,}}"
"""A word of at least two letters, or one character of a script without spaces, so that pairs of these are terms.
Numbers are left out: they identify a booking, not a goal."""

_find_words = re.compile(_TERM).findall
"""Returns the words of a lower-case text, in order."""

_NUMBER_BYTES = 4
"""Bytes of each number of a state, and of the length of its header."""

_MAGIC = b"WTFIDF1\n"
"""First bytes of a state."""


class _StateHeader(msgspec.Struct, frozen=True):
    """The JSON header of a state.

    Attributes:
        words: The terms, in the order of the rows of the axes.
        rank: Number of axes.
        dimensions, seed: The arguments with which the embedder was made.
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=200_000)]
    rank: Annotated[int, msgspec.Meta(ge=1, le=4_096)]
    dimensions: Annotated[int, msgspec.Meta(ge=1)]
    seed: Annotated[int, msgspec.Meta(ge=0)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits BLAS to one thread in this process until the block ends.

    For computations of a few seconds: their results then do not depend on the number of cores. BLAS threads also wait
    for each other by spinning: on two cores that other processes used too, a fit of 0.3 s took 12 s with two threads.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


class TfidfEmbedder:
    """Makes vectors of at most `dimensions` numbers, or of fewer if the rank of the TF-IDF matrix is lower."""

    kind = "tfidf"

    def __init__(self, *, dimensions: int = DIMENSIONS, seed: int = 0) -> None:
        """Prepares an embedder that has to be fitted.

        Args:
            dimensions: Most numbers in a vector.
            seed: Seed of the sample and of the decomposition.
        """
        self._dimensions = dimensions
        self._seed = seed
        self._words: list[str] = []
        self._rarity: Floats = np.zeros(0, dtype=np.float32)
        self._axes: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._columns: dict[str, int] = {}
        self._fingerprint = ""

    @property
    def recipe(self) -> str:
        """The dimensions and the seed."""
        return f"tfidf-1:{self._dimensions}:{self._seed}"

    @property
    def fitted(self) -> bool:
        """Whether the terms and the axes are known."""
        return bool(self._columns)

    @property
    def fingerprint(self) -> str:
        """The hash of the state; raises UsageError before `fit`."""
        if not self.fitted:
            raise UsageError("The TF-IDF embedder has not been fitted yet.")
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self._axes.shape[1])

    def fit(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary, the inverse document frequencies and the axes, from at most `MAX_FIT_TEXTS` texts.

        Raises:
            UsageError: No text has a word that is not a stop word.
        """
        if self.fitted:
            return
        from sklearn.utils.extmath import randomized_svd

        sample = _sample(texts, self._seed)
        self._words, counts = _learn_terms(sample)
        # For each term the number of texts that have it: `indices` has the term of each count that is not 0.
        text_counts = np.bincount(counts.indices, minlength=len(self._words))
        self._rarity = (np.log((1 + len(sample)) / (1 + text_counts)) + 1).astype(np.float32)
        weights = _weigh(counts, self._rarity)
        rank = min(self._dimensions, *weights.shape)
        with one_thread():
            _, sizes, axes = randomized_svd(weights, rank, n_iter=5, random_state=self._seed)
        significant = sizes > MIN_AXIS_SIZE * sizes[0]
        self._axes = np.ascontiguousarray(axes[significant].T, dtype=np.float32)
        self._finish_fit()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text, shape (texts, dimensions); zeros for one without a known word.

        Raises:
            UsageError: The embedder has not been fitted.
        """
        if not self.fitted:
            raise UsageError("The TF-IDF embedder has not been fitted yet.")
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), TEXTS_PER_BATCH):
            batch = [text[:MAX_TEXT_CHARS] for text in texts[start : start + TEXTS_PER_BATCH]]
            weights = _weigh(self._count_terms(batch), self._rarity)
            vectors[start : start + TEXTS_PER_BATCH] = unit_rows(weights @ self._axes)
        return vectors

    def state(self) -> bytes:
        """Returns words, inverse document frequencies and axes: a JSON header, then little-endian float32.

        Raises:
            UsageError: The embedder is not fitted yet.
        """
        if not self.fitted:
            raise UsageError("The TF-IDF embedder has not been fitted yet.")
        fields = {
            "words": self._words,
            "rank": self.dimensions,
            "dimensions": self._dimensions,
            "seed": self._seed,
        }
        header = json.dumps(fields, ensure_ascii=False).encode()
        return b"".join(
            (
                _MAGIC,
                struct.pack("<I", len(header)),
                header,
                self._rarity.astype("<f4").tobytes(),
                self._axes.astype("<f4").tobytes(),
            )
        )

    @classmethod
    def from_state(cls, state: bytes) -> TfidfEmbedder:
        """Makes the embedder whose `state` this is; it gives the same vectors bit for bit.

        Raises:
            ModelError: The state is not valid.
        """
        header, numbers = _parse_state(state)
        embedder = cls(dimensions=header.dimensions, seed=header.seed)
        count = len(header.words)
        embedder._words = list(header.words)
        embedder._rarity = numbers[:count].copy()
        embedder._axes = numbers[count:].reshape(count, header.rank).copy()
        embedder._finish_fit()
        return embedder

    def _count_terms(self, texts: Sequence[str]) -> Any:
        """Returns how often each text has each known term, a sparse matrix of shape (texts, terms).

        It counts as `term_counter` does, but without scikit-learn, which takes a second to import: the merge review
        opens with some hundred labels to embed.
        """
        from scipy.sparse import csr_matrix

        stop, columns_of = stop_words(), self._columns
        counts, columns, ends = array("f"), array("i"), [0]
        for text in texts:
            words = [word for word in _find_words(text.lower()) if word not in stop]
            terms = Counter((*words, *map(" ".join, pairwise(words))))
            known = sorted((columns_of[term], n) for term, n in terms.items() if term in columns_of)
            columns.extend(column for column, _ in known)
            counts.extend(count for _, count in known)
            ends.append(len(columns))
        return csr_matrix(
            (np.array(counts, np.float32), np.array(columns, np.int32), ends),
            shape=(len(texts), len(columns_of)),
        )

    def _finish_fit(self) -> None:
        """Sets the columns and the fingerprint, which follow from words, rarity and axes."""
        self._columns = {word: column for column, word in enumerate(self._words)}
        self._fingerprint = f"tfidf:{hashlib.sha256(self.state()).hexdigest()[:16]}"


def _sample(texts: Iterable[str], seed: int) -> list[str]:
    """Returns all texts, or a uniform random sample of `MAX_FIT_TEXTS` of them in one pass (reservoir sampling, Vitter
    1985, algorithm R)."""
    rng = np.random.default_rng([seed, SAMPLE_SALT])
    sample: list[str] = []
    for index, text in enumerate(texts):
        if index < MAX_FIT_TEXTS:
            sample.append(text[:MAX_TEXT_CHARS])
        elif (replaced := int(rng.integers(index + 1))) < MAX_FIT_TEXTS:
            sample[replaced] = text[:MAX_TEXT_CHARS]
    return sample


def _learn_terms(texts: Sequence[str]) -> tuple[list[str], Any]:
    """Returns the terms of texts, and how often each text has each term, a sparse matrix of shape (texts, terms).

    Raises:
        UsageError: No text has a word that is not a stop word.
    """
    for min_texts in (2 if len(texts) >= MIN_TEXTS_FOR_RARITY else 1, 1):
        counter = term_counter(min_texts=min_texts)
        with suppress(ValueError):  # no term is in so many texts
            counts = counter.fit_transform(texts)
            return [str(word) for word in counter.get_feature_names_out()], counts
    raise UsageError(
        "No text has words to compare.", "Look at the texts, or choose another embedder."
    )


@cache
def stop_words() -> frozenset[str]:
    """Returns English words that say nothing of a goal, and parts of contractions such as `I've`: those of scikit-learn
    1.9, after the Information Retrieval Group of Glasgow, in a file of ours, so that terms do not change with it."""
    return frozenset(Path(__file__).with_name("stop_words.txt").read_text("utf-8").split())


def term_counter(*, min_texts: int = 1, max_words: int = 2) -> CountVectorizer:
    """Makes a counter of the terms of texts, without stop words, which learns its terms when it is fitted.

    Args:
        min_texts: Number of texts in which a term has to occur to become a dimension.
        max_words: Most words in a term.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(
        token_pattern=_TERM,
        stop_words=sorted(stop_words()),
        ngram_range=(1, max_words),
        min_df=min_texts,
        max_features=MAX_TERMS,
        dtype=np.float32,
    )


def _weigh(counts: Any, rarity: Floats) -> Any:
    """Returns sublinear counts times inverse document frequency, in rows of length 1.

    Args:
        counts: Sparse matrix of shape (texts, words), which is changed: `data` has its numbers that are not 0, row by
            row, `indices` their columns, `indptr` where in `data` each row begins.
        rarity: Inverse document frequencies, shape (words,).
    """
    counts.data = (1 + np.log(counts.data)) * rarity[counts.indices]
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    # Each number is divided by the length of its row; a row without numbers has length 0.
    counts.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(counts.indptr)).astype(np.float32)
    return counts


def _parse_state(state: bytes) -> tuple[_StateHeader, Floats]:
    """Returns the header of a state and its numbers, shape (words * (1 + rank),).

    Raises:
        ModelError: A field is not valid.
    """
    start = len(_MAGIC) + _NUMBER_BYTES
    if not state.startswith(_MAGIC) or len(state) < start:
        raise _damaged("it does not begin as one")
    (size,) = struct.unpack("<I", state[len(_MAGIC) : start])
    try:
        header = msgspec.json.decode(state[start : start + size], type=_StateHeader)
    except ValueError as error:
        raise _damaged(f"its header is none ({error})") from error
    if len(set(header.words)) != len(header.words) or header.rank > header.dimensions:
        raise _damaged("its header is impossible")
    body = memoryview(state)[start + size :]
    if len(body) != _NUMBER_BYTES * len(header.words) * (1 + header.rank):
        raise _damaged("its length differs from its header")
    numbers = np.frombuffer(body, dtype="<f4").astype(np.float32)
    if not np.isfinite(numbers).all() or np.abs(numbers).max() > MAX_STATE_NUMBER:
        raise _damaged("it has numbers that are not finite")
    return header, numbers


def _damaged(why: str) -> ModelError:
    """Returns the error for a state that is not valid."""
    return ModelError(
        f"The stored TF-IDF embedder is damaged: {why}.", "Run `workbench run cluster` again."
    )
