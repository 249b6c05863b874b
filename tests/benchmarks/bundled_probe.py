"""Makes and tests the probe that comes with the program.

    workbench import samples.wb samples.jsonl && workbench run complete samples.wb --mode probe --no-remaining
    python -m tests.benchmarks.bundled_probe samples.wb --test kvret.wb star.wb --save

`samples.jsonl` is `sample_conversations(400, seed=22)`. The table says how well the probe tells whole from cut
conversations of other projects, which were scored in mode `probe` with the same model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.completeness.bundled_probe import FILE, BundledProbe
from engine.model.base_fingerprint import base_fingerprint
from engine.model.catalog import embedded_model
from engine.model.gguf_file import read_gguf
from tests.benchmarks.probe_tables import Data, matched_share, truncated


def main() -> None:
    """Fits the probe, prints a row for each project, and writes the file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--save", action="store_true", help=f"write {FILE.name}")
    arguments = parser.parse_args()
    known = base_fingerprint(read_gguf(embedded_model()))
    if known is None:
        raise SystemExit("The built-in model has no fingerprint.")
    samples = Data.of(arguments.samples)
    made = BundledProbe.fit(samples.states, samples.end, samples.group, known)
    print("| project | AUROC | F1 at .5 | same place |\n|---|---|---|---|")
    for path in arguments.test:
        data = Data.of(path)
        p = made.p(data.states)
        area, f1 = truncated(p, data)
        print(f"| {path.stem} | {area:.3f} | {f1:.3f} | {matched_share(p, data):.3f} |", flush=True)
    if arguments.save:
        made.save(FILE)


if __name__ == "__main__":
    main()
