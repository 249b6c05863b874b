"""Tables on the probe: `python -m tests.benchmarks.probe_tables TABLE PROJECT...`.

Projects have the hidden states of `run complete PROJECT --mode probe`. No model is asked. Tables are `many` (learned
from thousands), `features` (what beside the state) and `copies` (near-duplicates), all on states alone; those on words
are in `words_tables`. The truncation test is averaged over twenty draws of cuts, in `many` of one.
"""

from __future__ import annotations

import argparse
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
from engine.completeness.truncation import draw_cuts, matched
from engine.conversations import shingle_overlap
from engine.project.project import Project

DRAWS = 20
MANY, MANY_DRAWS, OTHERS = (400, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000), 3, 10_000


@dataclass(frozen=True, slots=True)
class Data:
    """The states of a project.

    Attributes:
        states, end, group: As `probe.cross_fit` takes them, one group for each conversation.
        place: Number of the boundary, log of the characters so far and of the last step, of each boundary.
        counts: Boundaries of each conversation.
        near: The group of nearly equal conversations of each conversation.
        ids: Id of each conversation.
    """

    states: States
    end: Bools
    group: Ints
    place: States
    counts: list[int]
    near: Ints
    ids: list[int]

    @classmethod
    def of(cls, file: Path) -> Data:
        """The states of the one model that read a project."""
        with Project.open(file, read_only=True) as project:
            with project.reading() as conn:
                ((key,),) = conn.execute("SELECT config_hash FROM state_config").fetchall()
                found = [
                    entry for entry in hidden_states.entries_of_config(conn, key) if entry.places
                ]
            logs = logs_of(project, [entry.conversation_id for entry in found])
        counts = [len(entry.places) for entry in found]
        raw = [np.frombuffer(e.states, "<f2").reshape(len(e.places), -1) for e in found]
        place = [
            [number, np.log1p(at.chars), np.log1p(at.step_chars)]
            for entry in found
            for number, at in enumerate(entry.places)
        ]
        texts = [" ".join(piece.text for piece in log.pieces) for log in logs]
        return cls(
            np.concatenate(raw).astype(np.float32),
            np.concatenate([np.arange(count) == count - 1 for count in counts]),
            np.repeat(np.arange(len(counts)), counts),
            np.array(place, dtype=np.float32),
            counts,
            shingle_overlap.groups([shingle_overlap.shingles(text) for text in texts]),
            [entry.conversation_id for entry in found],
        )


def truncated(p: Floats, data: Data, among: Sequence[int] | None = None) -> tuple[float, float]:
    """AUROC of whole against cut conversations, and F1 of calling .5 or more whole; means over the draws."""
    wanted = range(len(data.counts)) if among is None else among
    rows = [np.flatnonzero(data.group == number) for number in wanted]
    values = np.concatenate([p[each] for each in rows])
    names, counts = [str(number) for number in wanted], [len(each) for each in rows]
    areas, f1 = [], []
    for seed in range(DRAWS):
        cuts = draw_cuts(names, counts, seed)
        whole, cut = values[cuts.whole], values[cuts.cut]
        label = [True] * len(whole) + [False] * len(cut)
        areas.append(auroc(np.concatenate([whole, cut]).tolist(), label).value)
        hits, alarms = (whole >= 0.5).sum(), (cut >= 0.5).sum()
        f1.append(2 * hits / (len(whole) + hits + alarms))
    return float(np.mean(areas)), float(np.mean(f1))


