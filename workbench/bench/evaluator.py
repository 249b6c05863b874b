"""Whether an evaluator adapter answers the workbench's questions better than its base, on sets it was not trained on:
`python -m workbench.bench.evaluator ADAPTER --file FILE[:N] ... --keep FOLDER`.

Both models get the same questions: whether pairs of clusters are one, what users want, what is left to do. Answers are
kept, so a run that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np

from engine.completeness.remaining import remaining_tasks
from engine.folders import cache_dir, data_dir
from engine.goals.clusters.clustering import cluster
from engine.goals.embedders.embedder import embedder_for
from engine.goals.questions.questions import (
    EXAMPLES,
    MergeQuestion,
    ask_merges,
    choose,
    read_summary,
)
from engine.goals.questions.teaching import Known, remaining_reply
from engine.jobs.runner import config_hash
from engine.model.catalog import Catalog
from engine.model.interface import Sampling
from engine.model.prompting import Prompt
from engine.simulate.samples import sample_tasks
from engine.worker.asker import ProcessAsker
from engine.worker.client import ModelProcess
from workbench.bench.evaluator_figures import (
    Compared,
    merge_figures,
    remaining_figures,
    summary_figures,
    table,
)
from workbench.evaluator_data import cut_short, known_of, name_of, prompts

SEED = 7
"""Of what is drawn, and of the generator: other samples than any that examples are made from."""

SAMPLES = 200
BLOCK = 8
"""Questions that are asked and kept together."""

LEAST_MEMBERS = 4
"""Members that a cluster needs to be asked about."""

SIDES = ("untuned", "tuned")

Item = tuple[tuple[str, ...], int]
_Q = TypeVar("_Q")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of clusters of one file, and whether most members of both have the same goal."""

    questions: tuple[MergeQuestion, ...]
    same: tuple[bool, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m workbench.bench.evaluator")
    parser.add_argument("adapter", type=Path, help="GGUF file")
    parser.add_argument("--file", action="append", default=[], metavar="FILE[:N]")
    parser.add_argument("--model", help="name or path of the base; default: the built-in one")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD",
                        help="keep what has this field of `truth` true, where any has it")  # fmt: skip
    parser.add_argument("--embedder", nargs="+", default=["tfidf"], help="that clusters summaries")
    parser.add_argument("--summaries", type=int, default=100, help="of each file")
    parser.add_argument("--pairs", type=int, default=24, help="pairs of clusters of each file")
    parser.add_argument("--texts", type=int, default=EXAMPLES, help="texts of each list of a pair")
    parser.add_argument("--remaining", type=int, default=40, help="samples that are cut")
    parser.add_argument("--keep", type=Path, required=True, help="folder of the answers so far")
    options = parser.parse_args(arguments)
    catalog = Catalog(data_dir(), cache_dir())
    model = catalog.runnable(catalog.entry(options.model))
    asked = prompts()
    files = {name_of(file): known_of(file, SEED, options.only) for file in options.file}
    pairs = {name: pairs_of(known, options.pairs, options.texts) for name, known in files.items()}
    summed = {name: known[: options.summaries] for name, known in files.items()}
    cut = [cut_short(*one, SEED) for one in sample_tasks(SAMPLES, SEED)][: options.remaining]
    said: dict[str, dict[str, list[Any]]] = {}
    process = ModelProcess(cache_dir() / "logs" / "bench.log")
    try:
        for side, adapter in zip(SIDES, (None, options.adapter), strict=True):
            process.load(model.path, model.options, adapter)
            weights = adapter.read_bytes().hex() if adapter else ""
            kept = _Kept(options.keep, [*model.fingerprints.values(), weights])
            found = said[side] = {}
            for name in files:
                found[f"merge {name}"] = kept.each(
                    asked["merge"],
                    pairs[name].questions,
                    lambda some: ask_merges(ProcessAsker(process), asked["merge"], some),
                )
                found[f"summary {name}"] = kept.each(
                    asked["summary"],
                    [(one.texts, one.kept) for one in summed[name]],
                    lambda some: _summaries(process, asked["summary"], some),
                )
            found["remaining"] = kept.each(
                asked["remaining"],
                [(one.texts, one.kept) for one in cut],
                lambda some: _remaining(process, asked["remaining"], some),
            )
    finally:
        process.close()
    untuned, tuned = said["untuned"], said["tuned"]
    rows: list[Compared] = []
    beside: list[Compared] = []
    for name, known in summed.items():
        key = f"merge {name}"
        rows += merge_figures(name, untuned[key], tuned[key], pairs[name].same)
        gold, key = [one.goal for one in known], f"summary {name}"
        openings = [one.opening for one in known]
        for kind in options.embedder:
            rows += summary_figures(name, gold, untuned[key], tuned[key], kind)
            beside += summary_figures(name, gold, openings, tuned[key], kind)
    wanted = [remaining_reply(one.tasks) for one in cut]
    rows.append(remaining_figures(wanted, untuned["remaining"], tuned["remaining"]))
    print(table(rows))
    print()
    print(table(beside, "first user text", "tuned summaries"))
    return 0


