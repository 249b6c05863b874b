"""Groups answers of equal meaning and computes the semantic entropy: the model's uncertainty about meaning, not
wording.

Similarity is the cosine of text vectors, from an embedding model or else from `letter_vectors`.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import UsageError
from engine.model.embedders.embedder import embedder_for
from engine.trees.measures import Answer, answers, bits, mass_outside_leaves
from engine.trees.tree import Tree

Vectors = NDArray[np.float32]
"""Unit vectors, one of each text, shape (texts, dimensions)."""

SIMILARITY_ROUNDING = 1e-5
"""How far the similarity of a text with itself may fall short of 1 in single precision."""

LETTERS_PER_RUN = 3
"""Length of the runs of characters that `letter_vectors` counts."""

LETTER_DIMENSIONS = 4096
"""Dimensions of its vectors; runs with the same hash share one."""

MIN_VECTOR_LENGTH = 1e-12
"""Least length by which a vector is divided, so that the zeros of an empty text stay zeros."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Answers that mean the same.

    Attributes:
        answers: Places in the list of answers, most probable first; each is similar enough to the first one.
        probability: Of all of them.
    """

    answers: tuple[int, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class Meanings:
    """All answers of a tree by meaning.

    Attributes:
        groups: Most probable first; every answer is in one.
        entropy: Bits of the distribution over the groups, normalized to sum to 1: the semantic entropy of Kuhn et al.
            (2023) as Farquhar et al. (2024) estimate it, with the tree's leaves in place of samples.
        entropy_low: Lower bound of the bits over all meanings: all mass outside the leaves counts to the most probable
            group.
        entropy_high: The bits when each pruned child and each unread node has a meaning of its own. A leaf that was
            cut counts with the meaning of its text so far.
    """

    groups: tuple[Meaning, ...]
    entropy: float
    entropy_low: float
    entropy_high: float


def meanings(tree: Tree, answers: Sequence[Answer], vectors: Vectors, threshold: float) -> Meanings:
    """Returns the answers of a tree grouped by meaning.

    Args:
        answers: Most probable first, as `engine.trees.measures.answers` gives them.
        vectors: Their unit vectors, shape (answers, dimensions); a row of zeros is similar to no other.
        threshold: Cosine similarity from which on two texts mean the same, in (0, 1].

    Raises:
        ValueError: The threshold is not in (0, 1], or there is not one vector for each answer.
    """
    if not 0 < threshold <= 1 or len(vectors) != len(answers):
        raise ValueError(f"{len(vectors)} vectors of {len(answers)} answers, threshold {threshold}")
    groups = [
        Meaning(tuple(group), math.fsum(answers[index].probability for index in group))
        for group in _groups(vectors, threshold)
    ]
    groups.sort(key=lambda group: (-group.probability, group.answers))
    masses = [group.probability for group in groups]
    covered = math.fsum(masses)
    outside_mass, outside_entropy = mass_outside_leaves(tree)
    # Adding to the most probable group makes the distribution the most uneven one, so its entropy is the least.
    low_terms = [bits(min(1.0, mass + outside_mass)) for mass in masses[:1]]
    low_terms += map(bits, masses[1:])
    return Meanings(
        groups=tuple(groups),
        entropy=math.fsum(bits(mass / covered) for mass in masses),
        entropy_low=math.fsum(low_terms),
        entropy_high=math.fsum(map(bits, masses)) + outside_entropy,
    )


def _groups(vectors: Vectors, threshold: float) -> list[list[int]]:
    """Returns groups of indices of the rows of `vectors`, shape (answers, dimensions): each row joins the group whose
    first row is most similar to it, if similar enough; else it starts a group.

    Comparing with the first row, the most probable one, keeps a chain of small steps from joining opposites.
    """
    groups: list[list[int]] = []
    first_rows = np.empty_like(vectors)  # of each group
    for index, vector in enumerate(vectors):
        similarities = first_rows[: len(groups)] @ vector
        best = int(similarities.argmax()) if len(groups) else -1
        if best >= 0 and similarities[best] >= threshold - SIMILARITY_ROUNDING:
            groups[best].append(index)
        else:
            first_rows[len(groups)] = vector
            groups.append([index])
    return groups


def letter_vectors(texts: Sequence[str]) -> Vectors:
    """Returns unit vectors of how texts are spelled, shape (texts, 4096): runs of three characters, whatever the case.

    A run counts more the fewer of the texts have it, because answers of one tree begin alike. These vectors know
    wordings, not meanings: a negation or another number is a small difference to them. An empty text is zeros.
    """
    counts = [Counter(_run_buckets(text)) for text in texts]
    texts_with_bucket = Counter(bucket for text_counts in counts for bucket in text_counts)
    vectors = np.zeros((len(texts), LETTER_DIMENSIONS), dtype=np.float32)
    for row, text_counts in zip(vectors, counts, strict=True):
        for bucket, count in text_counts.items():
            rarity = 1 + math.log((1 + len(texts)) / (1 + texts_with_bucket[bucket]))
            # By the logarithm: a run that occurs twice counts more than one that occurs once, but not twice as much.
            row[bucket] = (1 + math.log(count)) * rarity
        row /= max(float(np.linalg.norm(row)), MIN_VECTOR_LENGTH)
    return vectors


def _run_buckets(text: str) -> list[int]:
    """Returns the dimensions that the runs of characters of a text are counted in, one for each run, by their hash."""
    words = " ".join(text.casefold().split())
    # Spaces at both ends, so that the first and the last letters make runs of their own.
    padded = f" {words} " if words else ""
    runs = (
        padded[start : start + LETTERS_PER_RUN]
        for start in range(len(padded) - LETTERS_PER_RUN + 1)
    )
    return [zlib.crc32(run.encode("utf-8", "surrogatepass")) % LETTER_DIMENSIONS for run in runs]


CACHED_ANSWERS = 4
"""Number of lists of answers whose vectors are cached, so that another threshold needs no new vectors."""


@dataclass(frozen=True, slots=True)
class TextComparison:
    """A way to compare texts: its name in words, and the function that makes unit vectors of texts."""

    name: str
    vectors: Callable[[Sequence[str]], Vectors]


@cache
def best_comparison() -> TextComparison:
    """Returns MiniLM when the extra `embed` is installed, else a comparison by spelling."""
    try:
        return TextComparison("all-MiniLM-L6-v2", embedder_for("minilm").embed)
    except UsageError:
        return TextComparison(
            "spelling, where 0.6 is alike: the extra `embed` is not there", letter_vectors
        )


@dataclass(frozen=True, slots=True)
class GroupedAnswers:
    """The answers of a tree, and their groups of equal meaning.

    Attributes:
        answers: The answers, most probable first; the groups of `meanings` name them by their index.
        by: Name of the comparison that was used, in a few words.
    """

    answers: list[Answer]
    meanings: Meanings
    by: str


class AnswerMeanings:
    """Groups the answers of trees by meaning. Thread-safe."""

    def __init__(self, comparison: Callable[[], TextComparison] = best_comparison) -> None:
        """Compares nothing yet; `comparison` is called only then, because an embedding model takes long to load."""
        self._comparison = comparison
        self._vector_cache: OrderedDict[tuple[str, ...], Vectors] = OrderedDict()
        self._guard = Lock()

    def of(self, tree: Tree, threshold: float) -> GroupedAnswers:
        """Returns the answers of a tree with their groups.

        Raises:
            UsageError: The threshold is not in (0, 1], or texts cannot be compared.
        """
        if not 0 < threshold <= 1:
            raise UsageError(f"{threshold:g} is no similarity.", "Take one above 0, at most 1.")
        tree_answers = answers(tree)
        vectors = self._vectors(tree_answers)
        groups = meanings(tree, tree_answers, vectors, threshold)
        return GroupedAnswers(tree_answers, groups, self._comparison().name)

    def _vectors(self, tree_answers: Sequence[Answer]) -> Vectors:
        """Returns the vectors of the answers' texts, from the cache where they are in it."""
        texts = tuple(answer.text for answer in tree_answers)
        with self._guard:
            if texts not in self._vector_cache:
                self._vector_cache[texts] = self._comparison().vectors(texts)
                while len(self._vector_cache) > CACHED_ANSWERS:
                    self._vector_cache.popitem(last=False)
            self._vector_cache.move_to_end(texts)
            return self._vector_cache[texts]
