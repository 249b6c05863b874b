"""Tables on example probes: `python -m tests.benchmarks.example_probe_tables TABLE PROJECT:TRUTH...`.

Signs of the projects were read, and with the hidden states of `run complete PROJECT --mode probe` they count too; no
model is asked. TRUTH says what a simulated person marks: `reward` (1 is positive), `complete`, or `FIELD=VALUE` of the
truth. Tables are `orders` (marks asked for in several orders, a fit after every five, AUROC on the last third), `tests`
(the out-of-fold test that is shown, against the AUROC on the last third) and `learning` (none to 80 marks at random,
tested on a quarter of the tasks, none of which the marks are from).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.base.number_format import figure
from engine.base.statistics.ranking import auroc
from engine.completeness.conversation_logs import logs_of
from engine.completeness.probe_calibration import Bools, Floats, Ints
from engine.conversations import shingle_overlap
from engine.project.project import Project
from engine.questions import example_probe
from engine.questions.example_probe import Known
from engine.questions.service.example_probes import ExampleProbeService

DRAWS = 8
MARKS = (5, 10, 15, 20, 30, 40, 50)
ENOUGH = 0.9
LEARNING_DRAWS = 20
LEARNING = (0, 10, 20, 40, 80)
MOST = 700


@dataclass(frozen=True, slots=True)
class Data:
    """What a simulated person may mark.

    Attributes:
        known: What the probe knows of each conversation.
        score: Completeness score of each; NaN without one.
        positive: The truth.
        group: Nearly equal ones share one.
        task: Of each, by the truth: those of one task share one; equal to `group` where it says none.
    """

    known: Known
    score: Floats
    positive: Bools
    group: Ints
    task: Ints

    @classmethod
    def of(cls, file: Path, truth: str) -> Data:
        """The conversations of a project whose truth is known, at most `MOST` drawn at random."""
        with Project.open(file, read_only=True) as project:
            conversations = ExampleProbeService(project)._read_conversations()
            with project.reading() as conn:
                truths = {
                    key: json.loads(text)
                    for key, text in conn.execute("SELECT conversation_id, truth FROM truth")
                }
            labels = [_label(truths.get(key, {}), truth) for key in conversations.ids.tolist()]
            rows = np.array([row for row, label in enumerate(labels) if label is not None])
            rows = np.sort(np.random.default_rng(7).permutation(rows)[:MOST])
            logs = logs_of(project, conversations.ids[rows].tolist())
        group = shingle_overlap.groups([shingle_overlap.log_shingles(log.pieces) for log in logs])
        names = [
            str(_task(truths[log.id]) or f"group {number}")
            for log, number in zip(logs, group.tolist(), strict=True)
        ]
        known = conversations.known
        words = None if known.words is None else known.words[rows]
        return cls(
            Known(known.features[rows], words, known.guess[rows]),
            conversations.scores[rows],
            np.array([bool(labels[row]) for row in rows]),
            group,
            np.unique(names, return_inverse=True)[1],
        )

    def known_of(self, rows: Ints) -> Known:
        """What is known of some conversations."""
        words = None if self.known.words is None else self.known.words[rows]
        return Known(self.known.features[rows], words, self.known.guess[rows])

    def parts(self, draw: int) -> tuple[Ints, Ints]:
        """Indices to be marked, and to be tested on."""
        order = np.random.default_rng(draw).permutation(len(self.positive))
        cut = 2 * len(order) // 3
        return order[:cut], order[cut:]


def _task(truth: Mapping[str, object]) -> object:
    return truth.get("task_id", truth.get("goal_text"))


def _label(truth: Mapping[str, object], condition: str) -> bool | None:
    name, sign, value = condition.partition("=")
    value_of_truth = truth.get(name)
    if value_of_truth is None:
        return None
    if sign:
        return str(value_of_truth) == value
    return float(str(value_of_truth)) >= 1 if name == "reward" else bool(value_of_truth)


def _area(data: Data, marked: Ints, test: Ints) -> float:
    """AUROC on other conversations after these marks; that of the first guess while they are of one kind."""
    label = data.positive[marked]
    values = data.known.guess[test]
    if label.any() and not label.all():
        table = example_probe._likeness(data.known, marked)
        values = example_probe._predict_log_odds(table, data.known.guess, marked, label, test)
    return auroc(values.tolist(), data.positive[test].tolist()).value


def _curve(data: Data, order: str, draw: int) -> list[float]:
    pool, test = data.parts(draw)
    known, score = data.known_of(pool), data.score[pool]
    mark = np.zeros(len(pool), dtype=np.int64)
    asked: list[int] = []
    found = []
    fixed = {
        "random": np.arange(len(pool)),  # the pool is in random order
        "near the threshold": np.argsort(np.abs(score - 0.5), kind="stable"),
        "lowest score": np.argsort(score, kind="stable"),
    }
    while len(asked) < min(MARKS[-1], len(pool)):
        if order in fixed:
            following = [at for at in fixed[order].tolist() if at not in asked]
        else:
            marked = np.flatnonzero(mark)
            p = example_probe.fit(known, mark, data.group[pool[marked]]) if len(asked) else None
            following = example_probe.rank_by_information(known.features, mark, p, score).tolist()
            if order == "unsure" and p is not None:
                free = np.flatnonzero(mark == 0)
                following = free[np.argsort(np.abs(p[free] - 0.5), kind="stable")].tolist()
        asked += following[: example_probe.EXAMPLES_PER_FIT]
        mark[asked] = np.where(data.positive[pool[asked]], 1, -1)
        if len(asked) in MARKS:
            found.append(_area(data, pool[asked], test))
    return found + [np.nan] * (len(MARKS) - len(found))


def orders(data: Data) -> Iterator[str]:
    """One row for each order: mean AUROC after so many marks, and marks until the mean reaches .9."""
    draws = [
        draw
        for draw in range(DRAWS)
        if 0 < data.positive[data.parts(draw)[1]].sum() < len(data.parts(draw)[1])
    ]
    for order in ("random", "near the threshold", "lowest score", "unsure", "informative"):
        mean = np.mean([_curve(data, order, draw) for draw in draws], axis=0)
        reached = next((str(n) for n, area in zip(MARKS, mean, strict=True) if area >= ENOUGH), "–")
        yield f"{order} | {' | '.join(f'{area:.3f}' for area in mean)} | {reached}"


def tests(data: Data) -> Iterator[str]:
    """One row for each number of marks of each kind, at random and asked for, the most informative first."""
    for each in (5, 10, 15, 20):
        for order in ("random", "informative"):
            shown, true, inside, sure = [], [], 0, 0
            for draw in range(DRAWS):
                pool, test = data.parts(draw)
                label = data.positive[pool]
                if min(label.sum(), (~label).sum()) < each or len(set(data.positive[test])) < 2:
                    continue
                mark = np.zeros(len(pool), dtype=np.int64)
                while min((mark > 0).sum(), (mark < 0).sum()) < each:
                    if order == "random":
                        following = np.flatnonzero(mark == 0)[: example_probe.EXAMPLES_PER_FIT]
                    else:
                        group = data.group[pool[np.flatnonzero(mark)]]
                        p = (
                            example_probe.fit(data.known_of(pool), mark, group)
                            if mark.any()
                            else None
                        )
                        following = example_probe.rank_by_information(
                            data.known.features[pool], mark, p, data.score[pool]
                        )[: example_probe.EXAMPLES_PER_FIT]
                    mark[following] = np.where(label[following], 1, -1)
                marked = np.flatnonzero(mark)
                p = example_probe.fit(data.known_of(pool), mark, data.group[pool[marked]])
                if p is None:
                    continue
                area = auroc(p[marked].tolist(), label[marked].tolist())
                shown.append(area.value)
                true.append(_area(data, pool[marked], test))
                inside += area.low <= true[-1] <= area.high
                sure += area.low > 0.5
            if shown:
                error = np.abs(np.array(shown) - true).mean()
                yield (
                    f"{each} | {order} | {np.mean(shown):.2f} | {np.mean(true):.2f} | {error:.2f}"
                    f" | {inside} of {len(shown)} | {sure} of {len(shown)}"
                )


def learning(data: Data) -> Iterator[str]:
    """One row: mean AUROC after so many random marks, on a quarter of the tasks, none of which they are from."""
    found = []
    for draw in range(LEARNING_DRAWS):
        random = np.random.default_rng(draw)
        tasks = random.permutation(np.unique(data.task))
        is_test = np.isin(data.task, tasks[: len(tasks) // 4])
        pool, test = random.permutation(np.flatnonzero(~is_test)), np.flatnonzero(is_test)
        if len(set(data.positive[test])) == 2:
            found.append(
                [_area(data, pool[:n], test) if n <= len(pool) else np.nan for n in LEARNING]
            )
    cells = ["–" if np.isnan(mean) else figure(mean) for mean in np.mean(found, axis=0)]
    count = len(data.positive)
    yield f"{count} | {data.positive.sum()} | {len(found)} | {' | '.join(cells)}"


TABLES = {
    "orders": (orders, f"order | {' | '.join(map(str, MARKS))} | marks to .9"),
    "learning": (
        learning,
        f"conversations | positive | draws | {' | '.join(map(str, LEARNING))}",
    ),
    "tests": (
        tests,
        "of each kind | order | shown | last third | mean difference | inside the interval | above .5",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.example_probe_tables")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("sets", nargs="+", metavar="PROJECT:TRUTH")
    options = parser.parse_args(arguments)
    rows, header = TABLES[options.table]
    print(f"| project, truth | {header} |\n|{'---|' * (header.count('|') + 2)}")
    for one in options.sets:
        file, _, truth = one.partition(":")
        data = Data.of(Path(file), truth)
        for row in rows(data):
            print(f"| {Path(file).stem}, {truth} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
