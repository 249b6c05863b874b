"""Tables on example probes: `python -m tests.benchmarks.example_probe_tables TABLE PROJECT:TRUTH...`.

Projects have the hidden states of `run complete PROJECT --mode probe`; no model is asked. TRUTH says what a simulated
person marks: `cut` (half of the conversations break off at random; whole is positive), `reward` (.5 or more is
positive), `complete`, or `FIELD=VALUE` of the truth. Two thirds of the conversations are there to be marked, and AUROC
is that on the last third. Tables are `orders` (marks asked for in several orders, a fit after every five), `tests`
(the out-of-fold test that is shown, against the AUROC on the last third) and `learning` (10 to 80 marks at random,
tested on the same fifth of the conversations).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.base.statistics.ranking import auroc
from engine.completeness import probe
from engine.completeness.conversation_logs import logs_of
from engine.completeness.probe import States
from engine.completeness.probe_calibration import Bools, Floats, Ints
from engine.completeness.tables import hidden_states
from engine.conversations import shingle_overlap
from engine.project.project import Project
from engine.questions import example_probe

DRAWS = 8
MARKS = (5, 10, 15, 20, 30, 40, 50)
ENOUGH = 0.9
LEARNING_DRAWS = 30
LEARNING = (10, 20, 40, 80)


@dataclass(frozen=True, slots=True)
class Data:
    """What a simulated person may mark.

    Attributes:
        known: `example_probe.features` of each conversation.
        score: Completeness score of each, by a probe that did not see it.
        positive: The truth.
        group: Nearly equal ones share one.
    """

    known: States
    score: Floats
    positive: Bools
    group: Ints

    @classmethod
    def of(cls, file: Path, truth: str) -> Data:
        """The conversations of a project whose truth is known."""
        with Project.open(file, read_only=True) as project:
            with project.reading() as conn:
                config = hidden_states.config_with_most_states(conn)
                assert config is not None, f"{file} has no hidden states"
                entries = [
                    one for one in hidden_states.entries_of_config(conn, config) if one.places
                ]
                truths = {
                    key: json.loads(text)
                    for key, text in conn.execute("SELECT conversation_id, truth FROM truth")
                }
            logs = logs_of(project, [entry.conversation_id for entry in entries])
        random = np.random.default_rng(7)
        states, places, counts, positive, texts = [], [], [], [], []
        for entry, log in zip(entries, logs, strict=True):
            label = _label(truths.get(entry.conversation_id, {}), truth)
            count = len(entry.places)
            if label is None or (truth == "cut" and count < 2):
                continue
            if truth == "cut":
                label = bool(random.random() < 0.5)
                count = count if label else int(random.integers(1, count))
            rows = np.frombuffer(entry.states, "<f2").reshape(len(entry.places), -1)[:count]
            states.append(rows.astype(np.float32))
            last = entry.places[count - 1]
            places.append((count, last.chars, last.step_chars))
            counts.append(count)
            positive.append(label)
            texts.append(" ".join(piece.text for piece in log.pieces))
        end = np.concatenate([np.arange(count) == count - 1 for count in counts])
        group = shingle_overlap.groups([shingle_overlap.shingles(text) for text in texts])
        score = probe.cross_fit(np.concatenate(states), end, np.repeat(group, counts)).p[end]
        known = example_probe.features(
            np.stack([rows[-1] for rows in states]), np.array(places, float)
        )
        return cls(known, score, np.array(positive), group)

    def parts(self, draw: int) -> tuple[Ints, Ints]:
        """Indices to be marked, and to be tested on."""
        order = np.random.default_rng(draw).permutation(len(self.positive))
        cut = 2 * len(order) // 3
        return order[:cut], order[cut:]


def _label(truth: dict[str, object], wanted: str) -> bool | None:
    if wanted == "cut":
        return True
    name, sign, value = wanted.partition("=")
    found = truth.get(name)
    if found is None:
        return None
    if sign:
        return str(found) == value
    return float(str(found)) >= 0.5 if name == "reward" else bool(found)


def _area(data: Data, marked: Ints, test: Ints) -> float:
    """AUROC on the last third after these marks; .5 while they are of one kind."""
    label = data.positive[marked]
    if label.all() or not label.any():
        return 0.5
    values = example_probe._predict_log_odds(data.known[marked], label, data.known[test])
    return auroc(values.tolist(), data.positive[test].tolist()).value


def _curve(data: Data, order: str, draw: int) -> list[float]:
    pool, test = data.parts(draw)
    known, score = data.known[pool], data.score[pool]
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
            following = example_probe.rank_by_information(known, mark, p, score).tolist()
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
                        p = example_probe.fit(data.known[pool], mark, group) if mark.any() else None
                        following = example_probe.rank_by_information(
                            data.known[pool], mark, p, data.score[pool]
                        )[: example_probe.EXAMPLES_PER_FIT]
                    mark[following] = np.where(label[following], 1, -1)
                marked = np.flatnonzero(mark)
                p = example_probe.fit(data.known[pool], mark, data.group[pool[marked]])
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
    """One row: mean and spread of the AUROC after so many random marks, on a fifth that none of them is from."""
    count = len(data.positive)
    found = []
    for draw in range(LEARNING_DRAWS):
        order = np.random.default_rng(draw).permutation(count)
        pool, test = order[: 4 * count // 5], order[4 * count // 5 :]
        if len(set(data.positive[test])) == 2:
            found.append(
                [_area(data, pool[:n], test) if n <= len(pool) else np.nan for n in LEARNING]
            )
    cells = [
        "–" if np.isnan(mean) else f"{mean:.2f} ± {spread:.2f}"
        for mean, spread in zip(np.mean(found, axis=0), np.std(found, axis=0), strict=True)
    ]
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
