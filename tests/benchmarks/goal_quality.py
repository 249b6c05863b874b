"""How good clusters of goals are against gold goals: `python -m tests.benchmarks.goal_quality FILE ...`.

Files are JSON Lines in the uniform form with `truth.goal`, plain or gzip, each with an optional number of conversations
to draw: `star.jsonl.gz:1000`. No model is asked: this is what vectors alone reach in `run cluster --decide auto`, as
`validate PROJECT goals` says.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from engine.base.statistics.agreement import GoldAgreement
from engine.conversations.filters import ListQuery
from engine.goals.clustering_request import ClusteringRequest
from engine.model.embedders.vectors import Numbers
from engine.opener.jobs import import_stages
from engine.opener.open_project import OpenProject
from engine.results.validation.goals import BEFORE, NOW, goal_validation

TEXTS = ("all", "all-user", "first-user")


@dataclass(frozen=True, slots=True)
class Measured:
    """One clustering.

    Attributes:
        before: Agreement of the clusters before any merge.
        after: Agreement of what `--decide auto` leaves.
        labels: Number of the group of each conversation after that, 0 for those in none.
    """

    before: GoldAgreement
    after: GoldAgreement
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
    print("| data | text | embedder | k1 | before merging | settled | groups | ARI between runs |")
    print("|---|---|---|--:|---|---|--:|--:|")
    for file in options.files:
        name, records = read(file, options.only)
        with TemporaryDirectory() as folder:
            project = imported(records, Path(folder))
            for text in options.text:
                for kind in options.embedder:
                    runs = [
                        measure(project, text, kind, seed, options.k1)
                        for seed in range(options.seeds)
                    ]
                    print(f"| {name} | {text} | {kind} |", _line(runs), flush=True)
    return 0


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


def imported(records: Sequence[dict[str, Any]], folder: Path) -> Path:
    """A project of these conversations in a folder."""
    logs = folder / "logs.jsonl"
    logs.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    with OpenProject(folder / "p.wb", create=True) as workspace:
        workspace.run(import_stages(workspace.project, [str(logs)]))
    return folder / "p.wb"


def measure(project: Path, text: str, embedder: str, seed: int, k1: int | None) -> Measured:
    """Clusters and merges with one seed, in a copy of a project, so that no run knows of decisions in another."""
    request: Any = {"text": text, "embedder": embedder, "seed": seed, "k": k1}
    with OpenProject(Path(shutil.copy(project, project.with_name("run.wb")))) as workspace:
        stages = workspace.goal_stages()
        workspace.run(
            stages.cluster_stages(ClusteringRequest(**request, decide="auto", labels=False))
        )
        rows = goal_validation(workspace.project, ListQuery()).rows
        labels = np.zeros(len(workspace.conversations.ids(ListQuery())), dtype=np.int32)
        for number, group in enumerate(workspace.goals.groups(), start=1):
            members = workspace.goals.members(group.id)
            labels[[member.conversation_id - 1 for member in members]] = number
    return Measured(rows[BEFORE], rows[NOW], labels)


def _line(runs: Sequence[Measured]) -> str:
    between = [adjusted_rand_score(a.labels, b.labels) for a, b in combinations(runs, 2)]
    groups = sorted(run.after.groups for run in runs)
    k1 = sorted(run.before.groups for run in runs)
    return (
        f"{_span(k1)} | {_mean(runs, lambda r: r.before)} | **{_mean(runs, lambda r: r.after)}** |"
        f" {_span(groups)} | {np.mean(between) if between else 1:.2f} |"
    )


def _mean(runs: Sequence[Measured], figure: Callable[[Measured], GoldAgreement]) -> str:
    found = [figure(run) for run in runs]
    return (
        f"{np.mean([f.v.value for f in found]):.3f} / {np.mean([f.ari.value for f in found]):.3f}"
    )


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]}–{numbers[-1]}"


if __name__ == "__main__":
    sys.exit(main())
