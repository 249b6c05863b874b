"""The likelihood ratio of two clusters: how much better a model predicts the texts of one after those of the other.

A model that is too small to answer whether two lists have the same goal still continues a list with similar texts, so
the gain in log-probability measures how similar they are. For a text b of B, read after a list of A's and after a mixed
list:

    gain(A -> B) = mean over b of (log p(b | A's) - log p(b | mixed)) / tokens(b)
    likelihood ratio of A and B = (gain(A -> B) + gain(B -> A)) / 2, in nats a token

Each text is read on its own, right after the list: after nine others of B the tenth would gain nothing from A. The
mixed list of a cluster is drawn once from all others, so it is read once for each cluster and not for each pair.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from engine.goals.questions.asker import Asker, LogProb
from engine.goals.questions.questions import clipped

TEXT_CHARS = 160

_Key = TypeVar("_Key", bound=Hashable)


def list_prefix(texts: Sequence[str]) -> str:
    """The beginning of a list, for a model to continue."""
    return "".join(f"- {clipped(text, TEXT_CHARS)}\n" for text in texts) + "-"


def continuation(text: str) -> str:
    """A text as the next item of a list."""
    return f" {clipped(text, TEXT_CHARS)}\n"


def read_mixed(
    asker: Asker, mixed: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[LogProb]]:
    """Reads the texts of each cluster after its mixed list.

    Args:
        mixed: For each cluster, texts drawn from the others.
        texts: For each cluster, the texts that stand for it.
    """
    return _read(asker, {key: (mixed[key], chosen) for key, chosen in texts.items()})


def likelihood_ratios(
    asker: Asker,
    pairs: Sequence[tuple[str, str]],
    texts: Mapping[str, Sequence[str]],
    after_mixed: Mapping[str, Sequence[LogProb]],
) -> list[float]:
    """The likelihood ratio of each pair, nats a token.

    Args:
        texts: For each cluster, the texts that stand for it; equal to those given to `read_mixed`.
        after_mixed: From `read_mixed`.
    """
    ways = [way for a, b in pairs for way in ((a, b), (b, a))]
    read = _read(asker, {way: (texts[way[0]], texts[way[1]]) for way in ways})
    gains = {way: _gain(found, after_mixed[way[1]]) for way, found in read.items()}
    return [(gains[a, b] + gains[b, a]) / 2 for a, b in pairs]


def _read(
    asker: Asker, wanted: Mapping[_Key, tuple[Sequence[str], Sequence[str]]]
) -> dict[_Key, list[LogProb]]:
    """Reads texts after a list, for each key (list, texts)."""
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
