"""Tables on the probe: `python -m tests.benchmarks.words_tables TABLE PROJECT...`.

Projects have the hidden states of `run complete PROJECT --mode probe`; only the conversations with states are used. No
model is asked. Tables are `ways` (words, states, both and the two rules that read neither), `learning` (from a few
conversations, tested on the others), `broken` (two fifths of the conversations broke off) and `read` (states of some
conversations only). The truncation test is averaged over twenty draws of cuts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.bootstrap import figures
from engine.completeness import probe, truncation
from engine.completeness.probe import CrossFit
from engine.completeness.regression import Features, States
from engine.completeness.stages.training_set import LogTexts
from engine.completeness.tables import hidden_states
from engine.completeness.truncation import draw_cuts, matched
from engine.conversations import shingle_overlap
from engine.conversations.tables.conversations import names
from engine.project.project import Project
from tests.engine.completeness.scored import all_entries

DRAWS = 20
REPEATS = 3
SIZES = (20, 40, 80, 160, 320)
MIN_OTHERS = 40
BROKEN_SHARE = 0.4
READ_SHARES = (0.0, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Data:
    """The conversations of a project that have states.

    Attributes:
        texts: Of the conversations.
        names: External id of each.
        states: Shape (boundaries, dimensions).
        positions: The features of position alone, shape (boundaries, 3).
        owner: Index of the conversation of each boundary, shape (boundaries,).
        groups: Group of each boundary, shape (boundaries,); nearly equal conversations share one.
        is_end: Whether each is the last one of its conversation, shape (boundaries,).
    """

    texts: LogTexts
    names: list[str]
    states: States
    positions: States
    owner: Ints
    groups: Ints
    is_end: Bools

    @classmethod
    def read(cls, file: Path) -> Data:
        """Reads the conversations of which the model read most."""
        with Project.open(file, read_only=True) as project:
            with project.reading() as conn:
                key = hidden_states.config_with_most_states(conn)
                assert key is not None, "run complete PROJECT --mode probe"
                entries = [e for e in all_entries(conn, key) if e.places]
                ids = [entry.conversation_id for entry in entries]
                names_by_id = names(conn, ids)
            texts = LogTexts.read(project, ids, keywords_for=frozenset(ids))
        # The places as they are now: those of the states are of the time when they were read.
        assert [[p.message for p in e.places] for e in entries] == [
            [p.message for p in places] for places in texts.places
        ]
        raw = [np.frombuffer(e.states, "<f2").reshape(len(e.places), -1) for e in entries]
        position = [
            [number, place.chars, place.step_chars]
            for numbers, places in zip(texts.numbers, texts.places, strict=True)
            for number, place in zip(numbers, places, strict=True)
        ]
        counts = texts.counts
        return cls(
            texts,
            [names_by_id[key] for key in texts.ids],
            np.concatenate(raw).astype(np.float32),
            np.log1p(np.array(position, dtype=np.float32)),
            np.repeat(np.arange(len(counts)), counts),
            np.repeat(shingle_overlap.groups(texts.runs), counts),
            np.concatenate([np.arange(count) == count - 1 for count in counts]),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What the truncation test says of some scores, means over the draws; `same_step` is NaN without pairs."""

    auroc: float
    same_step: float
    f1: float
    ece: float


def truncation_figures(data: Data, p: Floats, among: Sequence[int] | None = None) -> Figures:
    """Tests the scores of all boundaries.

    Args:
        p: Shape (boundaries,).
        among: Index of each conversation that is tested; None tests all.
    """
    chosen = range(len(data.names)) if among is None else among
    rows = [np.flatnonzero(data.owner == index) for index in chosen]
    values = np.concatenate([p[each] for each in rows])
    drawn = []
    for seed in range(DRAWS):
        cuts = draw_cuts([data.names[index] for index in chosen], [len(r) for r in rows], seed)
        both = np.concatenate([values[cuts.whole], values[cuts.cut]]).tolist()
        label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
        each = figures(both, label)
        drawn.append((each["auroc"], each["f1"], each["ece"]))
    area, f1, ece = np.mean(drawn, axis=0).tolist()
    share, _ = matched([p[each] for each in rows])
    return Figures(area, share.value if share else float("nan"), f1, ece)


