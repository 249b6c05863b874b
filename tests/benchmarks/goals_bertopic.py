"""Goals as BERTopic finds them, from the same texts and the same MiniLM vectors as `tests.benchmarks.goal_quality`.

    python -m venv /tmp/b && /tmp/b/bin/pip install bertopic==0.17.4
    python -m tests.benchmarks.goals_bertopic /tmp/b/bin/python DATA/star.jsonl.gz:1000 DATA/sgd.jsonl.gz:300 \
        --only single_task --only single_domain

UMAP has a seed, since BERTopic's own runs cannot be repeated; all else is as it comes. What it leaves out counts as one
group, as here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, v_measure_score

from engine.model.embedders.embedder import embedder_for
from tests.benchmarks.goal_quality import TEXTS, read, text_of

RIVAL = """
import json, sys
import numpy as np
from bertopic import BERTopic
from umap import UMAP
folder, seeds = sys.argv[1], int(sys.argv[2])
texts, vectors = json.load(open(folder + "/texts.json")), np.load(folder + "/vectors.npy")
found = []
for seed in range(seeds):
    flat = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed)
    found.append([int(topic) for topic in BERTopic(umap_model=flat).fit_transform(texts, vectors)[0]])
json.dump(found, open(folder + "/topics.json", "w"))
"""


def topics_of(python: str, texts: Sequence[str], seeds: int) -> list[list[int]]:
    """The topic of each text, for each seed; -1 for what is in none."""
    embedder = embedder_for("minilm")
    embedder.fit(texts)
    with tempfile.TemporaryDirectory(prefix="workbench-bench-") as folder:
        Path(folder, "texts.json").write_text(json.dumps(texts), "utf-8")
        np.save(Path(folder, "vectors.npy"), embedder.embed(texts))
        subprocess.run([python, "-c", RIVAL, folder, str(seeds)], check=True)
        found: list[list[int]] = json.loads(Path(folder, "topics.json").read_text("utf-8"))
    return found


def main(arguments: Sequence[str]) -> int:
    """Prints a row for each file and kind of text."""
    parser = argparse.ArgumentParser(prog="goals_bertopic")
    parser.add_argument("python", help="an interpreter that has bertopic")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD")
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=["all", "all-user"])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    sys.stdout.write("| data | text | V | ARI | topics | in none |\n|---|---|--:|--:|--:|--:|\n")
    for file in options.files:
        name, records = read(file, options.only)
        gold = [record["truth"]["goal"] for record in records]
        for text in options.text:
            runs = topics_of(options.python, [text_of(one, text) for one in records], options.seeds)
            sys.stdout.write(f"| {name} | {text} | {_row(gold, runs)}\n")
            sys.stdout.flush()
    return 0


def _row(gold: Sequence[str], runs: Sequence[Sequence[int]]) -> str:
    def span(values: Sequence[float]) -> str:
        return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    v: list[Any] = [v_measure_score(gold, topics) for topics in runs]
    ari: list[Any] = [adjusted_rand_score(gold, topics) for topics in runs]
    counts = [len(set(topics) - {-1}) for topics in runs]
    none = np.mean([topics.count(-1) / len(topics) for topics in map(list, runs)])
    return f"{span(v)} | {span(ari)} | {min(counts)}–{max(counts)} | {none:.2f} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
