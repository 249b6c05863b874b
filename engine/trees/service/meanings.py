"""Groups the answers of a tree by meaning, with the best comparison of texts that is installed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

from engine.base.errors import UsageError
from engine.model.embedders.embedder import embedder_for
from engine.trees.meaning import Meanings, Vectors, letter_vectors, meanings
from engine.trees.measures import Answer, answers
from engine.trees.tree import Tree

KEPT = 4
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


class AnswerMeanings:
    """Groups the answers of trees by meaning. Thread-safe."""

    def __init__(self, comparison: Callable[[], TextComparison] = best_comparison) -> None:
        self._comparison = comparison
        self._kept: OrderedDict[tuple[str, ...], Vectors] = OrderedDict()
        self._guard = Lock()

    @property
    def by(self) -> str:
        """Name of the comparison, in a few words."""
        return self._comparison().name

    def of(self, tree: Tree, threshold: float) -> tuple[list[Answer], Meanings]:
        """Returns the answers of a tree, most probable first, and their groups.

        Raises:
            UsageError: The threshold is not in (0, 1].
        """
        if not 0 < threshold <= 1:
            raise UsageError(f"{threshold:g} is no similarity.", "Take one above 0, at most 1.")
        found = answers(tree)
        return found, meanings(tree, found, self._vectors(found), threshold)

    def _vectors(self, found: Sequence[Answer]) -> Vectors:
        texts = tuple(answer.text for answer in found)
        with self._guard:
            if texts not in self._kept:
                self._kept[texts] = self._comparison().vectors(texts)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(texts)
            return self._kept[texts]
