"""Ways of scoring completeness: `python -m tests.benchmarks.words_tables PROJECT...`.

Projects have the hidden states of `run complete PROJECT --mode probe`; only the conversations with states are used. No
model is asked. The ways are words, states, both and the two rules that read neither; the truncation test is averaged
over twenty draws of cuts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
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


def truncation_figures(data: Data, p: Floats) -> Figures:
    """Tests the scores of all boundaries, shape (boundaries,)."""
    rows = [np.flatnonzero(data.owner == index) for index in range(len(data.names))]
    drawn = []
    for seed in range(DRAWS):
        cuts = draw_cuts(data.names, [len(r) for r in rows], seed)
        both = np.concatenate([p[cuts.whole], p[cuts.cut]]).tolist()
        label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
        each = figures(both, label)
        drawn.append((each["auroc"], each["f1"], each["ece"]))
    area, f1, ece = np.mean(drawn, axis=0).tolist()
    share, _ = matched([p[each] for each in rows])
    return Figures(area, share.value if share else float("nan"), f1, ece)


def _fit(data: Data, features: Features, strengths: Sequence[float]) -> tuple[CrossFit, float]:
    """Fits a probe as the program does; returns also the processor seconds that it took."""
    begin = time.process_time()
    fitted = probe.cross_fit(features, data.is_end, data.groups, inverse_strengths=strengths)
    return fitted, time.process_time() - begin


def ways(data: Data) -> Iterator[str]:
    """Yields one row for each way of scoring."""
    words, words_seconds = _fit(data, data.texts.words, probe.INVERSE_STRENGTHS_OF_WORDS)
    states, states_seconds = _fit(data, data.states, probe.INVERSE_STRENGTHS)
    position, position_seconds = _fit(data, data.positions, truncation.INVERSE_STRENGTHS)
    everywhere = np.arange(len(data.is_end))
    stack = probe.stack(words.at(everywhere), states.at(everywhere), data.is_end, data.groups)
    seconds = {"words": words_seconds, "states": states_seconds, "position alone": position_seconds}
    by_way = {
        "words": words.p,
        "states": states.p,
        "words and states": stack.joined.p,
        "position alone": position.p,
        "keyword rule": data.texts.keywords,
    }
    for name, p in by_way.items():
        result = truncation_figures(data, p)
        took = f"{seconds[name]:.1f}" if name in seconds else ""
        yield " | ".join([name, *(f"{value:.3f}" for value in astuple(result)), took])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.words_tables")
    parser.add_argument("projects", nargs="+", metavar="PROJECT", type=Path)
    options = parser.parse_args(arguments)
    print(
        "| project | scored by | AUROC | same step | F1 at .5 | ECE | processor seconds of the fit |"
    )
    print("|---|---|---|---|---|---|---|")
    for file in options.projects:
        for row in ways(Data.read(file)):
            print(f"| {file.stem} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