@dataclass(frozen=True, slots=True)
class Fits:
    """The probes on words, on states and on position, each with the processor seconds that it took."""

    words: CrossFit
    states: CrossFit
    position: CrossFit
    seconds: Mapping[str, float]


def fit(data: Data, is_end: Bools, may_learn: Bools) -> Fits:
    """Fits the probes, as the program does, to some of the boundaries, and scores all.

    Args:
        is_end: Label of each boundary, shape (boundaries,).
        may_learn: Whether each boundary may be learned from, shape (boundaries,).
    """
    learned = np.flatnonzero(may_learn)
    seconds: dict[str, float] = {}

    def timed(name: str, features: Features, strengths: Sequence[float]) -> CrossFit:
        begin = time.process_time()
        fitted = probe.cross_fit(
            features[learned], is_end[learned], data.groups[learned], inverse_strengths=strengths
        )
        seconds[name] = time.process_time() - begin
        return with_others(fitted, features, data.groups, may_learn)

    return Fits(
        timed("words", data.texts.words, probe.INVERSE_STRENGTHS_OF_WORDS),
        timed("states", data.states, probe.INVERSE_STRENGTHS),
        timed("position alone", data.positions, truncation.INVERSE_STRENGTHS),
        seconds,
    )


def with_others(fitted: CrossFit, features: Features, groups: Ints, may_learn: Bools) -> CrossFit:
    """Returns the scores of all boundaries, those that were not learned from by regressions that did not see their
    group.

    Args:
        fitted: Scores of the boundaries that may be learned from; each group has one of these.
    """
    learned, others = np.flatnonzero(may_learn), np.flatnonzero(~may_learn)
    names, first = np.unique(groups[learned], return_index=True)
    folds = np.empty((len(fitted.folds), len(groups)), dtype=np.int8)
    folds[:, learned] = fitted.folds
    folds[:, others] = fitted.folds[:, first[np.searchsorted(names, groups[others])]]
    log_odds = np.empty(folds.shape)
    log_odds[:, learned] = fitted.log_odds
    for repeat, regressions in enumerate(fitted.regressions):
        for fold, regression in enumerate(regressions):
            rows = others[folds[repeat, others] == fold]
            log_odds[repeat, rows] = regression.log_odds(features, rows)
    return replace(fitted, log_odds=log_odds, folds=folds)


def stacked(fits: Fits, is_end: Bools, groups: Ints, may_learn: Bools) -> Floats:
    """Returns the scores of all boundaries by words and states, shape (boundaries,)."""
    rows, others = np.flatnonzero(may_learn), np.flatnonzero(~may_learn)
    stack = probe.stack(fits.words.at(rows), fits.states.at(rows), is_end[rows], groups[rows])
    p = np.empty(len(is_end))
    p[rows] = stack.joined.p
    first, second = (
        each.log_odds.mean(axis=0)[others].astype(np.float64) for each in (fits.words, fits.states)
    )
    p[others] = stack.score_unseen(first, second)
    return p


def scores(data: Data, is_end: Bools, may_learn: Bools) -> dict[str, Floats]:
    """Returns the scores of all boundaries by each way, by its name, none by a probe that saw its conversation."""
    fits = fit(data, is_end, may_learn)
    return {
        "words": fits.words.p,
        "states": fits.states.p,
        "words and states": stacked(fits, is_end, data.groups, may_learn),
        "position alone": fits.position.p,
    }


def ways(data: Data) -> Iterator[str]:
    """Yields one row for each way of scoring."""
    everywhere = np.ones(len(data.is_end), dtype=bool)
    fits = fit(data, data.is_end, everywhere)
    by_way = {
        "words": fits.words.p,
        "states": fits.states.p,
        "words and states": stacked(fits, data.is_end, data.groups, everywhere),
        "position alone": fits.position.p,
        "keyword rule": data.texts.keywords,
    }
    for name, p in by_way.items():
        result = truncation_figures(data, p)
        seconds = fits.seconds.get(name)
        yield " | ".join(
            [
                name,
                *(f"{value:.3f}" for value in astuple(result)),
                "" if seconds is None else f"{seconds:.1f}",
            ]
        )


