"""Whether labels of clusters say their goals: `python -m tests.benchmarks.goal_names FILE[:N] ...`.

MiniLM is given the label alone and has to find the gold goal of the cluster among the names of all gold goals. A
cluster of several goals has no right name, so only clusters count of which at least `PURE` have one goal. Beside the
labels stand the members' own first messages, by their mean vector: how far names like "Services" can be found at all.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.base.folders import cache_dir, data_dir
from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.kmeans import propose_k
from engine.goals.clusters.neighbors import SETTLE_NEIGHBOURS, Neighbours, settle
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.labels.word_kinds import (
    ADVERBS,
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    INTERJECTIONS,
    PREPOSITIONS,
    PRONOUNS,
    stem,
    stems,
)
from engine.goals.questions import LABEL_EXAMPLES, GoalLabel, choose, clean_label, numbered_lists
from engine.goals.stages.clustering import OUTSIDE_EXAMPLES
from engine.goals.tables.clusterings import word_label
from engine.model.catalog import Catalog
from engine.model.embedders.embedder import Embedder, embedder_for
from engine.model.embedders.vectors import Numbers, Vectors, unit_rows
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import parse_prompt, prompt_text
from engine.model.structured_replies import ask
from tests.benchmarks.goal_board import Board, merged
from tests.benchmarks.goal_quality import read, text_of

PURE = 0.8
ROOM = 12_000
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*\Z")
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{3,12}\Z")
_NO_END = (PRONOUNS | DETERMINERS | AUXILIARIES | PREPOSITIONS | CONJUNCTIONS) - {
    "out",
    "up",
    "off",
}
_NO_BEGINNING = (
    PRONOUNS | PREPOSITIONS | CONJUNCTIONS | INTERJECTIONS | ADVERBS | (AUXILIARIES - {"will"})
)


@dataclass
class FileResult:
    """The clusters or groups of one file, and for each kind of labels the numbers of those that say the goal."""

    name: str
    purity: float
    pure: int
    every: int
    right: dict[str, int] = field(default_factory=dict)
    phrases: dict[str, float] = field(default_factory=dict)
    distinct: dict[str, bool] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.goal_names")
    parser.add_argument("files", nargs="+", metavar="FILE[:N]")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD",
                        help="keep what has this field of `truth` true, where any has it")  # fmt: skip
    parser.add_argument("--model", help="also ask this model for labels, as before; name or path")
    parser.add_argument("--show", action="store_true", help="print every label")
    options = parser.parse_args(arguments)
    process = ModelProcess(cache_dir() / "logs" / "bench.log")
    asker = None
    try:
        if options.model:
            catalog = Catalog(data_dir(), cache_dir())
            model = catalog.loadable(catalog.entry(options.model))
            process.load(model.path, model.options)
            asker = process
        reader = embedder_for("minilm")
        for at, file in enumerate(options.files):
            for found in measured(file, options.only, reader, asker, show=options.show):
                if not at and found.name.endswith("clusters"):
                    kinds = list(found.right)
                    print(f"| data | purity | pure | {' | '.join(kinds)} |")
                    print("|---|--:|--:|" + "--:|" * len(kinds))
                print(_line(found, kinds), flush=True)
    finally:
        process.close()
    return 0


def measured(
    file: str, only: Sequence[str], reader: Embedder, asker: ModelProcess | None, *, show: bool
) -> Iterator[FileResult]:
    """The clusters of a file, then the groups after automatic merging, both as the program makes them by default."""
    name, records = read(file, only)
    goals = sorted({record["truth"]["goal"] for record in records})
    gold = np.array([goals.index(r["truth"]["goal"]) for r in records], dtype=np.int32)
    texts, shown, first = (
        [text_of(record, kind) for record in records] for kind in ("all", "all-user", "first-user")
    )
    embedder = embedder_for("tfidf")
    embedder.fit(texts)
    vectors = embedder.embed(texts)
    clusters = cluster(vectors, propose_k(vectors, 0), 0)
    near = Neighbours(vectors).of_rows(np.arange(len(vectors)), SETTLE_NEIGHBOURS)
    after = merged(Board(vectors, clusters, shown, embedder))
    groups = settle(near, after, np.zeros(len(after), dtype=np.bool_))
    names = reader.embed([_spelled(goal) for goal in goals])
    openings = reader.embed(first)
    for what, labels, distances in (
        ("clusters", clusters.labels, clusters.distances),
        ("groups", groups, None),
    ):
        numbers = [int(number) for number in np.unique(labels) if number >= 0]
        words = distinctive_words(shown, labels, 8)
        named = phrase_labels(shown, labels, distances)
        kinds: dict[str, Mapping[int, str]] = {"words": {n: word_label(words[n]) for n in numbers}}
        if asker and what == "clusters":
            kinds["model"] = _asked(asker, shown, vectors, labels, words)
        kinds["phrases"] = {n: named[n].label for n in numbers}
        kinds["sentence below"] = {n: named[n].description for n in numbers}
        kinds["phrase and two words"] = {
            n: ": ".join(filter(None, (named[n].label, _others(named[n].label, words[n]))))
            for n in numbers
        }
        kinds["phrase and sentence"] = {
            n: f"{named[n].label}. {named[n].description}" for n in numbers
        }
        counts = [np.bincount(gold[labels == n], minlength=len(goals)) for n in numbers]
        share = {n: c.max() / c.sum() for n, c in zip(numbers, counts, strict=True)}
        goal = {n: int(c.argmax()) for n, c in zip(numbers, counts, strict=True)}
        pure = [n for n in numbers if share[n] >= PURE]
        weights = np.array([c.sum() for c in counts])
        purity = float(sum(c.max() for c in counts) / weights.sum())
        found = FileResult(f"{name}, {what}", purity, len(pure), len(numbers))
        for kind, own in kinds.items():
            nearest = (reader.embed([own[n] or "none" for n in pure]) @ names.T).argmax(axis=1)
            hits = [int(at) == goal[n] for n, at in zip(pure, nearest, strict=True)]
            found.right[kind] = sum(hits)
            found.phrases[kind] = sum(map(is_phrase, own.values())) / len(numbers)
            found.distinct[kind] = len({label.casefold() for label in own.values()}) == len(numbers)
            if show and kind in ("model", "phrases"):
                for n, hit in zip(pure, hits, strict=True):
                    sign = "+" if hit else "-"
                    print(f"{found.name} {kind} {sign} {goals[goal[n]]}: {own[n]}", file=sys.stderr)
        means = unit_rows(np.array([openings[labels == n].mean(axis=0) for n in pure]))
        best = (means @ names.T).argmax(axis=1)
        found.right["members' openings"] = sum(
            int(at) == goal[n] for n, at in zip(pure, best, strict=True)
        )
        yield found


def is_phrase(label: str) -> bool:
    """Whether a label is a phrase by a rule: two to six words (or three to twelve signs of a script without spaces) of
    letters only, without a separator; no word twice; it begins with a verb, a noun, an article or "will it", not with a
    pronoun, preposition, conjunction or adverb; it does not end with a word that wants another one."""
    if _SPACELESS.match(label):
        return True
    words = label.split()
    plain = [word.casefold() for word in words]
    return (
        2 <= len(words) <= 6
        and all(_WORD.match(word) for word in words)
        and len(set(plain) - DETERMINERS)
        == len([word for word in plain if word not in DETERMINERS])
        and plain[0] not in _NO_BEGINNING
        and plain[-1] not in _NO_END
    )


def _others(label: str, words: Sequence[str]) -> str:
    """The first two distinctive words that a label does not have."""
    own = stems(label)
    return ", ".join([word for word in words if stem(word.casefold()) not in own][:2])


def _asked(
    asker: ModelProcess, texts: Sequence[str], vectors: Vectors, labels: Numbers,
    words: Mapping[int, Sequence[str]],
) -> dict[int, str]:  # fmt: skip
    """Labels of a model, asked as `engine.goals.stages.clustering` asks."""
    prompt = parse_prompt("label-json", prompt_text("label-json"))
    found = {}
    for number in words:
        inside = labels == number
        cosines = vectors @ vectors[inside].mean(axis=0)
        cosines[inside] = -np.inf
        others = np.argsort(-cosines, kind="stable")[:OUTSIDE_EXAMPLES]
        mine = choose(np.flatnonzero(inside).tolist(), LABEL_EXAMPLES, 0)
        body = numbered_lists(
            ROOM,
            not_in_group=[texts[int(at)] for at in others],
            group=[texts[at] for at in mine],
        )
        (reply,) = ask(asker, prompt, GoalLabel, [body])
        label = clean_label(reply.fields.label) if reply.fields else ""
        found[number] = label or ", ".join(words[number][:3])
    return found


def _spelled(goal: str) -> str:
    """A gold name with spaces: "RideSharing" and "ride_book" are words too."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", goal.replace("_", " "))


def _line(found: FileResult, kinds: Sequence[str]) -> str:
    cells = []
    for kind in kinds:
        cell = f"{found.right[kind] / found.pure:.2f}" if kind in found.right and found.pure else ""
        if kind in ("words", "model", "phrases") and kind in found.phrases:
            cell += f" ({found.phrases[kind]:.2f}{'' if found.distinct[kind] else ', repeated'})"
        cells.append(cell)
    return f"| {found.name} | {found.purity:.2f} | {found.pure} of {found.every} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