def pairs_of(known: Sequence[Known], count: int, texts: int) -> Pairs:
    """As many pairs of clusters of one goal as of two, where there are so many: the closest ones of each kind.

    Clusters are those of first messages by TF-IDF, twice as many as there are goals and at least eight.
    """
    openings = [one.opening for one in known]
    embedder = embedder_for("tfidf")
    embedder.fit(openings)
    vectors = embedder.embed(openings)
    goals = [one.goal for one in known]
    labels = cluster(vectors, max(8, 2 * len(set(goals))), SEED, cut=None).labels
    members = {
        int(label): np.flatnonzero(labels == label).tolist()
        for label in np.unique(labels)
        if (labels == label).sum() >= LEAST_MEMBERS
    }
    goal_of = {key: _most([goals[at] for at in rows]) for key, rows in members.items()}
    centres = {key: vectors[rows].mean(axis=0) for key, rows in members.items()}
    every = [(a, b) for a in members for b in members if a < b]
    every.sort(key=lambda pair: -float(centres[pair[0]] @ centres[pair[1]]))
    kinds = [
        [p for p in every if (goal_of[p[0]] == goal_of[p[1]]) == same] for same in (True, False)
    ]
    each = min(count // 2, *map(len, kinds))
    chosen = [pair for kind in kinds for pair in kind[:each]]
    Random(SEED).shuffle(chosen)
    questions = []
    for a, b in chosen:
        strangers = np.flatnonzero(~np.isin(labels, (a, b))).tolist()
        questions.append(
            MergeQuestion(
                *(
                    tuple(openings[at] for at in choose(rows, texts, SEED))
                    for rows in (members[a], members[b], strangers)
                )
            )
        )
    return Pairs(tuple(questions), tuple(goal_of[a] == goal_of[b] for a, b in chosen))


class _Kept:
    """Answers in a folder, a file for each block of questions."""

    def __init__(self, folder: Path, model: Sequence[Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._model = folder, [str(part) for part in model]

    def each(
        self, prompt: Prompt, questions: Sequence[_Q], ask: Callable[[Sequence[_Q]], list[Any]]
    ) -> list[Any]:
        """The answers to all questions, those that are there not asked again."""
        answers: list[Any] = []
        for at in range(0, len(questions), BLOCK):
            some = questions[at : at + BLOCK]
            params = {"prompt": prompt.as_params(), "asked": [repr(one) for one in some]}
            key = config_hash("evaluator", params, {"model": self._model})
            path = self._folder / f"{key}.json"
            if not path.exists():
                path.write_text(json.dumps(ask(some)), "utf-8")
                print(f"{prompt.name}: {at + len(some)} of {len(questions)}", file=sys.stderr)
            answers += json.loads(path.read_text("utf-8"))
        return answers


def _summaries(process: ModelProcess, prompt: Prompt, items: Sequence[Item]) -> list[str]:
    replies = _replies(process, prompt, items)
    return [
        read_summary(prompt, reply["text"], cut=reply["stopped"] == "length")[0]
        for reply in replies
    ]


def _remaining(process: ModelProcess, prompt: Prompt, items: Sequence[Item]) -> list[str]:
    replies = _replies(process, prompt, items)
    return [
        remaining_tasks(prompt, reply["text"], cut=reply["stopped"] == "length")[0]
        for reply in replies
    ]


def _replies(process: ModelProcess, prompt: Prompt, items: Sequence[Item]) -> list[dict[str, Any]]:
    return process.generate(
        items, prompt, sampling=Sampling(), max_tokens=prompt.max_tokens, stop=prompt.stop
    )


def _most(goals: Sequence[str]) -> str:
    return max(sorted(set(goals)), key=goals.count)


if __name__ == "__main__":
    sys.exit(main())
