"""The labelling-only baseline against gold goals: `python -m tests.benchmarks.goal_labelling FILE[:N] --keep FOLDER`.

A model names the goal of one conversation after the other and nothing else happens
(`engine.goals.questions.label_only_baseline`). Beside it stands k-means with the gold number of clusters on the same
texts. Labels are kept one by one, so a run that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.folders import cache_dir, data_dir
from engine.goals.clusters.clustering import cluster
from engine.goals.embedders.tfidf import TfidfEmbedder
from engine.goals.embedders.vectors import Numbers
from engine.goals.questions.asker import Asker
from engine.goals.questions.label_only_baseline import label_in_order
from engine.jobs.contract import config_hash
from engine.model.catalog import Catalog
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from engine.worker.asker import ProcessAsker
from engine.worker.client import ModelProcess
from tests.benchmarks.goal_quality import TEXTS, Agreed, read, text_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as a file is done."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.goal_labelling")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD",
                        help="keep what has this field of `truth` true, where any has it")  # fmt: skip
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=["first-user"])
    parser.add_argument("--model", help="name or path; default: the built-in one")
    parser.add_argument("--keep", type=Path, required=True, help="folder of the labels so far")
    options = parser.parse_args(arguments)
    catalog = Catalog(data_dir(), cache_dir())
    model = catalog.runnable(catalog.entry(options.model))
    prompt = parse_prompt("relabel", prompt_text("relabel"))
    process = ModelProcess(cache_dir() / "logs" / "bench.log")
    print("| data | text | conversations | labels | labelling only | k-means, gold k |")
    print("|---|---|--:|--:|---|---|")
    try:
        process.load(model.path, model.options)
        for file in options.files:
            name, records = read(file, options.only)
            goals = sorted({record["truth"]["goal"] for record in records})
            gold = np.array([goals.index(r["truth"]["goal"]) for r in records], dtype=np.int32)
            for text in options.text:
                texts = [text_of(record, text) for record in records]
                asked = {"prompt": prompt.as_params(), "texts": texts}
                key = config_hash("labelling-only", asked, model.fingerprints)
                kept = options.keep / f"{key}.jsonl"
                labels = labelled(ProcessAsker(process), prompt, texts, kept)
                print(f"| {name} | {text} |", line(gold, labels, texts), flush=True)
    finally:
        process.close()
    return 0


def labelled(asker: Asker, prompt: Prompt, texts: Sequence[str], kept: Path) -> list[str]:
    """Labels of all texts; those in the file `kept` are taken from there, each new one is added to it at once."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    whole = kept.read_text(encoding="utf-8") if kept.exists() else ""
    # what stands behind the last line break was cut off by the end of its run
    sound = whole[: whole.rfind("\n") + 1]
    if sound != whole:
        kept.write_text(sound, encoding="utf-8")
    labels = [str(json.loads(one)) for one in sound.splitlines()]
    with kept.open("a", encoding="utf-8") as file:
        for label in label_in_order(asker, prompt, texts, labels.copy()):
            file.write(json.dumps(label) + "\n")
            file.flush()
            labels.append(label)
    return labels


def line(gold: Numbers, labels: Sequence[str], texts: Sequence[str]) -> str:
    """Counts and agreement of one file, as cells of the table."""
    names = sorted(set(labels))
    numbers = np.array([names.index(label) for label in labels], dtype=np.int32)
    embedder = TfidfEmbedder()
    embedder.fit(texts)
    plain = cluster(embedder.embed(texts), int(gold.max()) + 1, cut=None)
    found = Agreed.of(gold, numbers), Agreed.of(gold, plain.labels)
    cells = [str(len(labels)), str(len(names)), *(f"{a.v:.3f} / {a.ari:.3f}" for a in found)]
    return " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
