"""Makes and tests the probe that comes with the program.

    workbench import samples.wb samples.jsonl && workbench run complete samples.wb --mode probe --no-remaining
    python -m tests.benchmarks.bundled_probe samples.wb --test kvret.wb star.wb --save

`samples.jsonl` is `sample_conversations(400, seed=22)`. The table says how well the probe tells whole from cut
conversations of other projects, which were scored in mode `probe` with the same model and layers.
"""

from __future__ import annotations

import argparse
import base64
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.bootstrap import figures
from engine.completeness import probe, probe_calibration
from engine.completeness.bundled_probe import PROBE_FILE
from engine.completeness.regression import Regression, States, fit_regression
from engine.completeness.stages.training_set import LogTexts
from engine.completeness.tables import hidden_states
from engine.completeness.truncation import draw_cuts, matched
from engine.conversations.tables.conversations import names, truth_by_conversation
from engine.model.adapter_files import base_fingerprint
from engine.model.catalog import FIRST_LAYERS, embedded_model
from engine.model.gguf_file import read_gguf
from engine.project.project import Project
from tests.engine.completeness.scored import all_entries

Names = NDArray[np.str_]
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
DRAWS = 20


@dataclass(frozen=True, slots=True)
class Data:
    """The conversations of a project that have states.

    Attributes:
        texts: Of the conversations.
        names: External id of each.
        states: Shape (boundaries, dimensions).
        owner: Index of the conversation of each boundary, shape (boundaries,).
        is_end: Whether each is the last one of its conversation, shape (boundaries,).
    """

    texts: LogTexts
    names: list[str]
    states: States
    owner: Ints
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
            texts = LogTexts.read(project, ids)
        # The places as they are now: those of the states are of the time when they were read.
        assert [[p.message for p in e.places] for e in entries] == [
            [p.message for p in places] for places in texts.places
        ]
        raw = [np.frombuffer(e.states, "<f2").reshape(len(e.places), -1) for e in entries]
        counts = texts.counts
        return cls(
            texts,
            [names_by_id[key] for key in texts.ids],
            np.concatenate(raw).astype(np.float32),
            np.repeat(np.arange(len(counts)), counts),
            np.concatenate([np.arange(count) == count - 1 for count in counts]),
        )


def truncation_figures(data: Data, p: Floats) -> tuple[float, float, float]:
    """Returns AUROC and F1 of telling whole from cut conversations by the scores of all boundaries, shape
    (boundaries,), means over the draws; and at the same step, NaN without pairs."""
    rows = [np.flatnonzero(data.owner == index) for index in range(len(data.names))]
    drawn = []
    for seed in range(DRAWS):
        cuts = draw_cuts(data.names, [len(r) for r in rows], seed)
        both = np.concatenate([p[cuts.whole], p[cuts.cut]]).tolist()
        label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
        each = figures(both, label)
        drawn.append((each["auroc"], each["f1"]))
    area, f1 = np.mean(drawn, axis=0).tolist()
    share, _ = matched([p[each] for each in rows])
    return area, f1, share.value if share else float("nan")


def fit(data: Data, ended: Bools, goal: Names) -> probe.Probe:
    """Fits to the sample conversations that did not break off, so that all ends are true ones.

    The strength is the one with the least log loss on goals that the regression did not see, since the probe is for
    conversations of other kinds; the calibration is made on the same held-out values.

    Args:
        ended: Whether each conversation ended, shape (conversations,).
        goal: Goal of each conversation.
    """
    is_used, goals = np.repeat(ended, data.texts.counts), np.repeat(goal, data.texts.counts)
    states, end = data.states[is_used], data.is_end[is_used]
    group, kind = data.owner[is_used], goals[is_used]
    weight = probe_calibration.even_weights(end, group)
    best = (np.inf, 0.0, np.empty(0))
    for strength in STRENGTHS:
        values = np.empty(len(end))
        for left_out in np.unique(kind):
            seen = kind != left_out
            even = probe_calibration.even_weights(end[seen], group[seen])
            regression = fit_regression(states[seen], end[seen], even, strength)
            values[~seen] = regression.log_odds(states[~seen])
        loss = float(weight @ np.logaddexp(0, np.where(end, -values, values)))
        best = min(best, (loss, strength, values), key=lambda each: each[0])
        print(f"strength {strength:g}: log loss on unseen goals {loss:.3f}", flush=True)
    _, strength, held_out = best
    line = probe_calibration.Calibration.fit_line(held_out, end, weight)
    of_all = fit_regression(states, end, weight, strength)
    return probe.Probe(
        Regression(line.slope * of_all.weights, line.slope * of_all.intercept + line.intercept),
        probe_calibration.Calibration(slope=1.0, intercept=0.0, broken=0.0),
    )


def save(made: probe.Probe, fingerprint: str, conversations: int) -> None:
    """Writes the file that comes with the program."""
    fields = {
        "base_fingerprint": fingerprint,
        "conversations": conversations,
        "intercept": made.regression.intercept,
        "layers": FIRST_LAYERS,
        "weights": base64.b64encode(made.regression.weights.astype("<f4").tobytes()).decode(),
    }
    PROBE_FILE.write_text(json.dumps(fields, indent=1) + "\n", "utf-8")


def main() -> None:
    """Fits the probe, prints a row for each project, and writes the file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--save", action="store_true", help=f"write {PROBE_FILE.name}")
    arguments = parser.parse_args()
    known = base_fingerprint(read_gguf(embedded_model()))
    if known is None:
        raise SystemExit("The built-in model has no fingerprint.")
    samples = Data.read(arguments.samples)
    with Project.open(arguments.samples, read_only=True) as project, project.reading() as conn:
        truth = dict(truth_by_conversation(conn))
    known_truth = [truth[key] for key in samples.texts.ids]
    ended = np.array([each["outcome"] != "broken_off" for each in known_truth])
    made = fit(samples, ended, np.array([each["goal"] for each in known_truth]))
    print("| project | AUROC | F1 at .5 | same place |\n|---|---|---|---|")
    for path in arguments.test:
        data = Data.read(path)
        p = made.p(data.states)
        area, f1, same_step = truncation_figures(data, p)
        print(f"| {path.stem} | {area:.3f} | {f1:.3f} | {same_step:.3f} |", flush=True)
    if arguments.save:
        save(made, known, int(ended.sum()))


if __name__ == "__main__":
    main()
