"""What answers of two models on the same questions are worth, with intervals over the questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score, v_measure_score

from engine.goals.clusters.clustering import cluster
from engine.goals.embedders.embedder import embedder_for
from engine.goals.embedders.vectors import Indices, Numbers
from engine.records.interval import Interval
from engine.validate.statistics.ranking import placements

DRAWS = 300
SEED = 20_240_917
RUNS = 3
"""Repetitions of k-means, whose figures are averaged."""

_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    ["a", "an", "and", "assistant", "for", "has", "in", "of", "still", "the", "their", "them", "to", "user"]
)  # fmt: skip
"""Small words, and those of the prompts."""

Answer = tuple[float, float]
"""Probabilities of the yes: the pair as given, and the other way round."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of the untuned and of the tuned model, and the difference, each with a 95% interval."""

    name: str
    n: int
    untuned: Interval
    tuned: Interval
    gain: Interval


def compared(
    name: str, n: int, untuned: Callable[[Indices], float], tuned: Callable[[Indices], float]
) -> Compared:
    """Both figures, with intervals from the same random halves of the questions.

    Halves are drawn without replacement, as in `engine.validate.statistics.partitions`: what stands twice in a draw would pass for
    agreement.

    Args:
        untuned, tuned: The figure over some of the questions, given by number; not a number where they do not have it.
    """
    rng = np.random.default_rng(SEED)
    every = np.arange(n, dtype=np.int64)
    halves = [np.sort(rng.permutation(every)[: max(1, n // 2)]) for _ in range(DRAWS)]
    first = np.array([untuned(half) for half in halves])
    second = np.array([tuned(half) for half in halves])
    seen = untuned(every), tuned(every)
    return Compared(
        name,
        n,
        _interval(seen[0], first),
        _interval(seen[1], second),
        _interval(seen[1] - seen[0], second - first),
    )


def merge_figures(
    name: str, untuned: Sequence[Answer], tuned: Sequence[Answer], same: Sequence[bool]
) -> list[Compared]:
    """AUROC of the mean of both orders and of one order alone, and how far the orders differ on average."""

    def areas(values: Sequence[float]) -> Callable[[Indices], float]:
        def area(rows: Indices) -> float:
            kinds = [same[at] for at in rows]
            if len(set(kinds)) < 2:
                return float("nan")
            return placements([values[at] for at in rows], kinds).area

        return area

    def bias(answers: Sequence[Answer]) -> Callable[[Indices], float]:
        apart = np.array([abs(first - second) for first, second in answers])
        return lambda rows: float(apart[rows].mean())

    n = len(same)
    both = [[(first + second) / 2 for first, second in each] for each in (untuned, tuned)]
    one = [[first for first, _ in each] for each in (untuned, tuned)]
    return [
        compared(f"{name}: merge, AUROC of both orders", n, areas(both[0]), areas(both[1])),
        compared(f"{name}: merge, AUROC of one order", n, areas(one[0]), areas(one[1])),
        compared(f"{name}: merge, orders apart", n, bias(untuned), bias(tuned)),
    ]


def summary_figures(
    name: str,
    gold: Sequence[str],
    first: Sequence[str],
    second: Sequence[str],
    embedder: str = "tfidf",
) -> list[Compared]:
    """V-measure and adjusted Rand index of k-means with the gold number of clusters on two lists of texts.

    Args:
        embedder: Name of what makes vectors of the texts.
    """
    goals = sorted(set(gold))
    truth = np.array([goals.index(goal) for goal in gold], dtype=np.int32)
    parts = [_partitions(texts, len(goals), embedder) for texts in (first, second)]

    rows: list[Compared] = []
    for word, which in (("V", "v"), ("ARI", "ari")):
        figures = [_mean_of(which, truth, runs) for runs in parts]
        rows.append(compared(f"{name}: summaries, {embedder}, {word}", len(gold), *figures))
    return rows


def _mean_of(which: str, truth: Numbers, runs: Sequence[Numbers]) -> Callable[[Indices], float]:
    measure = v_measure_score if which == "v" else adjusted_rand_score

    def mean(rows: Indices) -> float:
        return float(np.mean([measure(truth[rows], labels[rows]) for labels in runs]))

    return mean


def remaining_figures(
    wanted: Sequence[str], untuned: Sequence[str], tuned: Sequence[str]
) -> Compared:
    """Mean F1 of the words of the remaining tasks."""
    scores = [
        np.array([word_f1(text, right) for text, right in zip(texts, wanted, strict=True)])
        for texts in (untuned, tuned)
    ]
    return compared(
        "samples: remaining tasks, word F1",
        len(wanted),
        lambda rows: float(scores[0][rows].mean()),
        lambda rows: float(scores[1][rows].mean()),
    )


def word_f1(text: str, wanted: str) -> float:
    """F1 of the words that both have, each as often as it stands there; small words do not count."""
    said, right = _words(text), _words(wanted)
    shared = (said & right).total()
    return 2 * shared / (said.total() + right.total()) if shared else 0.0


def table(rows: Sequence[Compared], before: str = "untuned", after: str = "tuned") -> str:
    """The figures in Markdown."""
    lines = [f"| figure | n | {before} | {after} | gain |", "|---|--:|---|---|---|"]
    for row in rows:
        cells = " | ".join(map(_told, (row.untuned, row.tuned)))
        gain = f"{row.gain.value:+.2f} ({row.gain.low:+.2f} to {row.gain.high:+.2f})"
        lines.append(f"| {row.name} | {row.n} | {cells} | {gain} |")
    return "\n".join(lines)


def _partitions(texts: Sequence[str], k: int, kind: str) -> list[Numbers]:
    embedder = embedder_for(kind)
    embedder.fit(texts)
    vectors = embedder.embed(texts)
    return [cluster(vectors, k, seed, cut=None).labels for seed in range(RUNS)]


def _words(text: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(text.lower()) if word not in _STOP)


def _interval(seen: float, drawn: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    low, high = np.nanpercentile(drawn - np.nanmean(drawn), (2.5, 97.5))
    return Interval(seen, seen + float(low), seen + float(high))


def _told(one: Interval) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"
