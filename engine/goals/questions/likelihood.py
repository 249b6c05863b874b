"""The likelihood ratio of two clusters: how much better a model predicts the texts of one after those of the other.

A model that is too small to answer whether two lists have the same goal still predicts a text better after similar
texts, so the gain in log-probability measures the similarity of clusters A and B. For a text b of B, read after a list
of texts of A and after a mixed list:

    gain(A -> B) = mean over b of (log p(b | A's) - log p(b | mixed)) / tokens(b)
    likelihood ratio of A and B = (gain(A -> B) + gain(B -> A)) / 2, in nats per token

Each text of B is read alone after the list, because after other texts of B it would gain little from A. The mixed list
of a cluster is drawn once from all other clusters, so it is read once for each cluster and not for each pair.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from engine.goals.questions.asker import Asker, LogProb
from engine.goals.questions.questions import clipped

TEXT_CHARS = 160

_Key = TypeVar("_Key", bound=Hashable)


def list_prefix(texts: Sequence[str]) -> str:
    """The texts as a list that ends where the next item begins."""
    return "".join(f"- {clipped(text, TEXT_CHARS)}\n" for text in texts) + "-"


def continuation(text: str) -> str:
    """A text as the next item of a list."""
    return f" {clipped(text, TEXT_CHARS)}\n"


def read_mixed(
    asker: Asker, mixed: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[LogProb]]:
    """Log-probability of each text of each cluster after the mixed list of that cluster.

    Args:
        mixed: For each cluster, texts drawn from other clusters.
        texts: For each cluster, a sample of its texts.
    """
    return _read(asker, {key: (mixed[key], chosen) for key, chosen in texts.items()})


def likelihood_ratios(
    asker: Asker,
    pairs: Sequence[tuple[str, str]],
    texts: Mapping[str, Sequence[str]],
    after_mixed: Mapping[str, Sequence[LogProb]],
) -> list[float]:
    """The likelihood ratio of each pair, in nats per token.

    Args:
        texts: For each cluster, a sample of its texts, the same as in `read_mixed`.
        after_mixed: The result of `read_mixed`.
    """
    ways = [way for a, b in pairs for way in ((a, b), (b, a))]
    read = _read(asker, {way: (texts[way[0]], texts[way[1]]) for way in ways})
    gains = {way: _gain(found, after_mixed[way[1]]) for way, found in read.items()}
    return [(gains[a, b] + gains[b, a]) / 2 for a, b in pairs]


def _read(
    asker: Asker, wanted: Mapping[_Key, tuple[Sequence[str], Sequence[str]]]
) -> dict[_Key, list[LogProb]]:
    """Log-probability of each text after a list, for each key, whose value is (list, texts)."""
    pairs = [
        (list_prefix(before), continuation(text))
        for before, texts in wanted.values()
        for text in texts
    ]
    read = iter(asker.log_probs(None, pairs))
    return {key: [next(read) for _ in texts] for key, (_, texts) in wanted.items()}


def _gain(after: Sequence[LogProb], mixed: Sequence[LogProb]) -> float:
    gains = [(a.total - m.total) / a.tokens for a, m in zip(after, mixed, strict=True)]
    return sum(gains) / len(gains)
