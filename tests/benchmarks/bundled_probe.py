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
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools
from engine.completeness import probe, probe_calibration
from engine.completeness.bundled_probe import PROBE_FILE
from engine.completeness.regression import Regression, fit_regression
from engine.conversations.tables.conversations import truth_by_conversation
from engine.model.adapter_files import base_fingerprint
from engine.model.catalog import FIRST_LAYERS, embedded_model
from engine.model.gguf_file import read_gguf
from engine.project.project import Project
from tests.benchmarks.words_tables import Data, truncation_figures

Names = NDArray[np.str_]
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


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
        row = truncation_figures(data, p)
        print(f"| {path.stem} | {row.auroc:.3f} | {row.f1:.3f} | {row.same_step:.3f} |", flush=True)
    if arguments.save:
        save(made, known, int(ended.sum()))


if __name__ == "__main__":
    main()