def many(data: Data) -> Iterator[str]:
    """One row for each large number of conversations: how the same others are scored by probes of three draws."""
    drawn = np.random.default_rng(0).permutation(len(data.counts))
    others = np.isin(data.group, drawn[:OTHERS])
    counts = [data.counts[number] for number in np.sort(drawn[:OTHERS])]
    cuts = draw_cuts([str(number) for number in range(OTHERS)], counts)
    label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
    for size in MANY:
        if size > len(data.counts) - OTHERS:
            continue
        p, areas, inside = [], [], []
        for seed in range(MANY_DRAWS):
            own = np.random.default_rng(seed).permutation(drawn[OTHERS:])[:size]
            learn = np.isin(data.group, own)
            fit = probe.cross_fit(data.states[learn], data.end[learn], data.group[learn])
            p.append(fit.score_unseen(data.states[others]))
            values = np.concatenate([p[-1][cuts.whole], p[-1][cuts.cut]])
            areas.append(auroc(values.tolist(), label).value)
            inside.append(auroc(fit.p.tolist(), data.end[learn].tolist()))
        width = np.mean([area.high - area.low for area in inside])
        apart = np.mean(np.abs(np.diff(p, axis=0)))
        yield (
            f"{size:,} | {np.mean(areas):.4f} ± {np.std(areas):.4f} | {apart:.3f}"
            f" | {np.mean([area.value for area in inside]):.3f} ± {width / 2:.3f}"
        )


def features(data: Data) -> Iterator[str]:
    """One row for each set of features and each strength alone."""
    states = data.states
    mean = np.concatenate(
        [
            np.cumsum(part, axis=0) / np.arange(1, len(part) + 1)[:, None]
            for part in np.split(states, np.cumsum(data.counts)[:-1])
        ]
    )
    rows = [("position alone", data.place, (1.0,)), ("state", states, probe.INVERSE_STRENGTHS)]
    rows += [(f"state, C {c:g}", states, (c,)) for c in (3e-4, 1e-3, 3e-3, 1e-2, 1e-1)]
    rows += [
        (
            "state, difference to the mean so far",
            np.hstack([states, states - mean]),
            probe.INVERSE_STRENGTHS,
        ),
        ("state, position", np.hstack([states, data.place]), probe.INVERSE_STRENGTHS),
    ]
    for name, values, strengths in rows:
        p = probe.cross_fit(values, data.end, data.group, inverse_strengths=strengths).p
        area, f1 = truncated(p, data)
        yield f"{name} | {area:.3f} | {f1:.3f} | {matched_share(p, data):.3f}"


def matched_share(p: Floats, data: Data, among: Sequence[int] | None = None) -> float:
    """AUROC of whole conversations against longer ones cut at the same step; NaN where there are no pairs."""
    curves = np.split(p, np.cumsum(data.counts)[:-1])
    share, _ = matched(curves if among is None else [curves[number] for number in among])
    return share.value if share else float("nan")


def copies(data: Data) -> Iterator[str]:
    """One row: groups of nearly equal conversations, and the test with and without them sharing a fold."""
    apart = truncated(probe.cross_fit(data.states, data.end, data.group).p, data)
    near = np.repeat(data.near, data.counts)
    together = truncated(probe.cross_fit(data.states, data.end, near).p, data)
    sizes = np.bincount(data.near)
    yield (
        f"{len(data.counts)} | {len(sizes)} | {sizes.max()} | {apart[0]:.3f} | {apart[1]:.3f}"
        f" | {together[0]:.3f} | {together[1]:.3f}"
    )


TABLES = {
    "many": (
        many,
        "conversations | AUROC, others | difference of a score between draws"
        " | AUROC in the draw ± half its interval",
    ),
    "features": (features, "features | AUROC | F1 at .5 | at the same step"),
    "copies": (
        copies,
        "conversations | groups | largest | AUROC, each apart | F1 | AUROC, copies together | F1",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table in Markdown, one line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.probe_tables")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("projects", nargs="+", metavar="PROJECT", type=Path)
    options = parser.parse_args(arguments)
    rows, header = TABLES[options.table]
    print(f"| project | {header} |\n|{'---|' * (header.count('|') + 2)}")
    for file in options.projects:
        for row in rows(Data.of(file)):
            print(f"| {file.stem} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
