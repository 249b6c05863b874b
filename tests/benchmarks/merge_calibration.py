"""How far merge probabilities can be trusted: `python -m tests.benchmarks.merge_calibration FILE ...`.

Files as for `goal_quality`. A person who knows the gold goals decides in the order of the desk, and the merge
probability is refitted after each decision. It is judged on all pairs of the clusters as they were before any decision,
so that the figures of a row are about the same pairs; a pair is the same where the commonest goals of both sides agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.kmeans import propose_k
from engine.goals.merges.merge_probability import Floats
from engine.model.embedders.embedder import embedder_for
from tests.benchmarks.goal_board import Board, desk_steps, same_goal
from tests.benchmarks.goal_quality import DECISIONS, TEXTS, read, text_of

EARLY = 6
"""Decisions within which the number of pairs to merge is looked at after each."""
EDGES = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each file and text, the reliability before any decision, and how the number to merge moves."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.merge_calibration")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD")
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=["all", "all-user"])
    parser.add_argument("--embedder", default="tfidf")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print("Brier score, log loss after decisions:\n")
    print(
        "| data | text | pairs | same |",
        " | ".join(map(str, DECISIONS)),
        "| to merge, after 0 to 6 |",
    )
    print("|---|---|--:|--:|" + "---|" * (len(DECISIONS) + 1))
    untaught: list[Floats] = []
    truth: list[Floats] = []
    moved: list[float] = []
    for file in options.files:
        name, records = read(file, options.only)
        goals = sorted({record["truth"]["goal"] for record in records})
        gold = np.array([goals.index(r["truth"]["goal"]) for r in records], dtype=np.int32)
        shown = [text_of(record, "all-user") for record in records]
        for text in options.text:
            texts = [text_of(record, text) for record in records]
            embedder = embedder_for(options.embedder)
            embedder.fit(texts)
            vectors = embedder.embed(texts)
            clusters = cluster(vectors, propose_k(vectors, options.seed), options.seed)
            board = Board(vectors, clusters, shown, embedder)
            a, b = board.pairs()
            features, same = board.features(a, b), same_goal(board, gold, a, b)
            figures: dict[int, str] = {}
            expected: list[float] = []
            for count, now, model in desk_steps(board, gold, "informative", max(DECISIONS)):
                if count in DECISIONS:
                    p = model.probabilities(features)
                    brier = brier_score_loss(same, p, pos_label=True)
                    loss = log_loss(same, p, labels=[False, True])
                    figures[count] = f"{brier:.3f}, {loss:.2f}"
                    if not count:
                        untaught.append(p)
                        truth.append(same.astype(float))
                left = now.pairs()
                if count <= EARLY and len(left[0]):
                    expected.append(float(model.probabilities(now.features(*left)).sum()))
            moved += [abs(np.log((y + 1) / (x + 1))) for x, y in pairwise(expected)]
            cells = " | ".join(figures[n] for n in DECISIONS)
            counts = ", ".join(f"{n:.0f}" for n in expected)
            print(
                f"| {name} {len(records)} | {text} | {len(a):,} | {int(same.sum()):,} | {cells} | {counts} |",
                flush=True,
            )
    print("\nBefore any decision:\n\n| probability | pairs | mean | same |\n|---|--:|--:|--:|")
    p, same = np.concatenate(untaught), np.concatenate(truth)
    for low, high in pairwise(EDGES):
        inside = (p >= low) & (p < high)
        if inside.any():
            print(
                f"| {low} to {high} | {inside.sum():,} | {p[inside].mean():.3f} | {same[inside].mean():.3f} |"
            )
    logs = np.array(moved, dtype=np.float64)
    factors = np.exp([logs.mean(), np.quantile(logs, 0.9), logs.max()])
    print(
        "\nOne answer moves the number to merge by a factor of {:.2f} (mean), {:.2f} (90%), {:.2f} (most).".format(
            *factors
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
