"""How good clusters of goals are against gold goals: `python -m tests.benchmarks.goal_quality FILE ...`.

Files are JSON Lines in the uniform form with `truth.goal`, plain or gzip, each with an optional number of conversations
to draw: `star.jsonl.gz:1000`. No model is asked: this is what vectors alone reach.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, v_measure_score

from engine.base.conversation import Message
from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.kmeans import propose_k
from engine.goals.clusters.neighbors import SETTLE_NEIGHBORS, Neighbors, settle
from engine.goals.tables.texts import FAILURE_SIGNS, MIN_FAILED, failed_messages, without_failures
from engine.model.embedders.embedder import Embedder, embedder_for
from engine.model.embedders.vectors import Numbers, Vectors
from engine.signs.reading import read_signs
from tests.benchmarks.goal_board import Board, every_threshold, merged

TEXTS = ("all", "all-user", "first-user")


@dataclass(frozen=True, slots=True)
class Agreed:
    """V-measure (with the arithmetic mean it is the normalized mutual information) and adjusted Rand index."""

    v: float
    ari: float
    groups: int

    @classmethod
    def of(cls, gold: Numbers, labels: Numbers) -> Agreed:
        """Outliers count as a group of their own."""
        return cls(
            float(v_measure_score(gold, labels)),
            float(adjusted_rand_score(gold, labels)),
            len(np.unique(labels[labels >= 0])),
        )

    @property
    def both(self) -> float:
        """What the best threshold in hindsight is chosen by."""
        return self.v + self.ari


@dataclass(frozen=True, slots=True)
class Measured:
    """One clustering.

    Attributes:
        plain: k-means with the gold number of clusters.
        before, after, hindsight: With k1 clusters, merged automatically, and merged to the best threshold there is.
        settled: Merged automatically, and each conversation beside most of its neighbors.
        labels: Those of `settled`.
    """

    plain: Agreed
    before: Agreed
    after: Agreed
    settled: Agreed
    hindsight: Agreed
    labels: Numbers


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.goal_quality")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD",
                        help="keep what has this field of `truth` true, where any has it")  # fmt: skip
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--embedder", nargs="+", default=["tfidf", "minilm"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--k1", type=int, help="clusters before merging; default: proposed")
    options = parser.parse_args(arguments)
    print("| data | text | embedder | k-means, gold k | k1 | before merging | merged | settled | groups |"
          " best threshold | ARI between runs |")  # fmt: skip
    print("|---|---|---|---|--:|---|---|---|--:|---|--:|")
    for file in options.files:
        name, records = read(file, options.only)
        goals = sorted({record["truth"]["goal"] for record in records})
        gold = np.array([goals.index(r["truth"]["goal"]) for r in records], dtype=np.int32)
        for text in options.text:
            texts = [text_of(record, text) for record in records]
            # as in the program, where models and people are shown the user of both sides
            shown = [text_of(record, "all-user" if text == "all" else text) for record in records]
            for kind in options.embedder:
                embedder = embedder_for(kind)
                embedder.fit(texts)
                vectors = embedder.embed(texts)
                runs = [
                    measure(vectors, shown, gold, embedder, seed, options.k1)
                    for seed in range(options.seeds)
                ]
                print(f"| {name} | {text} | {kind} |", _line(runs), flush=True)
    return 0


def measure(
    vectors: Vectors, texts: Sequence[str], gold: Numbers, embedder: Embedder, seed: int,
    k1: int | None,
) -> Measured:  # fmt: skip
    """Clusters, merges and judges with one seed."""
    goals = int(gold.max()) + 1
    plain = cluster(vectors, goals, seed, cut=None)
    clusters = cluster(vectors, k1 or propose_k(vectors, seed), seed)
    board = Board(vectors, clusters, seed, texts, embedder)
    after = merged(board)
    near = Neighbors(vectors).of_rows(np.arange(len(vectors)), SETTLE_NEIGHBORS)
    at_last = settle(near, after, np.zeros(len(after), dtype=np.bool_))
    hindsight = max((Agreed.of(gold, one) for one in every_threshold(board)), key=lambda a: a.both)
    return Measured(
        Agreed.of(gold, plain.labels), Agreed.of(gold, clusters.labels), Agreed.of(gold, after),
        Agreed.of(gold, at_last), hindsight, at_last,
    )  # fmt: skip


def read(file: str, only: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
    """Conversations of a file with a goal, and its name without suffix; `:N` draws N of them, seeded."""
    path, _, count = file.partition(":")
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    records = [record for record in records if (record.get("truth") or {}).get("goal")]
    for field in only:
        if any(field in record["truth"] for record in records):
            records = [record for record in records if record["truth"].get(field)]
    if count:
        records = random.Random(0).sample(records, min(int(count), len(records)))
    return Path(path).name.split(".")[0], records


def text_of(record: dict[str, Any], text: str) -> str:
    """The first message of the user, all of them, or what both sides wrote but for failures (`MIN_FAILED`), one
    message a line."""
    roles = ("user", "assistant") if text == "all" else ("user",)
    messages = [Message(m["role"], m.get("content") or "") for m in record["messages"]]
    signs = (sign for sign in read_signs(messages) if sign.sign in FAILURE_SIGNS)
    listed = {str(sign.sign): sign.messages for sign in signs if sign.value >= MIN_FAILED}
    failed = failed_messages(listed) if text == "all" else frozenset()
    rows = ((n, m.role, m.content) for n, m in enumerate(messages) if m.role in roles)
    said = [content for _, content in without_failures(rows, failed)]
    return "\n".join(said[:1] if text == "first-user" else said)


def _line(runs: Sequence[Measured]) -> str:
    between = [adjusted_rand_score(a.labels, b.labels) for a, b in combinations(runs, 2)]
    groups = sorted(run.after.groups for run in runs)
    k1 = sorted(run.before.groups for run in runs)
    return (
        f"{_mean(runs, lambda r: r.plain)} | {_span(k1)} | {_mean(runs, lambda r: r.before)} |"
        f" {_mean(runs, lambda r: r.after)} | **{_mean(runs, lambda r: r.settled)}** | {_span(groups)} |"
        f" {_mean(runs, lambda r: r.hindsight)} | {np.mean(between) if between else 1:.2f} |"
    )


def _mean(runs: Sequence[Measured], figure: Callable[[Measured], Agreed]) -> str:
    found = [figure(run) for run in runs]
    return f"{np.mean([f.v for f in found]):.3f} / {np.mean([f.ari for f in found]):.3f}"


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]}–{numbers[-1]}"


if __name__ == "__main__":
    sys.exit(main())