def learning(data: Data) -> Iterator[str]:
    """Yields one row for each number of conversations, means over the draws of these: tested on all the others."""
    several = np.flatnonzero(data.texts.counts > 1)
    for size in SIZES:
        if size > len(several) - MIN_OTHERS:
            continue
        drawn: list[list[Figures]] = []
        for seed in range(REPEATS):
            order = np.random.default_rng(seed).permutation(several)
            learn = np.isin(data.owner, order[:size])
            by_way = scores(data, data.is_end, learn)
            drawn.append(
                [truncation_figures(data, p, order[size:].tolist()) for p in by_way.values()]
            )
        yield f"{size} | {_row(drawn)}"


def broken(data: Data) -> Iterator[str]:
    """Yields one row: learned after some conversations broke off at random, tested on the whole ones."""
    drawn: list[list[Figures]] = []
    for seed in range(REPEATS):
        random = np.random.default_rng(seed)
        learn, is_end = np.ones(len(data.is_end), dtype=bool), data.is_end.copy()
        for index in range(len(data.names)):
            rows = np.flatnonzero(data.owner == index)
            if len(rows) > 1 and random.random() < BROKEN_SHARE:
                last = random.integers(0, len(rows) - 1)
                learn[rows[last + 1 :]], is_end[rows[last]] = False, True
        drawn.append([truncation_figures(data, p) for p in scores(data, is_end, learn).values()])
    yield f"{BROKEN_SHARE:.0%} | {_row(drawn)}"


def _row(drawn: Sequence[Sequence[Figures]]) -> str:
    """Returns AUROC, same step and ECE of each way, means over the draws."""
    return " | ".join(
        _cell(*(float(np.mean([getattr(each, name) for each in way])) for name in _IN_A_CELL))
        for way in zip(*drawn, strict=True)
    )


_IN_A_CELL = ("auroc", "same_step", "ece")
"""The figures of a cell."""


def _cell(*values: float) -> str:
    """Returns figures with three digits."""
    return " / ".join(f"{value:.3f}" for value in values)


def read(data: Data) -> Iterator[str]:
    """Yields one row for each share of the conversations that the model read, those first that words leave open; the
    words score the others."""
    everywhere = np.ones(len(data.is_end), dtype=bool)
    fits = fit(data, data.is_end, everywhere)
    by_words = fits.words.p
    counts = np.bincount(data.owner)
    distance = np.bincount(data.owner, np.abs(by_words - 0.5)) / counts
    for share in READ_SHARES:
        count = round(share * len(data.names))
        orders = {
            "the order of the program": np.argsort(distance, kind="stable"),
            "at random": np.random.default_rng(0).permutation(len(data.names)),
        }
        cells = []
        for order in orders.values():
            rows = np.flatnonzero(np.isin(data.owner, order[:count]))
            p = by_words.copy()
            if len(rows):
                by_states = probe.cross_fit(data.states[rows], data.is_end[rows], data.groups[rows])
                joined = probe.stack(
                    fits.words.at(rows), by_states, data.is_end[rows], data.groups[rows]
                )
                p[rows] = joined.joined.p
            result = truncation_figures(data, p)
            cells.append(_cell(result.auroc, result.same_step, result.ece))
        yield f"{share:.0%} | {' | '.join(cells)}"


_WAYS = "words | states | words and states | position alone"

TABLES: Mapping[str, tuple[Callable[[Data], Iterator[str]], str]] = {
    "ways": (ways, "scored by | AUROC | same step | F1 at .5 | ECE | processor seconds of the fit"),
    "learning": (learning, f"learned from | {_WAYS}"),
    "broken": (broken, f"broke off | {_WAYS}"),
    "read": (read, "read | those first that words leave open | at random"),
}
"""The tables; where a cell has three figures they are AUROC, AUROC at the same step and ECE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.words_tables")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("projects", nargs="+", metavar="PROJECT", type=Path)
    options = parser.parse_args(arguments)
    rows, header = TABLES[options.table]
    print(f"| project | {header} |\n|{'---|' * (header.count('|') + 2)}")
    for file in options.projects:
        for row in rows(Data.read(file)):
            print(f"| {file.stem} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
